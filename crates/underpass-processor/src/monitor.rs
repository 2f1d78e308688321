//! The monitor: one kernel thread that finds what nobody announced.
//!
//! It ticks while something waits for a processor, or may; else it dozes and costs nothing.

use crate::notes::{Note, Seen};
use crate::pool::BELL;
use crate::seat::{Seat, state};
use crate::{Activation, Pool, Upcall, maximum, preempt, tally, turns};
use underpass_os::barrier;
use underpass_os::clock::now_ns;

/// Between two ticks, in ns. Unannounced blocking is found after one to two of these.
const TICK: u64 = 5_000_000;
/// Ticks that an activation may run while others wait.
pub(crate) const SLICE: u32 = 2;
/// Ticks with nothing to do before a doze: who comes and goes shall not wake the monitor each time.
const QUIET: u32 = 4;
/// Between two looks at what processors this domain may use, in ns.
const REVIEW: u64 = 1_000_000_000;

pub(crate) struct Monitor {
    pool: &'static Pool,
    upcall: &'static dyn Upcall,
    /// By the number of the activation.
    notes: Vec<Note>,
    /// Who was called up to take over for unstarted work, and how often that one had come to a slot then.
    helper: Option<(&'static Seat, u32)>,
    /// Work was unstarted at the last tick too.
    unstarted_before: bool,
    quiet: u32,
    reviewed: u64,
}

impl Monitor {
    pub(crate) fn new(pool: &'static Pool, upcall: &'static dyn Upcall) -> Self {
        let reviewed = now_ns();
        Self { pool, upcall, notes: Vec::new(), helper: None, unstarted_before: false, quiet: 0, reviewed }
    }

    pub(crate) fn run(mut self) -> ! {
        let mut next = now_ns() + TICK;
        loop {
            self.pool.give_births();
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
        self.unstarted_before = false;
        for activation in self.pool.activations() {
            self.note(activation).start_again(activation);
        }
    }

    fn note(&mut self, activation: &'static Activation) -> &mut Note {
        let number = activation.number();
        if self.notes.len() <= number {
            self.notes.resize_with(number + 1, Note::default);
        }
        &mut self.notes[number]
    }

    /// The affinity and the quotas may have changed.
    fn review(&mut self, now: u64) {
        if now - self.reviewed >= REVIEW {
            self.reviewed = now;
            if maximum::varies() {
                self.pool.update_maximum();
            }
        }
    }

    fn tick(&mut self) {
        self.upcall.tick();
        let unstarted = self.upcall.unstarted();
        if unstarted && self.pool.counts().free() {
            turns::request(self.pool);
        }
        if self.pool.counts().waiting > 0 && turns::detach(self.pool) {
            turns::release(self.pool);
        }
        let seen: Vec<Seen> =
            self.pool.activations().map(|activation| self.note(activation).look(activation)).collect();
        for seen in &seen {
            self.see_to(seen, unstarted);
        }
        self.preempt(seen, unstarted && self.unstarted_before);
        self.unstarted_before = unstarted;
        self.quiet = if busy(self.pool, self.upcall) { 0 } else { self.quiet + 1 };
    }

    /// Unannounced blocking, its end, and slices that are used up.
    fn see_to(&mut self, seen: &Seen, unstarted: bool) {
        let activation = seen.activation;
        let seat = activation.seat();
        match seen.at {
            state::STUCK if self.note(activation).runs(activation) == Some(true) => {
                self.ended_blocking(activation)
            }
            state::RUNNING | state::PREEMPTING if seen.still > 0 => {
                let wanted = unstarted || self.pool.counts().waiting > 0 || self.upcall.ready(activation);
                if !wanted {
                    return;
                }
                if self.note(activation).runs(activation) == Some(false) {
                    if seat.advance(seen.at, state::STUCK) {
                        self.began_blocking(activation);
                    }
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
        turns::free(self.pool);
        barrier::heavy();
        tally().entered_kernel(1);
        if self.upcall.unstarted() {
            turns::request(self.pool);
        }
        self.upcall.found_blocking(activation);
    }

    /// It runs without a slot: it gets one, or the handler has it wait.
    fn ended_blocking(&mut self, activation: &'static Activation) {
        if self.pool.take_slot() {
            if !activation.seat().seat(state::STUCK) {
                turns::free(self.pool);
            }
        } else {
            self.note(activation).interrupt(activation);
        }
    }

    /// Asks as many to give way as others wait, of those that have had a slice, those first that have had most.
    fn preempt(&mut self, mut seen: Vec<Seen>, unstarted: bool) {
        seen.retain(|seen| seen.at == state::RUNNING && seen.held >= SLICE);
        seen.sort_by_key(|seen| std::cmp::Reverse(seen.held));
        let hogs = seen.iter().any(|seen| seen.still >= SLICE);
        if unstarted && hogs && !self.pool.counts().free() && !self.helped() {
            self.helper = self.pool.call_up().map(|seat| (seat, seat.gains()));
        }
        let counts = self.pool.counts();
        let asked = self.pool.activations().filter(|a| a.seat().hint() == state::PREEMPTING).count();
        let excess = counts.running.saturating_sub(counts.maximum);
        let wanted = (excess.max(counts.waiting) as usize).saturating_sub(asked);
        for seen in seen.iter().take(wanted) {
            let activation = seen.activation;
            // Who switches threads will be asked in a moment; who has not for a tick may not be for long.
            if activation.seat().advance(state::RUNNING, state::PREEMPTING) && seen.still > 0 {
                self.note(activation).interrupt(activation);
            }
        }
    }

    /// Whether who was called up for unstarted work waits still.
    fn helped(&self) -> bool {
        self.helper.is_some_and(|(seat, gains)| seat.hint() == state::WAITING && seat.gains() == gains)
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
        || pool.unborn() > 0
        || upcall.unstarted()
        || pool.activations().any(|activation| match activation.seat().hint() {
            state::RUNNING => upcall.ready(activation),
            state::PREEMPTING => true,
            // When it comes back while all processors run, it is one too many.
            state::STUCK => !counts.free(),
            _ => false,
        })
}
