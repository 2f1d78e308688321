//! What the fuzz targets share: an interface, values of its types made from its descriptor, and a peer that keeps to no rule.
//!
//! *Read first:* `peer.rs`, the steps of which the inputs of `server` and `client` consist.

mod interface;
mod peer;
mod values;

pub use interface::{Fields, Nothing, Shape, Target, TargetClient, Tree};
pub use peer::{Peer, Step};
pub use values::Values;
