//! How many activations are in each state.

use crate::Pool;
use crate::permits::state;
use std::fmt;

/// How many activations of a domain are in each state.
///
/// The numbers are exact if nothing changes while they are read, since each state is read at
/// another moment. Then `running` = `computing` + `preempting` + `in_blocking_call` + `starting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ActivationCounts {
    /// Permits in all: the most activations that run at once.
    pub maximum: usize,
    /// Permits that are taken.
    pub running: usize,
    /// Activations that are counted as waiting for a permit.
    pub waiting: usize,
    /// Permits that are kept for an activation to be started.
    pub starting: usize,
    /// Activations in all.
    pub activations: usize,
    /// Activations that run with a permit.
    pub computing: usize,
    /// Activations that run with a permit and were asked to give it up.
    pub preempting: usize,
    /// Activations in an announced blocking call whose permit no other activation has wanted.
    pub in_blocking_call: usize,
    /// Activations in an announced blocking call, without a permit.
    pub detached: usize,
    /// Activations that blocked unannounced, without a permit.
    pub blocked: usize,
    /// Activations that want to run and wait for a permit.
    pub ready: usize,
    /// Activations that were preempted and wait for a permit.
    pub preempted: usize,
    /// Activations that are idle: the listeners, and any beyond them.
    pub asleep: usize,
    /// Listeners that run on a processor that another domain has donated.
    pub lent: usize,
    /// Listeners that wait for a donated processor.
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

    /// Idle activations that take a free permit as soon as a call or work comes: as many of the
    /// sleepers as permits are free.
    pub fn listeners(&self) -> usize {
        self.asleep.min(self.maximum.saturating_sub(self.running))
    }

    /// Whether the counts are consistent: an activation holds each permit that is taken, and each
    /// waiting activation is counted. Exact counts are consistent.
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
            "{} of {} processors taken, {} activations: {} run, {} give way, \
             {} in announced blocking calls ({} without a processor), {} blocked unannounced, {} wait, \
             {} preempted, {} idle, {} run on donated processors, {} listen for one",
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
