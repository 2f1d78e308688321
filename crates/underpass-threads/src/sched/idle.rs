//! What an activation does when none of its threads can run: it polls the lines, then sleeps. Also
//! its periodic maintenance.

use crate::block::coarse_clock;
use crate::block::control::Control;
use crate::sched::activations;
use crate::sched::runner;
use crate::sched::scheduler::{OwnLines, SWITCHES, Scheduler};
use crate::sched::stealing;
use crate::sched::thread_end;
use crate::sched::unused_blocks;
use std::rc::Rc;
use std::sync::Arc;
use underpass_os::clock::now_ns;
use underpass_processor::{
    DonateTo, KeptPermit, Line, PROMPT, SleepRole, Spin, give_way, lines, sleep_and_donate,
};

impl Scheduler {
    /// Whether other threads want this processor: a hint, for a thread that polls.
    #[inline]
    pub(crate) fn wanted_soon(&self) -> bool {
        self.busy() || self.activation().summoned()
    }

    /// Whether anything but the current thread wants this processor. Beyond
    /// [`wanted_soon`](Self::wanted_soon) these are timers, threads of other activations that have
    /// not started, and incoming calls.
    pub(crate) fn wanted(&self) -> bool {
        self.wanted_soon()
            || self.timer_due()
            || (stealing::any() && !self.is_listener())
            || (self.dispatcher.get().is_none() && self.calls_pending())
    }

    /// Whether calls have come that this activation might serve.
    fn calls_pending(&self) -> bool {
        if self.activation().is_lent() {
            self.lent_pending()
        } else {
            self.lines().iter().any(|line| line.pending())
        }
    }

    /// Polls all lines, which delivers the replies that have come for other threads. Returns
    /// whether anything but the current thread wants this processor.
    pub(crate) fn poll_lines(&self) -> bool {
        self.lines().iter().for_each(|line| {
            line.poll();
        });
        self.passed(1);
        self.wanted()
    }

    /// Whether this activation is to serve the calls that have come: it is the leader, or it takes
    /// a line over.
    pub(crate) fn may_dispatch(&self, lines: &OwnLines) -> bool {
        activations::lead(self.number()) || lines.iter().any(|line| self.takes_over(&***line))
    }

    /// Whether this activation, which has nothing to do, is to take a line over. A call waits
    /// there for longer than an activation that polls would let it wait: the activation that serves
    /// the line is held up, or it is the leader, and this one owns fewer lines than its part.
    pub(crate) fn takes_over(&self, line: &dyn Line) -> bool {
        line.pending() && (waits_too_long(line) || self.takes_more(line))
    }

    /// Whether another activation is the leader, so that this one need not poll. It polls all the
    /// same while threads of its own wait.
    fn led_by_another(&self) -> bool {
        self.live() == 0 && !activations::lead(self.number())
    }

    /// Whether the lines have changed since this activation last read them.
    #[inline]
    pub(crate) fn stale(&self) -> bool {
        self.view.borrow().stale()
    }

    /// The line of this number, for the dispatcher. The dispatcher holds this one line, so a
    /// procedure that stays long keeps no other alive.
    #[inline]
    pub(crate) fn line(&self, number: usize) -> Option<Rc<Arc<dyn Line>>> {
        self.lines.borrow().get(number).cloned()
    }

    /// The lines to poll.
    pub(crate) fn lines(&self) -> OwnLines {
        if self.stale() {
            let new: OwnLines = self.view.borrow_mut().get().iter().cloned().map(Rc::new).collect();
            let gone = missing(&self.lines.borrow(), &new);
            self.lines.replace(new);
            self.leave_small_stack();
            if !gone.is_empty() {
                // This may drop the last reference to a line, and with it an implementation. Its
                // destructor wants a thread to run on.
                // SAFETY: the thread borrows nothing, and its block is from the registry.
                unsafe { start_detached(unused_blocks::take(0), move || drop(gone)) };
            }
        }
        self.lines.borrow().clone()
    }

    pub(crate) fn timer_due(&self) -> bool {
        self.timers().borrow().next().is_some_and(|deadline| deadline <= now_ns())
    }

    /// Polls the lines, and starts a dispatcher if calls have come.
    pub(crate) fn poll(&'static self) {
        if self.is_listener() {
            self.end_loans();
        }
        if self.stale() {
            self.lines();
        }
        if self.lines.borrow().is_empty() {
            return;
        }
        self.passed(1);
        let lines = self.lines();
        lines.iter().for_each(|line| {
            line.poll();
            // This activation has had other things to do since it last polled, and gives the peer
            // no processor soon. So the peer is woken now.
            if line.overdue() {
                line.call();
            }
        });
        self.notify_again_in_time(&lines);
        if self.dispatcher.get().is_none()
            && self.calls_pending()
            && (self.activation().is_lent() || self.may_dispatch(&lines))
        {
            self.begin_dispatcher();
        }
    }

