//! Waiting for a latch or a reply. The caller's context stays loaded while there is nothing else to
//! run, and gives way when there is.

use crate::block::control::Control;
use crate::block::suspension::{Wait, Woken};
use crate::sched::no_preempt::critical;
use crate::sched::scheduler::{self, Scheduler};
use crate::sched::switch_hooks;
use crate::wait::latch::Latch;
use crate::wait::me::control;
use crate::wait::suspend::{on_activation, suspend, suspend_unless};
use std::iter;
use underpass_os::clock::now_ns;
use underpass_processor::{AdaptiveSpin, DonateTo, Line, SleepRole, Spin, give_way, sleep_and_donate};

/// Something that one thread waits for, and another opens.
///
/// # Safety
/// A thread that `register` has accepted is given out once: to the opener, which then wakes it
/// once, or to a call of `abandon`.
pub unsafe trait Opens: Wait {
    /// Whether it is open. If so, the caller sees what was done before the opening.
    fn is_open(&self) -> bool;

    /// Registers `me` to be woken by the opening. `false`: it is open already.
    fn register(&self, me: &'static Control) -> bool;

    /// Whether something that opens it seems to have come. Cheap enough to ask again and again.
    #[inline(always)]
    fn stirs(&self) -> bool {
        true
    }

    /// Polls `line` for what opens it. Returns whether it is open then.
    #[inline(always)]
    fn poll(&self, line: &dyn Line) -> bool {
        line.poll() && self.is_open()
    }
}

/// Shows that the calling thread will block as soon as it waits, because other threads are ready on
/// its processor.
#[derive(Clone, Copy)]
pub struct BlocksAtOnce {
    own: &'static Scheduler,
    me: &'static Control,
}

impl BlocksAtOnce {
    /// The calling thread, if other threads are ready on its processor.
    #[inline(always)]
    pub fn here() -> Option<Self> {
        let (own, me) = scheduler::running()?;
        (!own.outside.ready.is_empty()).then_some(Self { own, me })
    }

    /// The thread.
    #[inline(always)]
    pub fn thread(&self) -> &'static Control {
        self.me
    }
}

impl std::fmt::Debug for BlocksAtOnce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BlocksAtOnce").field(self.me).finish()
    }
}

/// As [`wait_on`], without a line and a deadline, for a caller that was registered before `what`
/// could be opened.
///
/// # Safety
/// The caller is the thread of `caller`. It was not suspended since it got `caller`, and has been
/// registered once, as by [`Opens::register`].
#[inline(always)]
pub unsafe fn wait_registered(caller: BlocksAtOnce, what: &impl Opens) -> Woken {
    let BlocksAtOnce { own, me } = caller;
    // SAFETY: as the caller says.
    unsafe { on_activation(own, me, what, None, me.calls_ended_by()) }
}

/// Waits until `what` is open, until `deadline_ns`, or until the caller's calls
/// [end](crate::calls_end), whichever comes first.
///
/// Meanwhile the caller polls `line`, if what it waits for comes from there. A user-level thread
/// polls only while its activation has nothing else to run (URPC, footnote 1), and blocks
/// otherwise. A plain kernel thread polls for about as long as a wake-up would cost, then sleeps in
/// the kernel.
///
/// Everything that leads to a switch is inlined into the caller: after a switch, the CPU predicts
/// returns wrongly.
#[inline(always)]
pub fn wait_on<W: Opens>(what: &W, line: Option<&dyn Line>, deadline_ns: Option<u64>) -> Woken {
    if what.is_open() {
        return Woken::Woken;
    }
    if let Some(line) = line {
        match scheduler::running() {
            Some((own, _)) => {
                if !own.wanted_soon()
                    && let Some(opened) = poll_for(own, what, line, deadline_ns)
                {
                    return opened;
                }
            }
            None => return sleep_on(what, line, deadline_ns),
        }
    }
    block(what, deadline_ns)
}

/// The reason for the end of a wait: `otherwise`, unless `what` is open.
#[inline]
fn open_or(what: &impl Opens, otherwise: Woken) -> Woken {
    if what.is_open() { Woken::Woken } else { otherwise }
}

