//! The parts that the fuzz targets share: an interface, values of its types made from its
//! descriptor, and a peer that follows no rule.
//!
//! *Read first:* `peer.rs`. The inputs of `server`, `client` and `domain` consist of its steps.

mod calls;
mod interface;
mod lane_lie;
mod liar;
mod peer;
mod values;
mod visitor;

pub use calls::call;
pub use interface::{Extended, Fields, Nothing, Shape, Target, TargetClient, Tree};
pub use lane_lie::LaneLie;
pub use liar::Liar;
pub use peer::{Peer, Step};
pub use values::Values;
pub use visitor::{Greeting, Versions, Visitor};
