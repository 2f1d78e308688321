//! Suspending the calling thread, what it waits for, and what ends a wait.

pub(crate) mod call_cancellation;
pub(crate) mod cancelled;
pub(crate) mod kernel_threads;
pub(crate) mod latch;
pub(crate) mod me;
pub(crate) mod section;
pub(crate) mod spin_for;
pub(crate) mod suspend;
pub(crate) mod wait_on;
pub(crate) mod wake_many;
