//! The state of one activation. It is also the futex word on which the activation waits for a
//! permit.

use underpass_seam::atomic::{AtomicU32, AtomicU64, Ordering};

/// The states. The table of the README says which thread sets each of them.
pub mod state {
    /// Holds a permit.
    pub const RUNNING: u32 = 0;
    /// In an announced blocking call. It holds a permit, which any other activation may take.
    pub const IN_BLOCKING_CALL: u32 = 1;
    /// Holds a permit, and the monitor has asked it to give way.
    pub const PREEMPTING: u32 = 2;
    /// In an announced blocking call, without a permit.
    pub const DETACHED: u32 = 3;
    /// Blocked in the kernel without having announced it. The monitor has taken its permit.
    pub const BLOCKED: u32 = 4;
    /// Waits for a permit.
    pub const WAITING: u32 = 5;
    /// Gave way when asked to, and waits for a permit.
    pub const PREEMPTED: u32 = 6;
    /// Idle: waits for calls and for work.
    pub const ASLEEP: u32 = 7;
    /// Runs on a processor that another domain has donated, and needs no permit.
    pub const LENT: u32 = 8;
    /// A listener that waits for a processor.
    pub const LISTENING: u32 = 9;
    /// Its kernel thread ends or has ended. Another kernel thread may take over this state.
    pub const ENDED: u32 = 10;
    /// How many states there are.
    pub const COUNT: usize = 11;

    /// Whether an activation in this state may go on running threads. This is one instruction,
    /// because it is asked at each switch.
    #[inline]
    pub(crate) fn runs(state: u32) -> bool {
        const { assert!(RUNNING == 0 && LENT == 8) };
        state & !LENT == RUNNING
    }
}

/// A state, and since when its activation has waited. The README's table says who changes it, from
/// which state to which.
#[derive(Debug)]
pub struct ActivationState {
    state: AtomicU32,
    ticket: AtomicU64,
    /// How many permits it has been given. The monitor measures slices by it.
    gains: AtomicU32,
    number: usize,
}

impl ActivationState {
    /// The state of the activation `number`, initially `state`.
    pub fn new(number: usize, state: u32) -> Self {
        Self { state: AtomicU32::new(state), ticket: AtomicU64::new(0), gains: AtomicU32::new(0), number }
    }

    /// The state now. It is a hint, except to the owner in states that only the owner leaves.
    #[inline]
    pub fn hint(&self) -> u32 {
        // Relaxed: every change compares again.
        self.state.load(Ordering::Relaxed)
    }

    /// The state now. The caller sees what its last changer did before the change.
    pub fn get(&self) -> u32 {
        // SYNC with `state` compare_exchange in `advance` by a granter: what was done under the
        // permit before.
        self.state.load(Ordering::Acquire)
    }

    /// Changes the state from `from` to `to`. Returns `false` if it is not `from`.
    #[inline]
    pub fn advance(&self, from: u32, to: u32) -> bool {
        // SYNC with `state` compare_exchange in `advance` of others, and load in `get`: the ticket,
        // if `to` is a waiting state, and what was done under a permit that goes with the change.
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Publishes the activation as waiting since `ticket`. Returns `false` if the state is not
    /// `from`.
    pub fn publish(&self, from: u32, to: u32, ticket: u64) -> bool {
        // Relaxed: `advance` makes it visible. If two callers publish the same sleeping activation
        // at once, the ticket may be that of the one that fails. Both tickets are of this moment.
        self.ticket.store(ticket, Ordering::Relaxed);
        self.advance(from, to)
    }

    /// Its ticket and its state, if it waits for a permit.
    pub fn published(&self) -> Option<(u64, u32)> {
        // SYNC with `state` compare_exchange in `publish`: the ticket.
        match self.state.load(Ordering::Acquire) {
            at @ (state::WAITING | state::PREEMPTED) => Some((self.ticket.load(Ordering::Relaxed), at)),
            _ => None,
        }
    }

    /// Changes the state from `from` to `RUNNING`. The permit is one that the caller has in hand.
    /// Returns `false` if the state is not `from`; then the caller still has the permit.
    pub fn give_permit(&self, from: u32) -> bool {
        let given = self.advance(from, state::RUNNING);
        if given {
            // Relaxed: a measurement.
            self.gains.fetch_add(1, Ordering::Relaxed);
        }
        given
    }

    /// How many permits it has been given, modulo 2³².
    pub fn gains(&self) -> u32 {
        self.gains.load(Ordering::Relaxed)
    }

    /// The number of its activation.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The word on which it sleeps while it waits for a permit.
    pub fn word(&self) -> &AtomicU32 {
        &self.state
    }
}
