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
mod activation;
#[cfg(not(underpass_loom))]
mod bell;
#[cfg(not(underpass_loom))]
mod census;
#[cfg(not(underpass_loom))]
mod company;
mod crowd;
#[cfg(not(underpass_loom))]
mod deferral;
#[cfg(not(underpass_loom))]
mod handover;
#[cfg(not(underpass_loom))]
mod keeper;
#[cfg(not(underpass_loom))]
mod line;
#[cfg(not(underpass_loom))]
pub mod lines;
#[cfg(not(underpass_loom))]
mod maximum;
#[cfg(not(underpass_loom))]
mod monitor;
#[cfg(not(underpass_loom))]
mod notes;
mod parker;
#[cfg(not(underpass_loom))]
mod pool;
#[cfg(not(underpass_loom))]
pub mod preempt;
#[cfg(not(underpass_loom))]
mod roster;
#[cfg(not(underpass_loom))]
mod seat;
#[cfg(not(underpass_loom))]
mod sleep;
#[cfg(not(underpass_loom))]
mod slots;
#[cfg(not(underpass_loom))]
mod spin;
#[cfg(not(underpass_loom))]
mod steward;
#[cfg(not(underpass_loom))]
mod tally;
#[cfg(not(underpass_loom))]
mod turns;
#[cfg(not(underpass_loom))]
mod world;

/// The steps of deferral, for its models.
#[cfg(underpass_loom)]
pub mod deferral;
/// The protocol apart from kernel threads, for its models.
#[cfg(underpass_loom)]
pub mod seat;
/// The word of the slots, for its models.
#[cfg(underpass_loom)]
pub mod slots;
/// The protocol apart from kernel threads, for its models.
#[cfg(underpass_loom)]
pub mod turns;

#[cfg(not(underpass_loom))]
pub use activation::Activation;
#[cfg(not(underpass_loom))]
pub use census::Census;
#[cfg(not(underpass_loom))]
pub use handover::{give_way, stand_by};
#[cfg(not(underpass_loom))]
pub use keeper::Keeper;
#[cfg(not(underpass_loom))]
pub use line::Line;
pub use parker::Parker;
#[cfg(not(underpass_loom))]
pub use pool::{Pool, Upcall};
#[cfg(not(underpass_loom))]
pub use roster::MOST_ACTIVATIONS;
#[cfg(not(underpass_loom))]
pub use sleep::{Donee, PROMPT, Role, patience, prompt_patience, sleep, sleep_and_donate};
#[cfg(not(underpass_loom))]
pub use spin::{Habit, Spin, set_wake_up_cost, wake_up_cost};
#[cfg(not(underpass_loom))]
pub use tally::{Tally, tally};
