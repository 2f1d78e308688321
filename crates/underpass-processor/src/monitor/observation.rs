//! What the monitor remembers of an activation from one tick to the next.

use crate::Activation;
use crate::monitor::SLICE;
use crate::permits::state;
use crate::pool::kernel_task::KernelTask;
use underpass_os::thread::TaskState;

/// The monitor's memory of one activation.
#[derive(Debug, Default)]
pub(crate) struct History {
    steps: u32,
    gains: u32,
    /// For how many ticks it has run the same thread.
    still: u32,
    /// For how many ticks it has held its permit.
    held: u32,
    /// The layers above were told that its thread computes.
    reported: bool,
    /// The signal was sent for the present request to give way.
    pub(crate) interrupted: bool,
    task: KernelTask,
}

/// What a tick sees of an activation.
pub(crate) struct Observation {
    pub(crate) activation: &'static Activation,
    pub(crate) at: u32,
    pub(crate) still: u32,
    pub(crate) held: u32,
}

impl History {
    /// Compares the activation with the last look, a tick ago.
    pub(crate) fn look(&mut self, activation: &'static Activation) -> Observation {
        let at = activation.state().hint();
        let (steps, gains) = (activation.steps(), activation.state().gains());
        let holds = matches!(at, state::RUNNING | state::PREEMPTING | state::IN_BLOCKING_CALL);
        let same_permit = holds && gains == self.gains;
        let same_thread = same_permit && at != state::IN_BLOCKING_CALL && steps == self.steps;
        self.held = if same_permit { self.held + 1 } else { 0 };
        self.still = if same_thread { self.still + 1 } else { 0 };
        self.reported &= same_thread;
        self.interrupted &= matches!(at, state::PREEMPTING | state::BLOCKED);
        (self.steps, self.gains) = (steps, gains);
        Observation { activation, at, still: self.still, held: self.held }
    }

    /// Looks at it after the monitor has slept until woken. An activation that has held its permit
    /// all that time has had its slice, except for a tick.
    pub(crate) fn start_again(&mut self, activation: &'static Activation) {
        let before = self.gains;
        self.look(activation);
        self.still = 0;
        self.held = if before == self.gains { SLICE - 1 } else { 0 };
    }

    /// What the kernel says that its kernel thread does. `Other` if the kernel doesn't say.
    pub(crate) fn kernel_state(&mut self, activation: &Activation) -> TaskState {
        self.task.state(activation)
    }

    /// Whether its thread is found computing for the first time.
    pub(crate) fn first_report(&mut self) -> bool {
        !std::mem::replace(&mut self.reported, true)
    }
}
