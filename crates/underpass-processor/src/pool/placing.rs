//! On which CPU an activation goes on that comes to a processor of another one.
//!
//! A processor that changes hands is a CPU. The kernel knows nothing of that: it wakes the thread
//! that gets the processor where it ran before, which may be a CPU that is in use, and the CPU that
//! has become free idles until the kernel balances its queues.

use crate::permits::ActivationState;
use crate::{Pool, preempt};
use std::cell::Cell;
use underpass_os::cpu::{self, WakeUpPlace};

thread_local! {
    /// The CPU of the processor that the calling thread has just taken from another domain.
    static TAKEN: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The CPU that the caller leaves, if it is an activation that has given its permit up.
pub fn freed_cpu() -> Option<usize> {
    preempt::has_given_up().then(cpu::current)
}

/// Calls `wake`, which may wake activations for a processor that was taken: that of `cpu`, if it is
/// known.
pub(crate) fn with_taken_cpu(cpu: Option<usize>, wake: impl FnOnce()) {
    TAKEN.set(cpu);
    wake();
    TAKEN.set(None);
}

impl Pool {
    /// Has this state's activation wake up on the CPU of the processor that it gets, if that is
    /// known. This is so while the value exists. Without the activation server a domain's
    /// activations have CPUs enough.
    pub(crate) fn place(&self, state: &ActivationState) -> Option<WakeUpPlace> {
        if !self.is_limited() {
            return None;
        }
        let cpu = TAKEN.get().or_else(freed_cpu)?;
        let thread = self.registry.get(state.number())?.thread()?;
        WakeUpPlace::new(thread, cpu)
    }
}
