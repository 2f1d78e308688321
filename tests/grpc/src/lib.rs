//! gRPC services for tests and benchmarks: generated code, what answers, and a server process.
//!
//! *Read first:* `proto/interop.proto`.
#![forbid(unsafe_code)]

/// The code in the guide is compiled, and run.
#[cfg(doctest)]
#[doc = include_str!("../../../doc/guides/grpc.md")]
mod guide {}

/// As above.
#[cfg(doctest)]
#[doc = include_str!("../../../doc/guides/other-machines.md")]
mod guide_to_other_machines {}

mod asking;
mod control;
mod depot;
mod echo_layer;
/// What tonic's generator makes of `proto/interop.proto`.
#[allow(missing_docs, clippy::all, clippy::missing_errors_doc, reason = "generated")]
pub mod generated;
mod interop;
mod remote_process;
mod rows;
mod rows_server;
mod serving;
mod testing;
mod way;

pub use asking::counts;
pub use control::ControlService;
pub use depot::{Depot, DepotAsync, DepotClient, DepotService, Tally, TallyClient, TallyService};
pub use echo_layer::{EchoLayer, EchoService, INITIAL, TRAILING};
pub use interop::InteropService;
pub use remote_process::{RemoteProcess, serve_remote};
pub use rows::{Rows, RowsAsync, RowsClient, RowsService};
pub use rows_server::{RowsServer, sending};
pub use serving::{address_of, routes, serve_process};
pub use testing::testing_routes;
pub use way::{Served, WAYS, Way};
