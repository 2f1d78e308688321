//! The monitor: one kernel thread that ends time slices, and finds activations that are blocked in
//! the kernel without having announced it.
//!
//! It ticks while something waits for a processor, or may. Otherwise it sleeps until woken, and
//! costs nothing. What it remembers of each activation is in `observation.rs`.
//!
//! After its start it takes neither lock nor memory. A preempted activation may hold any lock, the
//! allocator's among them, and it needs the monitor to get a processor again.

mod observation;

use crate::permits::protocol::Environment;
use crate::permits::{protocol, state};
use crate::pool::registry::MOST_ACTIVATIONS;
use crate::pool::sharing::sharing;
use crate::pool::{MONITOR, maximum};
use crate::{Activation, CallProgress, Pool, Upcall, lines, metrics, preempt};
use observation::{History, Observation};
use std::sync::atomic::Ordering;
use underpass_os::barrier;
use underpass_os::clock::now_ns;
use underpass_os::thread::TaskState;

/// The time between two ticks, in ns. Unannounced blocking is found after one to two ticks.
const TICK: u64 = 5_000_000;
/// Ticks that an activation may run while others wait.
pub(crate) const SLICE: u32 = 2;
/// Ticks that unstarted work may wait while the activations that run switch threads.
const PATIENCE: u32 = 4;
/// Ticks with nothing to do before the monitor sleeps until woken, so that short waits don't wake
/// it each time.
const QUIET: u32 = 4;
/// The time between two reviews of the processors that this domain may use, in ns.
const REVIEW: u64 = 1_000_000_000;

pub(crate) struct Monitor {
    pool: &'static Pool,
    upcall: &'static dyn Upcall,
    /// By the number of the activation.
    histories: Box<[History]>,
    /// What a tick sees, with room for all activations.
    seen: Vec<Observation>,
    /// The activation that was published as waiting to take over for unstarted work, or is being
    /// started for that: its number, and how many permits it had been given by then.
    helper: Option<(usize, u32)>,
    /// For how many ticks there has been unstarted work.
    unstarted: u32,
    /// For how many ticks calls have waited that no activation took.
    stalled: u32,
    quiet: u32,
    reviewed: u64,
}

impl Monitor {
    pub(crate) fn new(pool: &'static Pool, upcall: &'static dyn Upcall) -> Self {
        Self {
            pool,
            upcall,
            histories: std::iter::repeat_with(History::default).take(MOST_ACTIVATIONS).collect(),
            seen: Vec::with_capacity(MOST_ACTIVATIONS),
            helper: None,
            unstarted: 0,
            stalled: 0,
            quiet: 0,
            reviewed: now_ns(),
        }
    }

    pub(crate) fn run(mut self) -> ! {
        preempt::number();
        let mut next = now_ns() + TICK;
        loop {
            let now = now_ns();
            if now >= next {
                // Missed ticks are not made up for.
                next = now + TICK;
                self.review(now);
                self.tick();
            }
            if self.quiet < QUIET {
                MONITOR.sleep_until(next);
                continue;
            }
            MONITOR.sleep_until_unparked(|| !busy(self.pool, self.upcall));
            self.quiet = 0;
            next = now_ns() + TICK;
            self.start_again();
            self.pool.publish_wanted();
        }
    }

    /// Restarts all measurements: the time of the sleep does not count.
    fn start_again(&mut self) {
        (self.unstarted, self.stalled) = (0, 0);
        let _ = lines::call_progress();
        for activation in self.pool.activations() {
            self.history(activation).start_again(activation);
        }
    }

    fn history(&mut self, activation: &Activation) -> &mut History {
        &mut self.histories[activation.number()]
    }

    /// Reviews the processors of this domain, once a second: the affinity and the quotas may have
    /// changed.
    fn review(&mut self, now: u64) {
        if now - self.reviewed >= REVIEW {
            self.reviewed = now;
            if maximum::varies() || sharing().is_some() {
                self.pool.starts.request_review();
            }
        }
    }

