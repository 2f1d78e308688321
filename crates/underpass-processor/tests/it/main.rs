//! Activations and the processors that they share, and models of their protocols.

#[cfg(not(underpass_loom))]
mod compensation;
#[cfg(not(underpass_loom))]
mod deferral;
#[cfg(not(underpass_loom))]
mod fake;
#[cfg(not(underpass_loom))]
mod invariant;
#[cfg(not(underpass_loom))]
mod locks;
#[cfg(underpass_loom)]
mod loom;
#[cfg(not(underpass_loom))]
mod maximum;
#[cfg(not(underpass_loom))]
mod pinned;
#[cfg(not(underpass_loom))]
mod preemption;
