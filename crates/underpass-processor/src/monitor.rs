//! The monitor: one kernel thread that finds what nobody announced.
//!
//! It ticks while something waits for a processor, or may; else it dozes and costs nothing. It
//! takes neither lock nor memory after its start: who was preempted may hold any lock, the
//! allocator's among them, and the monitor is who gives it a processor again.

use crate::notes::{Note, Seen};
use crate::pool::BELL;
use crate::roster::MOST_ACTIVATIONS;
use crate::seat::state;
use crate::{Activation, Pool, Upcall, lines, maximum, preempt, tally, turns};
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
    notes: Box<[Note]>,
    /// What a tick sees. Room for all.
    seen: Vec<Seen>,
    /// The number of who was called up to take over for unstarted work, or is being started for
    /// that, and how often it had come to a slot then.
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
            notes: std::iter::repeat_with(Note::default).take(MOST_ACTIVATIONS).collect(),
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
                BELL.tick(next);
                continue;
            }
            BELL.doze(|| !busy(self.pool, self.upcall));
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
            self.note(activation).start_again(activation);
        }
    }

    fn note(&mut self, activation: &Activation) -> &mut Note {
        &mut self.notes[activation.number()]
    }

    /// The affinity and the quotas may have changed.
    fn review(&mut self, now: u64) {
        if now - self.reviewed >= REVIEW {
            self.reviewed = now;
            if maximum::varies() {
                self.pool.births.call_review();
            }
        }
    }

    fn tick(&mut self) {
        self.upcall.tick();
        let unstarted = self.upcall.unstarted();
        if unstarted {
            turns::request(self.pool);
        }
        let stalled = self.calls_stall();
        if self.pool.counts().waiting > 0 && turns::detach(self.pool) {
            turns::free(self.pool);
        }
        let mut seen = std::mem::take(&mut self.seen);
        seen.extend(self.pool.activations().map(|activation| self.note(activation).look(activation)));
        let owed = !self.pool.counts().free() && seen.iter().any(|seen| seen.at == state::STUCK);
        for seen in &seen {
            self.see_to(seen, unstarted || stalled, owed);
        }
        if stalled {
            turns::serve(self.pool);
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
        // Relaxed: the bell, or D2, makes it visible. Cleared first, so that what comes meanwhile
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
    /// could do. Where a slot is `owed`, an activation that blocked will want one when it goes on:
    /// a holder that blocks too gives its slot up, so that the monitor need not watch for that.
    fn see_to(&mut self, seen: &Seen, wanted: bool, owed: bool) {
        let activation = seen.activation;
        let seat = activation.seat();
        match seen.at {
            state::STUCK if self.note(activation).runs(activation) == Some(true) => {
                self.ended_blocking(activation)
            }
            state::RUNNING | state::PREEMPTING if seen.still > 0 => {
                let wanted = wanted || self.pool.counts().waiting > 0 || self.upcall.ready(activation);
                if !wanted && !owed {
                    return;
                }
                if self.note(activation).runs(activation) == Some(false) {
                    if seat.advance(seen.at, state::STUCK) {
                        self.began_blocking(activation);
                    }
                    return;
                }
                if !wanted {
                    return;
                }
                if seen.still >= SLICE && self.note(activation).first_finding() {
                    self.upcall.found_computing(activation);
                }
                if seen.at == state::PREEMPTING {
                    // It was asked, and came to no scheduling point.
                    self.note(activation).interrupt(activation);
                }
            }
            _ => {}
        }
    }

    /// Its slot is in hand.
    fn began_blocking(&mut self, activation: &'static Activation) {
        tally().compensated();
        self.pool.births.began_blocking();
        // Before its slot is another's, who may begin one more call of the same user.
        self.upcall.found_blocking(activation);
        turns::see_to_listeners(self.pool);
        turns::free(self.pool);
        barrier::heavy();
        tally().entered_kernel(1);
        if self.upcall.unstarted() {
            turns::request(self.pool);
        }
    }

    /// It runs without a slot: it gets one, or the handler has it wait.
    fn ended_blocking(&mut self, activation: &'static Activation) {
        if self.pool.slots.take() {
            match activation.seat().seat(state::STUCK) {
                true => self.upcall.ended_blocking(),
                false => turns::free(self.pool),
            }
        } else {
            self.note(activation).interrupt(activation);
        }
    }

    /// Asks as many to give way as others wait, of those that have had a slice, those first that
    /// have had most.
    fn preempt(&mut self, seen: &mut Vec<Seen>) {
        seen.retain(|seen| seen.at == state::RUNNING && seen.held >= SLICE);
        seen.sort_unstable_by_key(|seen| std::cmp::Reverse(seen.held));
        let hogs = seen.iter().any(|seen| seen.still >= SLICE);
        // Those that switch will come to it, unless it is work that none of them takes.
        let patience = if hogs { SLICE } else { PATIENCE };
        if self.unstarted >= patience && !self.pool.counts().free() && !self.helped() {
            self.call_up();
        }
        let counts = self.pool.counts();
        let asked = self.pool.activations().filter(|a| a.seat().hint() == state::PREEMPTING).count();
        let excess = counts.running.saturating_sub(counts.maximum);
        let wanted = ((excess + counts.waiting) as usize).saturating_sub(asked);
        for seen in seen.iter().take(wanted) {
            let activation = seen.activation;
            // Who has switched threads will again in a moment; who has not for a tick may not for
            // long.
            if activation.seat().advance(state::RUNNING, state::PREEMPTING) && seen.still > 0 {
                self.note(activation).interrupt(activation);
            }
        }
    }

    /// Sees to somebody who takes over for unstarted work: one that sleeps, or one that is started
    /// and waits by the next tick.
    fn call_up(&mut self) {
        self.helper = turns::call_up(self.pool).map(|seat| (seat.number(), seat.gains())).or_else(|| {
            let number = self.pool.roster.len();
            self.pool.births.ask_for_helper(self.pool.living()).then_some((number, 0))
        });
    }

    /// Whether who was called up for unstarted work has not come to its turn yet.
    fn helped(&self) -> bool {
        self.helper.is_some_and(|(number, gains)| match self.pool.roster.get(number) {
            Some(activation) => {
                let seat = activation.seat();
                let born = gains == 0 && seat.hint() == state::ASLEEP;
                seat.gains() == gains && (born || seat.hint() == state::WAITING)
            }
            None => self.pool.births.expected(),
        })
    }
}

impl Note {
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
        || pool.activations().any(|activation| match activation.seat().hint() {
            state::RUNNING => upcall.ready(activation),
            state::PREEMPTING => true,
            // When it comes back while all processors run, it is one too many.
            state::STUCK => !counts.free(),
            _ => false,
        })
}
