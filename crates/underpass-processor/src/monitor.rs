//! The monitor: one kernel thread that finds what nobody announced.
//!
//! It ticks while something waits for a processor, or may; else it dozes and costs nothing. It
//! takes neither lock nor memory after its start: who was preempted may hold any lock, the
//! allocator's among them, and the monitor is who gives it a processor again.

mod observation;

use crate::permits::{protocol, state};
use crate::pool::registry::MOST_ACTIVATIONS;
use crate::pool::{MONITOR, maximum};
use crate::{Activation, Pool, Upcall, lines, metrics, preempt};
use observation::{History, Observation};
use std::sync::atomic::Ordering;
use underpass_os::barrier;
use underpass_os::clock::now_ns;

/// Between two ticks, in ns. Unannounced blocking is found after one to two of these.
const TICK: u64 = 5_000_000;
/// Ticks that an activation may run while others wait.
pub(crate) const SLICE: u32 = 2;
/// Ticks that unstarted work may wait while those that run switch threads.
const PATIENCE: u32 = 4;
/// Ticks with nothing to do before a doze: who comes and goes shall not wake the monitor each time.
const QUIET: u32 = 4;
/// Between two looks at what processors this domain may use, in ns.
const REVIEW: u64 = 1_000_000_000;

pub(crate) struct Monitor {
    pool: &'static Pool,
    upcall: &'static dyn Upcall,
    /// By the number of the activation.
    histories: Box<[History]>,
    /// What a tick sees. Room for all.
    seen: Vec<Observation>,
    /// The number of who was called up to take over for unstarted work, or is being started for
    /// that, and how often it had come to a permit then.
    helper: Option<(usize, u32)>,
    /// For how many ticks there has been unstarted work.
    unstarted: u32,
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
                // Ticks that were missed are not made up for.
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
        }
    }

    /// What happened before the doze is no measure.
    fn start_again(&mut self) {
        self.unstarted = 0;
        let _ = lines::stalls();
        for activation in self.pool.activations() {
            self.history(activation).start_again(activation);
        }
    }

    fn history(&mut self, activation: &Activation) -> &mut History {
        &mut self.histories[activation.number()]
    }

    /// The affinity and the quotas may have changed.
    fn review(&mut self, now: u64) {
        if now - self.reviewed >= REVIEW {
            self.reviewed = now;
            if maximum::varies() {
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
        if self.pool.counts().waiting > 0 && protocol::detach(self.pool) {
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
        self.preempt(&mut seen);
        seen.clear();
        self.seen = seen;
        self.quiet = if busy(self.pool, self.upcall) { 0 } else { self.quiet + 1 };
    }

    /// Whether calls have waited for a tick on a line of which nobody has taken any meanwhile. Not
    /// before it is known for whom those work that were found blocked: else one user's calls might
    /// be given all processors.
    fn calls_stall(&self) -> bool {
        // Relaxed: the parker, or D2, makes it visible. Cleared first, so that what comes meanwhile
        // is not lost.
        if !self.pool.calls.swap(false, Ordering::Relaxed) {
            return false;
        }
        let stalls = lines::stalls();
        if stalls.is_some() {
            self.pool.calls.store(true, Ordering::Relaxed);
        }
        stalls == Some(true) && self.upcall.settled()
    }

    /// Unannounced blocking, its end, and slices that are used up. Something is `wanted` that any
    /// could do. Where a permit is `owed`, an activation that blocked will want one when it goes on:
    /// a holder that blocks too gives its permit up, so that the monitor need not watch for that.
    fn see_to(&mut self, seen: &Observation, wanted: bool, owed: bool) {
        let activation = seen.activation;
        let state = activation.state();
        match seen.at {
            state::BLOCKED if self.history(activation).runs(activation) == Some(true) => {
                self.ended_blocking(activation)
            }
            state::RUNNING | state::PREEMPTING if seen.still > 0 => {
                let wanted = wanted || self.pool.counts().waiting > 0 || self.upcall.ready(activation);
                if !wanted && !owed {
                    return;
                }
                if self.history(activation).runs(activation) == Some(false) {
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
                    // It was asked, and came to no scheduling point.
                    self.history(activation).interrupt(activation);
                }
            }
            _ => {}
        }
    }

    /// Its permit is in hand.
    fn began_blocking(&mut self, activation: &'static Activation) {
        metrics().compensated();
        self.pool.starts.began_blocking();
        // Before its permit is another's, who may begin one more call of the same user.
        self.upcall.found_blocking(activation);
        protocol::ensure_listeners(self.pool);
        protocol::free(self.pool);
        barrier::heavy();
        metrics().entered_kernel(1);
        if self.upcall.unstarted() {
            protocol::request(self.pool);
        }
    }

    /// It runs without a permit: it gets one, or the handler has it wait.
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

    /// Asks as many to give way as others wait, of those that have had a slice, those first that
    /// have had most.
    fn preempt(&mut self, seen: &mut Vec<Observation>) {
        seen.retain(|seen| seen.at == state::RUNNING && seen.held >= SLICE);
        seen.sort_unstable_by_key(|seen| std::cmp::Reverse(seen.held));
        let hogs = seen.iter().any(|seen| seen.still >= SLICE);
        // Those that switch will come to it, unless it is work that none of them takes.
        let patience = if hogs { SLICE } else { PATIENCE };
        if self.unstarted >= patience && !self.pool.counts().free() && !self.helped() {
            self.enlist_sleeper();
        }
        let counts = self.pool.counts();
        let asked = self.pool.activations().filter(|a| a.state().hint() == state::PREEMPTING).count();
        let excess = counts.running.saturating_sub(counts.maximum);
        let wanted = ((excess + counts.waiting) as usize).saturating_sub(asked);
        for seen in seen.iter().take(wanted) {
            let activation = seen.activation;
            // Who has switched threads will again in a moment; who has not for a tick may not for
            // long.
            if activation.state().advance(state::RUNNING, state::PREEMPTING) && seen.still > 0 {
                self.history(activation).interrupt(activation);
            }
        }
    }

    /// Sees to somebody who takes over for unstarted work: one that sleeps, or one that is started
    /// and waits by the next tick.
    fn enlist_sleeper(&mut self) {
        self.helper =
            protocol::enlist_sleeper(self.pool).map(|state| (state.number(), state.gains())).or_else(|| {
                let number = self.pool.registry.len();
                self.pool.starts.request(self.pool.living()).then_some((number, 0))
            });
    }

    /// Whether who was called up for unstarted work has not come to its turn yet.
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

impl History {
    /// Sends the signal, once for each time.
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
        // Relaxed: D2's barrier is what counts.
        || pool.calls.load(Ordering::Relaxed)
        || pool.activations().any(|activation| match activation.state().hint() {
            state::RUNNING => upcall.ready(activation),
            state::PREEMPTING => true,
            // When it comes back while all processors run, it is one too many.
            state::BLOCKED => !counts.free(),
            _ => false,
        })
}