    fn tick(&mut self) {
        self.upcall.tick();
        let unstarted = self.upcall.unstarted();
        if unstarted {
            protocol::request(self.pool);
        }
        let stalled = self.calls_stall();
        let counts = self.pool.counts();
        // A permit that is left in a blocking call is free for a waiter, and is the first to go if
        // there are too many.
        if (counts.waiting > 0 || counts.running > counts.maximum) && protocol::detach(self.pool) {
            protocol::free(self.pool);
        }
        let mut seen = std::mem::take(&mut self.seen);
        seen.extend(self.pool.activations().map(|activation| self.history(activation).look(activation)));
        let owed = !self.pool.counts().free() && seen.iter().any(|seen| seen.at == state::BLOCKED);
        for seen in &seen {
            self.see_to(seen, unstarted || stalled, owed);
        }
        if stalled {
            protocol::serve(self.pool);
        }
        self.unstarted = if unstarted { self.unstarted + 1 } else { 0 };
        self.stalled = if stalled { self.stalled + 1 } else { 0 };
        self.preempt(&mut seen);
        self.pool.publish_wanted();
        seen.clear();
        self.seen = seen;
        self.quiet = if busy(self.pool, self.upcall) { 0 } else { self.quiet + 1 };
    }

    /// Whether calls have waited for a tick on a line of which no activation has taken any call
    /// meanwhile. It is `false` until the layers above know for which users the blocked activations
    /// work. Otherwise one user's calls might be given all processors.
    fn calls_stall(&self) -> bool {
        // Relaxed: the monitor's parker, or D2, makes it visible. It is cleared before the check,
        // so that a request during the check is not lost.
        if !self.pool.calls.swap(false, Ordering::Relaxed) {
            return false;
        }
        let progress = lines::call_progress();
        if progress != CallProgress::NoneWait {
            self.pool.calls.store(true, Ordering::Relaxed);
        }
        progress == CallProgress::Stalled && self.upcall.settled()
    }

    /// Handles unannounced blocking, its end, and slices that are used up.
    ///
    /// `wanted`: there is something to do that any activation could do. `owed`: some activation is
    /// blocked while no permit is free, and will want a permit when it goes on. Then a holder that
    /// blocks too gives its permit up, so that the monitor need not keep watching.
    fn see_to(&mut self, seen: &Observation, wanted: bool, owed: bool) {
        let activation = seen.activation;
        let state = activation.state();
        match seen.at {
            state::BLOCKED if self.history(activation).kernel_state(activation) == TaskState::Running => {
                self.ended_blocking(activation)
            }
            state::RUNNING | state::PREEMPTING if seen.still > 0 => {
                let counts = self.pool.counts();
                // An activation beyond the maximum is wanted to give way in any case.
                let wanted = wanted
                    || counts.waiting > 0
                    || counts.running > counts.maximum
                    || self.upcall.ready(activation);
                if !wanted && !owed {
                    return;
                }
                if self.history(activation).kernel_state(activation) == TaskState::Blocked {
                    if state.advance(seen.at, state::BLOCKED) {
                        self.began_blocking(activation);
                    }
                    return;
                }
                if !wanted {
                    return;
                }
                if seen.still >= SLICE && self.history(activation).first_report() {
                    self.upcall.found_computing(activation);
                }
                if seen.at == state::PREEMPTING {
                    // It was asked to give way, and has reached no scheduling point.
                    self.history(activation).interrupt(activation);
                }
            }
            _ => {}
        }
    }

    /// `activation` has just become `BLOCKED`, and the monitor has its permit in hand.
    fn began_blocking(&mut self, activation: &'static Activation) {
        metrics().compensated();
        self.pool.starts.began_blocking();
        // Before another activation gets the permit, since it may begin one more call of the same
        // user.
        self.upcall.found_blocking(activation);
        protocol::ensure_listeners(self.pool);
        protocol::free(self.pool);
        barrier::heavy();
        metrics().entered_kernel(1);
        if self.upcall.unstarted() {
            protocol::request(self.pool);
        }
    }

