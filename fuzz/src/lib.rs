//! What the fuzz targets share: an interface, values of its types made from its descriptor, and a
//! peer that keeps to no rule.
//!
//! *Read first:* `peer.rs`, the steps of which the inputs of `server`, `client` and `domain`
//! consist.

mod calls;
mod interface;
mod liar;
mod peer;
mod values;
mod visitor;

pub use calls::call;
pub use interface::{Fields, Nothing, Shape, Target, TargetClient, Tree};
pub use liar::Liar;
pub use peer::{Peer, Step};
pub use values::Values;
pub use visitor::{Greeting, Visitor};
