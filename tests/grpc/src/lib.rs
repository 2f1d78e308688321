//! gRPC services for tests and benchmarks: generated code, what answers, and a server process.
//!
//! *Read first:* `proto/interop.proto`.
#![forbid(unsafe_code)]

/// The code in the guide is compiled, and run.
#[cfg(doctest)]
#[doc = include_str!("../../../doc/guides/grpc.md")]
mod guide {}

mod asking;
mod control;
mod echo_layer;
/// What tonic's generator makes of `proto/interop.proto`.
#[allow(missing_docs, clippy::all, clippy::missing_errors_doc, reason = "generated")]
pub mod generated;
mod interop;
mod serving;
mod way;

pub use asking::counts;
pub use control::ControlService;
pub use echo_layer::{EchoLayer, EchoService, INITIAL, TRAILING};
pub use interop::InteropService;
pub use serving::{address_of, routes, serve_process};
pub use way::{Served, WAYS, Way};
