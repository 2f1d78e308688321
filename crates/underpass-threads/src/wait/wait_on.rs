//! Waiting for a latch: the caller's context stays loaded while there is nothing else to do, and
//! gives way when there is.

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
use underpass_processor::{Donee, Habit, Line, Role, Spin, give_way, sleep_and_donate};

/// Something that one thread waits for, and another opens.
///
/// # Safety
/// One that `register` has taken on is given out once: to who opens it, and then wakes the waiter
/// once, or to who abandons the wait.
pub unsafe trait Opens: Wait {
    /// Whether it is open; then what was done before it was opened is seen.
    fn is_open(&self) -> bool;

    /// Has `me` woken by the opening; `false` if it is open by now.
    fn register(&self, me: &'static Control) -> bool;

    /// Whether something seems to have come that opens it, for who looks again and again: little
    /// enough to do to see it at once.
    #[inline(always)]
    fn stirs(&self) -> bool {
        true
    }

    /// Looks [`Spin::ROW`] times in a row whether what opens it has come, having done before all
    /// that can be done before; says whether it is open then. Nothing where that can't be.
    #[inline(always)]
    fn watch(&self) -> Option<bool> {
        None
    }

    /// Looks whether what opens it has come over `line`; says whether it is open then.
    #[inline(always)]
    fn poll(&self, line: &dyn Line) -> bool {
        line.poll() && self.is_open()
    }
}

/// The calling thread where it will block as soon as it waits, since others are ready to run on its
/// processor.
#[derive(Clone, Copy)]
pub struct BlocksAtOnce {
    own: &'static Scheduler,
    me: &'static Control,
}

impl BlocksAtOnce {
    /// The calling thread, if it is one.
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

/// As [`wait_on`], without a line and a deadline, by one that was registered before `what` could be
/// opened.
///
/// # Safety
/// The caller is the thread of `turn`, was not suspended since it was told so, and has been
/// registered, once, as by [`Opens::register`].
#[inline(always)]
pub unsafe fn wait_registered(turn: BlocksAtOnce, what: &impl Opens) -> Woken {
    let BlocksAtOnce { own, me } = turn;
    // SAFETY: as the caller says.
    unsafe { on_activation(own, me, what, None, me.calls_ended_by()) }
}

/// Waits until `what` is open; or until `deadline_ns` or, as it is waited for on behalf of a call,
/// until that is to [end](crate::calls_end), if that comes first.
///
/// Meanwhile the caller polls `line`, if what it waits for comes from there. A user-level thread
/// does so only while its activation has nothing else to run (URPC, footnote 1), and blocks
/// otherwise. A plain kernel thread polls for about as long as a wake-up would cost, then sleeps in
/// the kernel.
///
/// All of it that leads to a switch goes into the caller: the processor foretells returns after a
/// switch wrongly.
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

/// Why a wait ends for which nothing more will be done.
#[inline]
fn open_or(what: &impl Opens, otherwise: Woken) -> Woken {
    if what.is_open() { Woken::Woken } else { otherwise }
}

/// Whether nothing but the calling thread wants its processor: a hint.
#[inline]
pub fn alone() -> bool {
    scheduler::running().is_none_or(|(own, _)| !own.wanted_soon())
}

/// Whether the calling thread runs on a processor that the peer of `line` has donated, and that is
/// to go back.
#[inline]
pub fn lent_by(line: &dyn Line) -> bool {
    scheduler::running().is_some_and(|(own, _)| own.is_lent_by(line))
}

/// *Forced donation* (URPC, 3.1): gives the calling thread's processor to the peer of `line`, where
/// a call is owed that opens `what`, though other threads may be ready. They wait until it comes
/// back. Does nothing on a plain kernel thread, whose wait does the same.
#[cold]
pub fn force(what: &impl Opens, line: &dyn Line, deadline_ns: Option<u64>) {
    let Some((own, _)) = scheduler::running() else { return };
    // What is told meanwhile wakes it, and is looked at when this thread pauses.
    let _held = critical();
    let given = give_way(line, || line.poll() && what.is_open());
    if given && what.is_open() {
        return;
    }
    line.enter();
    let donee = (!given).then_some(Donee { line, forced: true });
    sleep_and_donate(
        own.activation().parker(),
        iter::once(line),
        Role::ReplyWaiter { alone: false },
        donee,
        deadline_ns,
        || what.is_open(),
    );
    line.leave(1);
}

/// Waits until `latch` is open, and nothing else.
pub(crate) fn wait_for(latch: &Latch) {
    let me = control();
    if !latch.is_open() && latch.register(me) {
        // SAFETY: the caller has registered itself just now; the gate gives it out once.
        unsafe { suspend(me, latch, None, false) };
    }
}

/// Suspends the caller until `what` is open, the deadline has passed or its call is to end.
#[inline(always)]
fn block(what: &impl Opens, deadline_ns: Option<u64>) -> Woken {
    let me = control();
    if !what.register(me) {
        return Woken::Woken;
    }
    // SAFETY: the caller has registered itself just now; what it waits for gives it out once, as
    // `Opens` promises.
    unsafe { suspend_unless(me, what, deadline_ns, me.calls_ended_by()) }
}

/// Polls while nobody else wants the processor; says how that ended, unless the caller is to block.
fn poll_for(
    own: &'static Scheduler,
    what: &impl Opens,
    line: &dyn Line,
    deadline_ns: Option<u64>,
) -> Option<Woken> {
    let mut spin = Spin::new(&own.reply_habit);
    // Noted before anything comes, as what is written then holds the next post up (decision 0052).
    let long = own.waits(1);
    loop {
        let gives_way = own.wanted_soon() || line.owed() || !line.elsewhere();
        let watched = if gives_way || what.is_open() { None } else { what.watch() };
        // At once after the look that saw something.
        if watched.unwrap_or_else(|| what.poll(line)) {
            if spin.has_begun() {
                line.spun(true);
            }
            // The thread may come back on another activation, and this habit is of this one.
            drop(spin);
            if long {
                own.maintain();
            }
            return Some(Woken::Woken);
        }
        if what.is_open() {
            return Some(Woken::Woken);
        }
        let stirs = || what.stirs() || own.wanted_soon();
        // What was polled may have others made ready.
        if gives_way || own.wanted_soon() || !goes_on(&mut spin, watched, line, stirs) {
            break;
        }
        if spin.fresh_batch() {
            if own.glance() {
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
    // By now a migrating thread may run on another activation, whose habit it is then.
    scheduler::anew().reply_habit.slept(now_ns() - spin.since());
    Some(woken)
}

/// Gives the processor to the peer of `line`, if a call is owed there and no other thread is about
/// to run, while the caller's context stays loaded (URPC, footnote 1); says whether `what` is open
/// then.
fn donate_at_once(own: &'static Scheduler, what: &impl Opens, line: &dyn Line) -> bool {
    /// A donated call takes as long as so many that are polled for, roughly.
    const DONATED: u32 = 16;
    // A listener's processor is not its own to give.
    if !line.owed() || own.wanted_soon() || own.is_listener() {
        return false;
    }
    // The caller stays on this activation meanwhile; what it is told it looks at when it pauses.
    let held = critical();
    let given = give_way(line, || what.poll(line) || what.is_open() || own.wanted_soon());
    drop(held);
    let opened = given && what.is_open();
    if opened && own.waits(DONATED) {
        own.maintain();
    }
    opened
}

/// After looks that found nothing, some in a row if it was `watched`: whether to look again.
#[inline(always)]
fn goes_on(spin: &mut Spin<'_>, watched: Option<bool>, line: &dyn Line, stirs: impl Fn() -> bool) -> bool {
    match watched {
        Some(_) => spin.after(Spin::ROW, line.shares()),
        None => spin.again(line.shares(), stirs),
    }
}

thread_local! {
    /// How soon the replies come that this plain kernel thread polls for.
    static HABIT: Habit = const { Habit::new() };
}

fn sleep_on(what: &impl Opens, line: &dyn Line, deadline_ns: Option<u64>) -> Woken {
    HABIT.with(|habit| sleep_by_habit(habit, what, line, deadline_ns))
}

fn sleep_by_habit(habit: &Habit, what: &impl Opens, line: &dyn Line, deadline_ns: Option<u64>) -> Woken {
    let me = control();
    let mut spin = Spin::new(habit);
    // Once registered, it ends by `wake` or by `abandon`.
    let mut registered = false;
    loop {
        let gives_way = line.owed() || !line.elsewhere();
        let watched = if gives_way || what.is_open() { None } else { what.watch() };
        if what.is_open() || watched.unwrap_or_else(|| what.poll(line)) {
            break;
        }
        if !gives_way && goes_on(&mut spin, watched, line, || what.stirs()) {
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
        line.enter();
        // Whoever wakes this thread calls its parker, by a full fence.
        let donee = line.owed().then_some(Donee { line, forced: false });
        let since = spin.since();
        sleep_and_donate(
            me.parker(),
            iter::once(line),
            Role::ReplyWaiter { alone: true },
            donee,
            deadline_ns,
            || what.is_open(),
        );
        line.leave(1);
        if spin.in_vain() {
            line.spun(false);
        }
        if spin.over() {
            habit.slept(now_ns() - since);
            spin.reset();
        }
    }
    if spin.has_begun() && !spin.over() {
        line.spun(true);
    }
    if registered {
        // Open, so the wake is under way or here.
        // SAFETY: the caller has registered itself, once; who opens it wakes it.
        unsafe { suspend(me, what, None, false) };
    }
    Woken::Woken
}