/// Whether nothing but the calling thread wants its processor: a hint.
#[inline]
pub fn alone() -> bool {
    scheduler::running().is_none_or(|(own, _)| !own.wanted_soon())
}

/// The calling thread is about to post a reply over `line`. Returns whether it runs on a processor
/// that the peer of `line` has donated. Then nobody wakes the peer for the reply: it is woken when
/// the processor goes back.
#[inline]
pub fn defers_wake_up(line: &dyn Line) -> bool {
    scheduler::running().is_some_and(|(own, _)| own.replies_on_loan(line))
}

/// *Forced donation* (URPC, 3.1): donates the calling thread's processor to the peer of `line`,
/// which owes a call that opens `what`. Other threads may be ready: they wait until it comes back.
/// Does nothing on a plain kernel thread: its wait does the same.
///
/// The caller goes on as soon as `what` is open, its calls [end](crate::calls_end), or the deadline
/// has passed. The peer may keep the processor longer. Then the kernel divides the CPU.
#[cold]
pub fn force(what: &impl Opens, line: &dyn Line, deadline_ns: Option<u64>) {
    let Some((own, me)) = scheduler::running() else { return };
    // A remote wake-up ends the sleep. It is handled when this thread pauses.
    let held = critical();
    let given = give_way(line, || {
        line.poll();
        what.is_open() || me.has(me.calls_ended_by())
    });
    // Registered, so that the opener wakes this thread.
    if (given && what.is_open()) || !what.register(me) {
        return;
    }
    line.enter();
    let donee = (!given).then_some(DonateTo { line, forced: true });
    // An injected task may be what ends this thread's calls.
    let ends = || what.is_open() || me.has(me.calls_ended_by()) || own.outside().is_injected();
    let role = SleepRole::ReplyWaiter { alone: false };
    sleep_and_donate(own.activation().parker(), iter::once(line), role, donee, deadline_ns, ends);
    line.leave(1);
    if line.owed() {
        // Nothing was donated, as the caller is to stop waiting.
        line.call();
    }
    let opened = !what.abandon(me);
    drop(held);
    if opened {
        // SAFETY: the caller has registered itself once just now, and the opener, which has taken
        // it, wakes it once.
        unsafe { suspend(me, what, None, false) };
    } else {
        line.poll();
    }
}

/// Waits until `latch` is open. Neither a deadline nor a cancellation ends the wait.
pub(crate) fn wait_for(latch: &Latch) {
    let me = control();
    if !latch.is_open() && latch.register(me) {
        // SAFETY: the caller has registered itself just now, and the gate gives it out once.
        unsafe { suspend(me, latch, None, false) };
    }
}

/// Suspends the caller until `what` is open, the deadline has passed or its calls end.
#[inline(always)]
fn block(what: &impl Opens, deadline_ns: Option<u64>) -> Woken {
    let me = control();
    if !what.register(me) {
        return Woken::Woken;
    }
    // SAFETY: the caller has registered itself just now. `what` gives it out once, as `Opens`
    // promises.
    unsafe { suspend_unless(me, what, deadline_ns, me.calls_ended_by()) }
}

/// Polls while nobody else wants the processor. Returns how the wait ended, or `None` if the caller
/// is to block.
fn poll_for(
    own: &'static Scheduler,
    what: &impl Opens,
    line: &dyn Line,
    deadline_ns: Option<u64>,
) -> Option<Woken> {
    let mut spin = Spin::new(&own.reply_adaptive_spin);
    // Noted before anything comes: a write after the arrival would delay the next post (decision
    // 0052).
    let long = own.waits(1);
    loop {
        // At once after the look that saw something.
        if what.poll(line) {
            if spin.has_begun() {
                line.spun(true);
            }
            // Maintenance may bring the thread back on another activation. `spin` holds the
            // adaptive-spin state of this one.
            drop(spin);
            if long {
                own.maintain();
            }
            return Some(Woken::Woken);
        }
        if what.is_open() {
            return Some(Woken::Woken);
        }
        let gives_way = own.wanted_soon() || line.owed() || !line.elsewhere();
        if gives_way || !spin.again(line.shares(), || what.stirs() || own.wanted_soon()) {
            break;
        }
        if spin.fresh_batch() {
            if own.poll_lines() {
                break;
            }
            if deadline_ns.is_some_and(|deadline| deadline <= now_ns()) {
                return Some(open_or(what, Woken::Late));
            }
        }
    }
    if !spin.over() {
        drop(spin);
        return donate_at_once(own, what, line).then_some(Woken::Woken);
    }
    if spin.in_vain() {
        line.spun(false);
    }
    let woken = block(what, deadline_ns);
    // A migrating thread may run on another activation by now. The adaptive-spin state is that
    // one's then.
    scheduler::anew().reply_adaptive_spin.slept(now_ns() - spin.since());
    Some(woken)
}

