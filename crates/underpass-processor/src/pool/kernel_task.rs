//! What the kernel says that the kernel thread of an activation does.

use crate::pool::registry::MOST_ACTIVATIONS;
use crate::{Activation, metrics};
use underpass_os::thread::{Task, TaskState};
use underpass_seam::TryLock;

/// The kernel thread of one activation. Its file is opened at the first question, and stays open.
#[derive(Debug, Default)]
pub(crate) struct KernelTask(Option<Task>);

impl KernelTask {
    /// What it does. `Other` if the kernel doesn't say. This takes no memory.
    pub(crate) fn state(&mut self, activation: &Activation) -> TaskState {
        let task = match &self.0 {
            Some(task) => task,
            None => {
                // Without file descriptors or `/proc` this finds nothing. The next question tries
                // again.
                let Some(task) = activation.thread().and_then(|thread| Task::open(thread).ok()) else {
                    return TaskState::Other;
                };
                metrics().entered_kernel(1);
                self.0.insert(task)
            }
        };
        metrics().entered_kernel(1);
        match task.state() {
            Ok(state) => state,
            Err(_) => {
                // The file was of a kernel thread that has ended. Another has taken its place.
                self.0 = None;
                TaskState::Other
            }
        }
    }
}

/// The kernel threads of all activations, for a thread that asks them to give way. The monitor has
/// files of its own, since it waits for nobody.
pub(crate) struct KernelTasks(TryLock<Box<[KernelTask]>>);

impl KernelTasks {
    pub(crate) fn new() -> Self {
        Self(TryLock::new(std::iter::repeat_with(KernelTask::default).take(MOST_ACTIVATIONS).collect()))
    }

    /// Whether the kernel thread of this activation runs, or is ready to run. `false` if another
    /// thread asks at the same time.
    pub(crate) fn runs(&self, activation: &Activation) -> bool {
        let Some(mut tasks) = self.0.try_lock() else { return false };
        tasks[activation.number()].state(activation) == TaskState::Running
    }
}
