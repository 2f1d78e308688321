//! Control blocks: the state of each thread, and the fields that its home keeps in it.

pub(crate) mod body;
pub(crate) mod coarse_clock;
pub(crate) mod control;
pub(crate) mod locals;
pub(crate) mod owned;
pub(crate) mod registry;
pub(crate) mod served;
pub(crate) mod suspension;
pub(crate) mod thread_id;
pub(crate) mod timers;
