//! A transport under [tonic](https://docs.rs/tonic): gRPC between processes of one machine, without
//! HTTP/2.
//!
//! *Decides:* how a gRPC call travels through shared memory, and how its handler gets to tokio.
//!
//! *Must not know:* what is in a message. tonic's codec frames messages, compresses them and limits
//! their length. Generated code, interceptors, health and reflection are tonic's, and unchanged.
//!
//! *Read first:* `transport.rs`, which is the interface between the two processes, then `near.rs`
//! for the client and `grpc_server.rs` for the server.
//!
//! A client changes one line, and a server adds one:
//!
//! ```no_run
//! # use tonic::transport::Server;
//! use underpass_grpc::Channel; // instead of tonic::transport::Channel
//!
//! # async fn client() -> Result<(), tonic::Status> {
//! let channel = Channel::from_static("underpass:greeter").connect().await?;
//! // let mut client = GreeterClient::new(channel);
//! # drop(channel); Ok(())
//! # }
//! # type Served = Result<(), Box<dyn std::error::Error>>;
//! # async fn server(addr: std::net::SocketAddr, routes: tonic::service::Routes) -> Served {
//! Server::builder()
//!     .layer(underpass_grpc::alongside("greeter")?) // this line is new
//!     .add_routes(routes)
//!     .serve(addr)
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! | as over HTTP/2 | here |
//! |---|---|
//! | method, metadata, messages, trailers, status with details | one call of Underpass; what is not ready with it goes by a stream |
//! | `grpc-timeout` | the call's deadline. The handler's future is dropped when it has passed |
//! | a client that drops the response | the handler's future is dropped, or the stream that it returned |
//! | a reader that stops | stops its own writer, and nobody else |
//! | a server that dies | `UNAVAILABLE`, with [`OUTCOME`] among the metadata |
//! | `remote_addr` | none. The extension [`underpass::Peer`] says which process and user calls, as the kernel knows it |
//!
//! # Costs
//! A unary call is one message each way. A body that is not ready at once opens a stream: that
//! costs as much as a call with three open files, and each side keeps two files until the body
//! ends.
#![forbid(unsafe_code)]

mod alongside;
mod body_stream;
mod channel;
mod endpoint;
mod frame_bytes;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod gather;
#[cfg(feature = "health")]
mod grpc_health;
mod grpc_server;
mod hand_off;
mod header_bytes;
mod near;
mod outcome;
pub mod remote;
mod responder;
mod serve;
mod timeout;
mod transport;
mod whole_body;

pub use alongside::{Alongside, AlongsideService};
pub use channel::{Channel, ResponseFuture};
pub use endpoint::Endpoint;
#[cfg(feature = "health")]
pub use grpc_health::GrpcHealth;
pub use hand_off::HandOff;
pub use outcome::OUTCOME;
pub use responder::ServesGrpc;
pub use serve::{ServeOptions, alongside, service};