    /// `activation` runs without a permit. Gives it one, or has the signal handler make it wait.
    fn ended_blocking(&mut self, activation: &'static Activation) {
        if self.pool.permits.take() {
            match activation.state().give_permit(state::BLOCKED) {
                true => self.upcall.ended_blocking(),
                false => protocol::free(self.pool),
            }
        } else {
            self.history(activation).interrupt(activation);
        }
    }

    /// Asks as many activations to give way as others wait. It asks only activations that have had
    /// a slice, and begins with those that have held their permits longest.
    fn preempt(&mut self, seen: &mut Vec<Observation>) {
        seen.retain(|seen| seen.at == state::RUNNING && seen.held >= SLICE);
        seen.sort_unstable_by_key(|seen| std::cmp::Reverse(seen.held));
        let hogs = seen.iter().any(|seen| seen.still >= SLICE);
        // Activations that switch threads will come to the work, unless none of them would take it.
        let patience = if hogs { SLICE } else { PATIENCE };
        if self.unstarted >= patience && !self.pool.counts().free() && !self.helped() {
            self.enlist_sleeper(Work::Threads);
        } else if hogs && self.stalled >= SLICE && !self.pool.counts().free() && !self.helped() {
            // Those that compute look at no line, and the others have taken no call for a slice.
            self.enlist_sleeper(Work::Calls);
        }
        let counts = self.pool.counts();
        let asked = self.pool.activations().filter(|a| a.state().hint() == state::PREEMPTING).count();
        let excess = counts.running.saturating_sub(counts.maximum);
        let wanted = ((excess + counts.waiting) as usize).saturating_sub(asked);
        for seen in seen.iter().take(wanted) {
            let activation = seen.activation;
            // Signal only activations that have not switched threads for a whole tick. The others
            // reach a scheduling point soon.
            if activation.state().advance(state::RUNNING, state::PREEMPTING) && seen.still > 0 {
                self.history(activation).interrupt(activation);
            }
        }
    }

    /// Provides an activation that takes over for work that nobody does: a sleeper that waits from
    /// now on, or a new one, which waits by the next tick.
    fn enlist_sleeper(&mut self, work: Work) {
        let enlisted = match work {
            Work::Threads => protocol::enlist_sleeper(self.pool, |state| self.pool.takes(state)),
            Work::Calls => protocol::enlist_sleeper(self.pool, |state| self.pool.serves(state)),
        };
        self.helper = enlisted.map(|state| (state.number(), state.gains())).or_else(|| {
            let number = self.pool.registry.len();
            self.pool.starts.request(self.pool.living()).then_some((number, 0))
        });
    }

    /// Whether the activation that takes over for unstarted work has not been given a permit yet.
    fn helped(&self) -> bool {
        self.helper.is_some_and(|(number, gains)| match self.pool.registry.get(number) {
            Some(activation) => {
                let state = activation.state();
                let started = gains == 0 && state.hint() == state::ASLEEP;
                state.gains() == gains && (started || state.hint() == state::WAITING)
            }
            None => self.pool.starts.expected(),
        })
    }
}

/// What an activation is to take over for.
enum Work {
    /// Threads that have not started.
    Threads,
    /// Calls that no activation takes.
    Calls,
}

impl History {
    /// Sends the signal, once for each request to give way.
    fn interrupt(&mut self, activation: &Activation) {
        if !self.interrupted {
            self.interrupted = preempt::interrupt(activation);
        }
    }
}

/// Whether something waits for a processor, or may.
fn busy(pool: &Pool, upcall: &dyn Upcall) -> bool {
    let counts = pool.counts();
    counts.waiting > 0
        || counts.running > counts.maximum
        || upcall.unstarted()
        // Relaxed: the barrier of D2 orders this.
        || pool.calls.load(Ordering::Relaxed)
        || pool.wanted() > 0
        || pool.activations().any(|activation| match activation.state().hint() {
            state::RUNNING => upcall.ready(activation),
            state::PREEMPTING => true,
            // If it returns while all permits are taken, one activation too many runs.
            state::BLOCKED => !counts.free(),
            _ => false,
        })
}