/// Donates the processor to the peer of `line`, if that owes a call and no other thread is about to
/// run. The caller's context stays loaded (URPC, footnote 1). Returns whether `what` is open then.
fn donate_at_once(own: &'static Scheduler, what: &impl Opens, line: &dyn Line) -> bool {
    /// A donated call counts as this many calls that are polled for: it takes about as long.
    const DONATED: u32 = 16;
    // A listener must not donate a processor that it was lent.
    if !line.owed() || own.wanted_soon() || own.is_listener() {
        return false;
    }
    // The caller stays on this activation meanwhile. Remote wake-ups are handled when it pauses.
    let held = critical();
    let given = give_way(line, || what.poll(line) || what.is_open() || own.wanted_soon());
    drop(held);
    let opened = given && what.is_open();
    if opened && own.waits(DONATED) {
        own.maintain();
    }
    opened
}

thread_local! {
    /// Adaptive-spin state: how soon the replies come that this plain kernel thread polls for.
    static ADAPTIVE_SPIN: AdaptiveSpin = const { AdaptiveSpin::new() };
}

fn sleep_on(what: &impl Opens, line: &dyn Line, deadline_ns: Option<u64>) -> Woken {
    ADAPTIVE_SPIN.with(|adaptive_spin| sleep_adaptively(adaptive_spin, what, line, deadline_ns))
}

/// Sleeps until something may have come over `line`, a waker of this kernel thread has come, or the
/// deadline has passed.
fn sleep_registered(me: &'static Control, what: &impl Opens, line: &dyn Line, deadline_ns: Option<u64>) {
    line.enter();
    // A waker of this thread unparks it, with a full fence.
    let donee = line.owed().then_some(DonateTo { line, forced: false });
    let role = SleepRole::ReplyWaiter { alone: true };
    sleep_and_donate(me.parker(), iter::once(line), role, donee, deadline_ns, || what.is_open());
    line.leave(1);
}

fn sleep_adaptively(
    adaptive_spin: &AdaptiveSpin,
    what: &impl Opens,
    line: &dyn Line,
    deadline_ns: Option<u64>,
) -> Woken {
    let me = control();
    let mut spin = Spin::new(adaptive_spin);
    // Once registered, the wait ends by `wake` or by `abandon`.
    let mut registered = false;
    loop {
        if what.is_open() || what.poll(line) {
            break;
        }
        let gives_way = line.owed() || !line.elsewhere();
        if !gives_way && spin.again(line.shares(), || what.stirs()) {
            continue;
        }
        let cancelled = me.has(me.calls_ended_by());
        if cancelled || deadline_ns.is_some_and(|deadline| deadline <= now_ns()) {
            if !registered || what.abandon(me) {
                return open_or(what, if cancelled { Woken::Cancelled } else { Woken::Late });
            }
            break;
        }
        if line.owed() && give_way(line, || line.poll() && what.is_open()) {
            continue;
        }
        if !registered && !what.register(me) {
            return Woken::Woken;
        }
        registered = true;
        switch_hooks::refuse_waiting(what);
        let since = spin.since();
        sleep_registered(me, what, line, deadline_ns);
        if spin.in_vain() {
            line.spun(false);
        }
        if spin.over() {
            adaptive_spin.slept(now_ns() - since);
            spin.reset();
        }
    }
    if spin.has_begun() && !spin.over() {
        line.spun(true);
    }
    if registered {
        // It is open, so the wake-up is under way or has come.
        // SAFETY: the caller has registered itself once, and the opener wakes it once.
        unsafe { suspend(me, what, None, false) };
    }
    Woken::Woken
}
