//! Control blocks: what stands for a thread, and what a thread's home keeps in it.

pub(crate) mod body;
pub(crate) mod coarse_clock;
pub(crate) mod control;
pub(crate) mod owned;
pub(crate) mod registry;
pub(crate) mod timers;
