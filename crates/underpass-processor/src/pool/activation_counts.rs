//! Who does what, counted.

use crate::Pool;
use crate::permits::state;
use std::fmt;

/// The activations of a domain by state.
///
/// Exact when nothing changes while it is taken: each state is read at another moment. Then
/// `running` = `computing` + `preempting` + `out` + `starting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ActivationCounts {
    /// Processor permits.
    pub maximum: usize,
    /// Permits that are taken.
    pub running: usize,
    /// Activations that were counted as waiting for a permit.
    pub waiting: usize,
    /// Permits that wait for an activation to be started.
    pub starting: usize,
    /// Activations in all.
    pub activations: usize,
    /// Activations that run with a permit.
    pub computing: usize,
    /// Activations that run with a permit and were asked to give it up.
    pub preempting: usize,
    /// Activations in an announced blocking call whose permit nobody wanted.
    pub in_blocking_call: usize,
    /// Activations in an announced blocking call, without a permit.
    pub detached: usize,
    /// Activations that blocked without saying so, without a permit.
    pub blocked: usize,
    /// Activations that want to run and wait for a permit.
    pub ready: usize,
    /// Activations that were preempted and wait for a permit.
    pub preempted: usize,
    /// Activations that are idle: the listeners, and those beyond.
    pub asleep: usize,
    /// Listeners that run on a processor that another domain has donated.
    pub lent: usize,
    /// Listeners that wait for one.
    pub listening: usize,
}

impl ActivationCounts {
    pub(crate) fn take(pool: &Pool) -> Self {
        let mut by_state = [0; state::COUNT];
        let mut activations = 0;
        for activation in pool.activations() {
            by_state[activation.state().hint() as usize] += 1;
            activations += usize::from(!activation.has_ended());
        }
        let at = |state: u32| by_state[state as usize];
        let counts = pool.counts();
        Self {
            maximum: counts.maximum as usize,
            running: counts.running as usize,
            waiting: counts.waiting as usize,
            starting: pool.starts.permits(),
            activations,
            computing: at(state::RUNNING),
            preempting: at(state::PREEMPTING),
            in_blocking_call: at(state::IN_BLOCKING_CALL),
            detached: at(state::DETACHED),
            blocked: at(state::BLOCKED),
            ready: at(state::WAITING),
            preempted: at(state::PREEMPTED),
            asleep: at(state::ASLEEP),
            lent: at(state::LENT),
            listening: at(state::LISTENING),
        }
    }

    /// Idle activations that are there to take a free permit as soon as a call or work comes: maximum
    /// − running of the asleep ones.
    pub fn listeners(&self) -> usize {
        self.asleep.min(self.maximum.saturating_sub(self.running))
    }

    /// Whether the counts go together: each permit that is taken is held by somebody, and each that
    /// waits is counted. True of an exact counts.
    pub fn adds_up(&self) -> bool {
        self.running == self.computing + self.preempting + self.in_blocking_call + self.starting
            && self.waiting == self.ready + self.preempted
            && (self.waiting == 0 || self.running >= self.maximum)
    }
}

impl fmt::Display for ActivationCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} processors taken, {} activations: {} run, {} give way, {} blocked in brackets ({} without a processor), \
             {} blocked otherwise, {} wait, {} preempted, {} idle, {} run on donated processors, {} listen for one",
            self.running,
            self.maximum,
            self.activations,
            self.computing,
            self.preempting,
            self.in_blocking_call + self.detached,
            self.detached,
            self.blocked,
            self.ready,
            self.preempted,
            self.asleep,
            self.lent,
            self.listening,
        )
    }
}
