//! The room where data transfer, threads and processors meet: bindings, calls, their dispatch and
//! their end.
//!
//! *Decides:* what a call is, from the client's lease of a slot to its taking of the reply
//! (`client.rs`), how the server runs it (`server.rs`), how a binding comes to be
//! ([`import`](Stub::import), [`Server`]) and how it ends (`clerk.rs`).
//!
//! *Must not know:* Linux (it has sockets and directories from `underpass-os`), the layout of a
//! region, what a thread's stack is.
//!
//! *Read first:* `client.rs`, then `server.rs`.
#![deny(unsafe_code)]

mod abandon;
mod alarm;
mod annexes;
mod answer;
mod aside;
mod binding;
mod blocked;
mod changes;
mod clerk;
mod client;
mod clocks;
mod connection;
mod control;
mod control_socket;
mod counters;
mod deadline;
mod deathwatch;
mod desk;
mod elsewhere;
mod error;
mod export;
mod family;
mod file_thread;
mod forked;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;
mod grant;
mod handshake;
mod hang_up;
mod import;
mod incoming;
mod later;
mod leasing;
mod limits;
mod linkage;
mod mailbox;
mod message;
mod name;
mod news;
mod notify_retries;
mod parcel;
mod passed_file;
mod peer;
mod queue;
mod record;
mod registry;
mod replaced;
mod resilient;
mod room;
mod running;
mod sealed;
mod server;
mod service;
mod shared;
mod stub;
mod summons;
mod unnotified;
#[allow(unsafe_code)]
mod waiting;

pub use abandon::Abandon;
pub use answer::Results;
pub use binding::{Binding, Bindings};
#[doc(hidden)]
pub use clerk::spawn_apart;
pub use counters::{Counters, active_bindings, counters};
pub use deadline::{Cancellation, cancellation, deadline, detached, is_cancelled};
pub use error::{CallError, Error, ExportError, FromCallError, ImportError, Outcome, ShareError};
pub use export::Server;
pub use grant::Grant;
pub use hang_up::hang_up;
pub use incoming::{Dispatch, Incoming, Refused};
pub use later::{Handler, Spawn};
pub use leasing::AllLeased;
pub use limits::Limits;
pub use peer::{Peer, binding_state, caller};
pub use resilient::Policy;
pub use running::{BoundServer, Running};
pub use sealed::{Sealed, SealedWriter};
pub use service::Service;
pub use shared::Shared;
pub use stub::Stub;
pub use underpass_channel::{Copied, copied};
