//! Scheduling on one activation: which thread runs next, how it is switched to, stealing and
//! idling.

pub(crate) mod activations;
pub(crate) mod idle;
pub(crate) mod listener_state;
pub(crate) mod no_preempt;
pub(crate) mod panic_count;
pub(crate) mod retire;
pub(crate) mod runner;
pub(crate) mod runner_pool;
pub(crate) mod scheduler;
pub(crate) mod self_report;
pub(crate) mod stack_sizes;
pub(crate) mod stealing;
pub(crate) mod switch_hooks;
pub(crate) mod switching;
pub(crate) mod thread_end;
pub(crate) mod unused_blocks;
pub(crate) mod wake;
