//! Calls to and from other machines: the seam between stubs and a transport.
//!
//! `transport` is what a transport implements, and where it registers itself. `call` makes the
//! calls of stubs. `message` is a value on its way. `peers` says who may call from elsewhere,
//! and how they prove who they are. `export` runs the calls that have come.
#![doc = include_str!("remote/README.md")]

pub(crate) mod call;
pub(crate) mod export;
pub(crate) mod message;
pub(crate) mod peers;
pub(crate) mod transport;

pub use crate::dispatch::local_handlers::StreamPlace;
pub use call::RemoteCall;
pub use export::{CallInStreams, RemoteExport, RunningCall};
pub use message::{RemoteMessage, RemoteStream};
pub use peers::{RemotePeer, RemotePeers};
pub use transport::{RemoteBinding, RemoteTransport, install, most_connections};
