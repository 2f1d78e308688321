//! Measuring subjects beside each other: how long, in which turns, and what is counted meanwhile.

pub(crate) mod call_counters;
pub mod contest;
pub(crate) mod effort;
pub(crate) mod in_process;
