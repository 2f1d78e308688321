//! The layer where data transfer, threads and processors meet: bindings, calls, their dispatch and
//! their end.
//!
//! *Decides:*
//! * `call/`: what a call is, from the client's lease of a slot to the client taking the reply;
//! * `dispatch/`: how the server runs it;
//! * `payload/`: where arguments and results lie;
//! * `binding/`: how a binding is made and how it ends;
//! * `control/`: which messages travel outside of calls.
//!
//! *Must not know:* Linux (`underpass-os` gives it sockets and directories), the layout of a
//! region, how a thread's stack is made.
//!
//! *Read first:* `call/client.rs`, then `dispatch/server.rs`.
#![deny(unsafe_code)]

mod binding;
mod call;
mod control;
mod counters;
mod dispatch;
mod error;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;
mod payload;

pub use binding::export::Server;
pub use binding::grant::Grant;
pub use binding::hang_up::hang_up;
pub use binding::limits::Limits;
pub use binding::object::{Binding, Bindings};
pub use binding::peer::{Peer, binding_state, caller};
pub use binding::resilient::Policy;
pub use binding::running::{BoundServer, Running};
pub use binding::service::Service;
pub use call::abandon::Abandon;
pub use call::answer::Results;
pub use call::leasing::AllLeased;
pub use call::stub::Stub;
#[doc(hidden)]
pub use control::clerk::spawn_apart;
pub use counters::{Counters, active_bindings, counters};
pub use dispatch::deadline::{Cancellation, cancellation, deadline, detached, is_cancelled};
pub use dispatch::incoming::{Dispatch, Incoming, Refused};
pub use dispatch::later::{Handler, Spawn};
pub use error::{CallError, Error, ExportError, FromCallError, ImportError, Outcome, ShareError};
pub use payload::sealed::{Sealed, SealedWriter};
pub use payload::shared::Shared;
pub use underpass_channel::{Copied, copied};
