//! The policy, and the server against a hostile domain; models of the protocol of pages.

#[cfg(not(underpass_loom))]
#[path = "../../examples/simulate/behaviour.rs"]
mod behaviour;
#[cfg(not(underpass_loom))]
#[path = "../../examples/simulate/fair_shares.rs"]
mod fair_shares;
#[cfg(not(underpass_loom))]
mod hostile;
#[cfg(underpass_loom)]
mod loom;
#[cfg(not(underpass_loom))]
#[path = "../../examples/simulate/random.rs"]
mod random;
#[cfg(not(underpass_loom))]
mod random_runs;
#[cfg(not(underpass_loom))]
mod rules;
#[cfg(not(underpass_loom))]
#[path = "../../examples/simulate/world.rs"]
mod world;