    /// Retries notifications to peers now and then: threads keep this activation busy, so it does
    /// not come to its sleep, which would retry them.
    fn notify_again_in_time(&self, lines: &OwnLines) {
        let now = now_ns();
        if now - self.notified_again.get() >= PROMPT {
            self.notified_again.set(now);
            lines.iter().for_each(|line| line.notify_again_if_late());
        }
    }

    /// Notes that the calling thread waits without a pause, for about as long as `looks` polls of a
    /// thread that is answered. Returns whether to run [maintenance](Self::maintain) when the wait
    /// is over.
    #[inline]
    pub(crate) fn waits(&self, looks: u32) -> bool {
        let waits = self.waits.get().saturating_add(looks);
        self.waits.set(waits);
        waits >= Spin::BATCH
    }

    /// Maintenance on behalf of a thread that is always answered at once, and so never comes to the
    /// scheduler. It does what the scheduler would: it polls the lines, makes those dormant that
    /// carry nothing, and gives way if others want this processor. Threads whose timers are due are
    /// among those.
    #[cold]
    #[inline(never)]
    pub(crate) fn maintain(&'static self) {
        self.waits.set(0);
        self.passed(Spin::BATCH);
        // Overdue notifications of its other threads, as in `poll`.
        self.lines().iter().filter(|line| line.overdue()).for_each(|line| line.call());
        // A handler that runs on the stack of its dispatcher has to pause before another thread can
        // dispatch.
        let calls = || self.serving.is_some() && self.calls_pending();
        if self.poll_lines() || calls() {
            // The scheduler runs the timers, the lines and the unstarted threads.
            self.switches.set(SWITCHES);
            self.yield_now();
        }
    }

    /// Whether polling the lines may find something, or somebody wants this processor. A cheap
    /// check between polls.
    #[inline]
    pub(crate) fn stirs(&self, lines: &[Rc<Arc<dyn Line>>]) -> bool {
        self.wanted_soon() || lines.iter().any(|line| line.stirs())
    }

    /// Notes that this activation has polled all lines `times` times. Lines that carry nothing
    /// become dormant after a certain number.
    pub(crate) fn passed(&self, times: u32) {
        if lines::passed(times) {
            // A sleeping activation must not keep a dormant line alive.
            activations::wake_all_idle();
        }
    }

    /// Whether there are no lines to poll.
    #[inline]
    pub(crate) fn sees_no_lines(&self) -> bool {
        !self.stale() && self.lines.borrow().is_empty()
    }

    /// Polls until there is something to do, or sleeps; then returns.
    pub(crate) fn idle(&'static self) {
        if let Some(cpu) = self.activation().listens_on() {
            return self.idle_listener(cpu);
        }
        let mut spin = Spin::new(&self.adaptive_spin);
        self.fire();
        self.runners.reclaim(|| self.wanted_soon());
        loop {
            let lines = self.lines();
            let spun_in_vain = self.spun_in_vain.take();
            let pays = lines.iter().any(|line| line.elsewhere()) && !spun_in_vain && !self.led_by_another();
            let shares = lines.iter().any(|line| line.shares());
            loop {
                let replied = lines.iter().fold(false, |any, line| line.poll() | any);
                if self.wanted_soon() {
                    return;
                }
                if !replied && lines.iter().any(|line| line.pending()) && self.may_dispatch(&lines) {
                    return self.begin_dispatcher();
                }
                if self.donate() {
                    return;
                }
                if self.stale() || !pays || !spin.again(shares, || self.stirs(&lines)) || spin.fresh_batch() {
                    break;
                }
            }
            if pays {
                self.passed(Spin::BATCH);
            }
            if self.wanted_soon() || self.timer_due() || self.may_find() {
                return;
            }
            // Work that this activation would not take is for the activation that gets its
            // processor.
            if !self.stale() && (!pays || spin.over() || stealing::any()) {
                break;
            }
        }
        let since = spin.since();
        drop(spin);
        self.sleep(None);
        if self.ended.get() {
            return;
        }
        self.adaptive_spin.slept(now_ns() - since);
        self.passed(lines::SLEEP);
        // If more than one call has come, another processor may help. That one asks in the same way
        // whether there are still more.
        let calls = |line: &Rc<Arc<dyn Line>>| usize::from(line.pending()) + usize::from(line.backlog());
        if self.lines().iter().map(calls).sum::<usize>() > 1 {
            activations::invite();
        }
    }

