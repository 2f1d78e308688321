//! Who does what, counted.

use crate::Pool;
use crate::seat::state;
use std::fmt;

/// The activations of a domain by state.
///
/// Exact when nothing changes while it is taken: each state is read at another moment. Then
/// `running` = `computing` + `preempting` + `out` + `unborn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Census {
    /// Processor slots.
    pub maximum: usize,
    /// Slots that are taken.
    pub running: usize,
    /// Activations that were counted as waiting for a slot.
    pub waiting: usize,
    /// Slots that wait for an activation to be started.
    pub unborn: usize,
    /// Activations in all.
    pub activations: usize,
    /// Activations that run with a slot.
    pub computing: usize,
    /// Activations that run with a slot and were asked to give it up.
    pub preempting: usize,
    /// Activations in an announced blocking call whose slot nobody wanted.
    pub out: usize,
    /// Activations in an announced blocking call, without a slot.
    pub detached: usize,
    /// Activations that blocked without saying so, without a slot.
    pub stuck: usize,
    /// Activations that want to run and wait for a slot.
    pub ready: usize,
    /// Activations that were preempted and wait for a slot.
    pub preempted: usize,
    /// Activations that are idle: the listeners, and those beyond.
    pub asleep: usize,
    /// Listeners that run on a processor that another domain has donated.
    pub lent: usize,
    /// Listeners that wait for one.
    pub listening: usize,
}

impl Census {
    pub(crate) fn take(pool: &Pool) -> Self {
        let mut by_state = [0; state::COUNT];
        let mut activations = 0;
        for activation in pool.activations() {
            by_state[activation.seat().hint() as usize] += 1;
            activations += usize::from(!activation.has_ended());
        }
        let at = |state: u32| by_state[state as usize];
        let counts = pool.counts();
        Self {
            maximum: counts.maximum as usize,
            running: counts.running as usize,
            waiting: counts.waiting as usize,
            unborn: pool.births.slots(),
            activations,
            computing: at(state::RUNNING),
            preempting: at(state::PREEMPTING),
            out: at(state::OUT),
            detached: at(state::DETACHED),
            stuck: at(state::STUCK),
            ready: at(state::WAITING),
            preempted: at(state::PREEMPTED),
            asleep: at(state::ASLEEP),
            lent: at(state::LENT),
            listening: at(state::LISTENING),
        }
    }

    /// Idle activations that are there to take a free slot as soon as a call or work comes: maximum
    /// − running of the asleep ones.
    pub fn listeners(&self) -> usize {
        self.asleep.min(self.maximum.saturating_sub(self.running))
    }

    /// Whether the counts go together: each slot that is taken is held by somebody, and each that
    /// waits is counted. True of an exact census.
    pub fn adds_up(&self) -> bool {
        self.running == self.computing + self.preempting + self.out + self.unborn
            && self.waiting == self.ready + self.preempted
            && (self.waiting == 0 || self.running >= self.maximum)
    }
}

impl fmt::Display for Census {
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
            self.out + self.detached,
            self.detached,
            self.stuck,
            self.ready,
            self.preempted,
            self.asleep,
            self.lent,
            self.listening,
        )
    }
}
