//! The primitives under load, and models of their protocols.

#[cfg(not(underpass_loom))]
mod bias;
#[cfg(not(underpass_loom))]
mod cancelled;
#[cfg(not(underpass_loom))]
mod crew;
#[cfg(not(underpass_loom))]
mod deadlock;
#[cfg(underpass_loom)]
mod loom;
#[cfg(not(underpass_loom))]
mod model;
#[cfg(not(underpass_loom))]
mod stress;
