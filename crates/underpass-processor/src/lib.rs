//! Processors: activations, what they look at when idle, and how they sleep and wake.
//!
//! *Decides:* how many activations a domain has ([`Pool`]), which lines an idle processor polls ([`lines`]), how long it
//! does so ([`Spin`]), and the steps by which it goes to sleep ([`sleep()`]).
//!
//! *Must not know:* threads (it declares what they implement, [`Upcall`]), channels ([`Line`]), calls.
//!
//! *Read first:* `line.rs`.
#![forbid(unsafe_code)]

#[cfg(not(underpass_loom))]
mod line;
#[cfg(not(underpass_loom))]
pub mod lines;
mod parker;
#[cfg(not(underpass_loom))]
mod pool;
#[cfg(not(underpass_loom))]
mod sleep;
#[cfg(not(underpass_loom))]
mod spin;
#[cfg(not(underpass_loom))]
mod tally;

#[cfg(not(underpass_loom))]
pub use line::Line;
pub use parker::Parker;
#[cfg(not(underpass_loom))]
pub use pool::{Pool, Upcall};
#[cfg(not(underpass_loom))]
pub use sleep::{Role, sleep};
#[cfg(not(underpass_loom))]
pub use spin::{Spin, set_wake_up_cost};
#[cfg(not(underpass_loom))]
pub use tally::{Tally, tally};
