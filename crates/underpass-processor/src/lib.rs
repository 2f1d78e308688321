//! Processors: activations, what they look at when idle, and how they sleep and wake.
//!
//! *Decides:* how many activations a domain has ([`Pool`]), which lines an idle processor polls ([`lines`]), how long it
//! does so ([`Spin`]), and the steps by which it goes to sleep ([`sleep()`]).
//!
//! *Must not know:* threads (it declares what they implement, [`Upcall`]), channels ([`Line`]), calls.
//!
//! *Read first:* `line.rs`.
#![forbid(unsafe_code)]

mod line;
pub mod lines;
mod pool;
mod sleep;
mod spin;
mod tally;

pub use line::Line;
pub use pool::{Pool, Upcall};
pub use sleep::{Parker, Role, sleep};
pub use spin::{Spin, set_wake_up_cost};
pub use tally::{Tally, tally};
