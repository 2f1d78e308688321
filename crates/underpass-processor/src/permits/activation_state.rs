//! The state of one activation, on which it also waits for a permit.

use underpass_seam::atomic::{AtomicU32, AtomicU64, Ordering};

/// The states, as the README explains them.
pub mod state {
    /// Holds a permit.
    pub const RUNNING: u32 = 0;
    /// In an announced blocking call; its permit is anybody's who wants it.
    pub const IN_BLOCKING_CALL: u32 = 1;
    /// Holds a permit, and was asked to give way.
    pub const PREEMPTING: u32 = 2;
    /// In an announced blocking call, without a permit.
    pub const DETACHED: u32 = 3;
    /// Blocked without saying so; its permit was taken.
    pub const BLOCKED: u32 = 4;
    /// Waits for a permit.
    pub const WAITING: u32 = 5;
    /// Was interrupted, and waits for a permit.
    pub const PREEMPTED: u32 = 6;
    /// Idle: it waits for calls and for work.
    pub const ASLEEP: u32 = 7;
    /// Runs on a processor that another domain has donated, and needs no permit.
    pub const LENT: u32 = 8;
    /// A listener that waits for a processor.
    pub const LISTENING: u32 = 9;
    /// Its kernel thread ends, or has ended; another may begin in its place.
    pub const ENDED: u32 = 10;
    /// How many states there are.
    pub const COUNT: usize = 11;

    /// Whether who is in this state may go on running threads. In one instruction: asked at each
    /// switch.
    #[inline]
    pub(crate) fn runs(state: u32) -> bool {
        const { assert!(RUNNING == 0 && LENT == 8) };
        state & !LENT == RUNNING
    }
}

/// A state, and since when its activation waits. Who moves it from where to where is the README's
/// table.
#[derive(Debug)]
pub struct ActivationState {
    state: AtomicU32,
    ticket: AtomicU64,
    /// How often it came to a permit. For the monitor's measure of slices.
    gains: AtomicU32,
    number: usize,
}

impl ActivationState {
    /// That of the activation of this number, in that state.
    pub fn new(number: usize, state: u32) -> Self {
        Self { state: AtomicU32::new(state), ticket: AtomicU64::new(0), gains: AtomicU32::new(0), number }
    }

    /// Its state: a hint to others than its owner, and to its owner in states that others may
    /// leave.
    #[inline]
    pub fn hint(&self) -> u32 {
        // Relaxed: moves look again.
        self.state.load(Ordering::Relaxed)
    }

    /// Its state, and what who adjusted it there did before.
    pub fn get(&self) -> u32 {
        // SYNC with `state` compare_exchange in `advance` by a granter: what was done under the
        // permit before.
        self.state.load(Ordering::Acquire)
    }

    /// Moves it; `false` if it is elsewhere.
    #[inline]
    pub fn advance(&self, from: u32, to: u32) -> bool {
        // SYNC with `state` compare_exchange in `advance` of others, and load in `get`: the ticket,
        // if `to` is published, and what was done under a permit that goes with the move.
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Publishes it as one who waits since `ticket`; `false` if it is elsewhere than `from`.
    pub fn publish(&self, from: u32, to: u32, ticket: u64) -> bool {
        // Relaxed: `advance` makes it visible. Of two who would publish an
        // idle state at once, the ticket may be the other's; both are of this moment.
        self.ticket.store(ticket, Ordering::Relaxed);
        self.advance(from, to)
    }

    /// Since when it waits, if it does, and in which state.
    pub fn published(&self) -> Option<(u64, u32)> {
        // SYNC with `state` compare_exchange in `publish`: the ticket.
        match self.state.load(Ordering::Acquire) {
            at @ (state::WAITING | state::PREEMPTED) => Some((self.ticket.load(Ordering::Relaxed), at)),
            _ => None,
        }
    }

    /// Moves it to `RUNNING`, with a permit that the caller has in hand.
    pub fn give_permit(&self, from: u32) -> bool {
        let given = self.advance(from, state::RUNNING);
        if given {
            // Relaxed: a measure.
            self.gains.fetch_add(1, Ordering::Relaxed);
        }
        given
    }

    /// How often it came to a permit.
    pub fn gains(&self) -> u32 {
        self.gains.load(Ordering::Relaxed)
    }

    /// The number of its activation.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The word to sleep on while it is published.
    pub fn word(&self) -> &AtomicU32 {
        &self.state
    }
}
