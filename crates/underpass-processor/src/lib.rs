//! Processors: activations, when they may run, what they look at when idle, and how they sleep and
//! wake.
//!
//! *Decides:* how many activations of a domain run at once and which ([`Pool`], [`Activation`]),
//! when one has to give way ([`preempt`], and the monitor), which lines an idle processor polls
//! ([`lines`]), how long it does so ([`Spin`]), and the steps by which it goes to sleep
//! ([`sleep()`]).
//!
//! *Must not know:* threads (it declares what they implement, [`Upcall`]), channels ([`Line`]),
//! calls.
//!
//! *Read first:* the proof, which follows here from `README.md`; then `turns.rs`, which does what
//! it says.
#![doc = include_str!("README.md")]
#![forbid(unsafe_code)]

#[cfg(not(underpass_loom))]
mod idle;
#[cfg(not(underpass_loom))]
pub mod lines;
#[cfg(not(underpass_loom))]
mod metrics;
#[cfg(not(underpass_loom))]
mod monitor;
mod park;
#[cfg(not(underpass_loom))]
mod permits;
#[cfg(not(underpass_loom))]
mod pool;
#[cfg(not(underpass_loom))]
mod start;

/// The protocol apart from kernel threads, for its models.
#[cfg(underpass_loom)]
pub mod permits;

#[cfg(not(underpass_loom))]
pub use idle::donate::{give_way, stand_by};
#[cfg(not(underpass_loom))]
pub use idle::sleep::{Donee, PROMPT, Role, patience, prompt_patience, sleep, sleep_and_donate};
#[cfg(not(underpass_loom))]
pub use idle::spin::{AdaptiveSpin, Spin};
#[cfg(not(underpass_loom))]
pub use lines::line::Line;
#[cfg(not(underpass_loom))]
pub use lines::owner::LineOwner;
#[cfg(not(underpass_loom))]
pub use metrics::{Metrics, metrics};
pub use park::parker::Parker;
#[cfg(not(underpass_loom))]
pub use park::wake_up_cost::{set_wake_up_cost, wake_up_cost};
#[cfg(not(underpass_loom))]
pub use pool::activation::Activation;
#[cfg(not(underpass_loom))]
pub use pool::activation_counts::ActivationCounts;
#[cfg(not(underpass_loom))]
pub use pool::preempt;
#[cfg(not(underpass_loom))]
pub use pool::registry::MOST_ACTIVATIONS;
#[cfg(not(underpass_loom))]
pub use pool::{Pool, Upcall};
