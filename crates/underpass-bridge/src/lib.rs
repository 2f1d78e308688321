//! A bridge from HTTP/2 to a gRPC server on this machine that has no TCP: `grpcurl`, Envoy and
//! probes reach it through the bridge.
//!
//! *Decides:* who reaches the bridge. It listens on a loopback address or on a Unix socket of its
//! own user, unless it is told otherwise.
//!
//! *Must not know:* what is in a call. `underpass-grpc` carries it.
//!
//! *Read first:* `service.rs`, then `place.rs`.
//!
//! To the server all calls come from the process and the user of the bridge. So whoever reaches the
//! bridge has what that user may do.
//!
//! # Examples
//! ```no_run
//! use underpass_bridge::{Bridge, BridgePlace};
//! use underpass_grpc::Channel;
//!
//! # async fn run() -> anyhow::Result<()> {
//! let channel = Channel::from_static("underpass:greeter").connect_lazy();
//! let place: BridgePlace = "127.0.0.1:50051".parse()?;
//! place.listen()?.serve(Bridge::new(channel)).await
//! # }
//! ```
#![forbid(unsafe_code)]

mod place;
mod service;

pub use place::{BridgeListener, BridgePlace};
pub use service::Bridge;
