//! Interrupts: the dispatcher, the vectors, and waiting for one.

#[cfg(not(underpass_loom))]
pub(crate) mod affinity;
#[cfg(not(underpass_loom))]
pub(crate) mod counter;
#[cfg(not(underpass_loom))]
pub(crate) mod direct;
#[cfg(not(underpass_loom))]
pub(crate) mod dispatcher;
#[cfg(not(underpass_loom))]
pub(crate) mod event;
pub(crate) mod gate;
#[cfg(not(underpass_loom))]
pub(crate) mod interrupt;
#[cfg(not(underpass_loom))]
pub(crate) mod storm;
#[cfg(not(underpass_loom))]
pub(crate) mod vector;
#[cfg(not(underpass_loom))]
pub(crate) mod waiting;