    /// Donates this processor to a peer that has calls of ours and no processor. Sleeps until it
    /// comes back or there is something to do. Returns whether there was such a peer.
    #[inline]
    pub(crate) fn donate(&'static self) -> bool {
        let lines = self.lines.borrow().clone();
        let Some(line) = lines.iter().find(|line| line.owed()) else { return false };
        let look = || {
            lines.iter().for_each(|line| {
                line.poll();
            });
            self.wanted_soon() || self.timer_due() || self.stale() || lines.iter().any(|line| line.pending())
        };
        let slept = !give_way(&***line, look);
        if slept {
            self.sleep(Some(&***line));
        }
        self.passed(if slept { lines::SLEEP } else { 1 });
        true
    }

    fn sleep(&'static self, donee: Option<&dyn Line>) {
        activations::follow(self.number());
        let lines = self.lines();
        let timer = self.timers().borrow().next();
        let watched = lines.iter().map(|line| &***line);
        coarse_clock::set();
        let rest = |last: bool| {
            // By the activation server's count the processor stays this domain's while the peer has
            // it.
            let kept = donee.map_or(KeptPermit::Unneeded, |_| self.activation().keep_for_donation());
            let donee = donee.filter(|_| kept != KeptPermit::Gone);
            // With the permit kept, other activations may retire without listening.
            let last = last || kept == KeptPermit::Kept;
            let others = activations::all().nth(1).is_some();
            let alone = last && self.activation().is_alone();
            let role = if last { SleepRole::Last { others, alone } } else { SleepRole::Spare };
            if last {
                activations::set_watched(true);
            }
            // The last activation to sleep wakes up in time to free unused stacks.
            let due = runner::due().filter(|_| last);
            let deadline = timer.into_iter().chain(due).chain(self.ends_at()).min();
            let donee = donee.map(|line| DonateTo { line, forced: false });
            sleep_and_donate(self.activation().parker(), watched.clone(), role, donee, deadline, || {
                // Changes since the last look must be seen before the sleep. Calls that nobody
                // takes are to be served.
                (role == SleepRole::Spare && watched.clone().any(|line| self.takes_over(line)))
                    || self.busy()
                    || self.timer_due()
                    || self.may_find()
                    || self.stale()
            });
            if last {
                activations::set_watched(false);
            }
            if kept == KeptPermit::Kept {
                self.activation().use_kept();
            }
            self.is_due()
        };
        if self.activation().idle(rest) {
            self.ends();
        }
        coarse_clock::set();
    }
}

/// Starts a thread that nobody joins.
///
/// # Safety
/// What `body` borrows outlives the thread. `control` is from the registry.
unsafe fn start_detached(control: &'static Control, body: impl FnOnce()) {
    // SAFETY: a block from the registry is empty, and nobody else uses it. The caller vouches for
    // the rest.
    unsafe { stealing::start(control, body) };
    // SAFETY: the thread was started just now, and nobody else has a handle of it.
    unsafe { thread_end::detach(control) };
}

/// Those of `old` that are not among `new`. Both have about the same order, which makes the search
/// fast.
fn missing(old: &[Rc<Arc<dyn Line>>], new: &[Rc<Arc<dyn Line>>]) -> Vec<Arc<dyn Line>> {
    let mut next = 0;
    let mut gone = Vec::new();
    for line in old {
        let same = |other: &Rc<Arc<dyn Line>>| Arc::ptr_eq(other, line);
        let behind = new[next..].iter().position(same).map(|place| next + place);
        let place = behind.or_else(|| new[..next].iter().position(same));
        match place {
            Some(place) => next = place + 1,
            None => gone.push(Arc::clone(line)),
        }
    }
    gone
}

/// How often to look whether a call waits for long: about 2 µs.
const LOOKS: u32 = 40;

/// Whether calls wait on `line` for some time, and none is taken. Where calls come all the time
/// there is always one that waits, so the first alone says nothing.
fn waits_too_long(line: &dyn Line) -> bool {
    let taken = line.taken();
    looks().all(|()| line.pending() && line.taken() == taken)
}

/// Whether calls wait on `line` for some time, whether or not some are taken.
pub(crate) fn is_loaded(line: &dyn Line) -> bool {
    looks().all(|()| line.pending())
}

/// The moments at which to look.
fn looks() -> impl Iterator<Item = ()> {
    (0..LOOKS).map(|_| std::hint::spin_loop())
}
