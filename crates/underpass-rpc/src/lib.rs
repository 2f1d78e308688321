//! Remote procedure calls: what lies between generated stubs and the shared memory of a channel.
//!
//! *Decides:* what a call is, from the client's lease of a slot until it takes the reply (`call/`);
//! how the server runs it (`dispatch/`); where arguments and results lie (`payload/`); how a
//! binding is made and how it ends (`binding/`); and what the two sides tell each other outside of
//! calls (`control/`).
//!
//! *Must not know:* Linux (it has sockets and directories from `underpass-os`), the layout of a
//! region, what a thread's stack is.
//!
//! *Read first:* `call/client.rs`, then `dispatch/server.rs`.
#![deny(unsafe_code)]

mod binding;
mod call;
mod carried;
mod control;
mod counters;
mod dispatch;
#[cfg(feature = "ends")]
#[doc(hidden)]
pub mod ends;
mod error;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;
pub mod metrics;
mod payload;
pub mod remote;
mod trace_context;

pub use binding::export::Server;
pub use binding::grant::Grant;
pub use binding::hang_up::hang_up;
pub use binding::health::{Health, HealthChanges};
pub use binding::inspect;
pub use binding::limits::Limits;
pub use binding::object::{Binding, Bindings, given_interfaces};
pub use binding::peer::{Peer, binding_state, caller};
pub use binding::resilient::Policy;
pub use binding::run_phase::RunPhase;
pub use binding::running::{BoundServer, Running};
pub use binding::service::Service;
pub use call::abandon::Abandon;
pub use call::leasing::AllLeased;
pub use call::stub::{ServerState, Stub};
pub use call::untyped::{UntypedClient, UntypedMessage};
pub use carried::{CarriedError, ResultOf};
#[doc(hidden)]
pub use control::clerk::spawn_apart;
#[doc(hidden)]
pub use control::sign_of_life::await_runtime;
pub use counters::{Counters, active_bindings, counters};
pub use dispatch::async_handler::{Handler, Spawn};
pub use dispatch::deadline::{Cancellation, cancellation, cancelled, deadline, detached, is_cancelled};
#[doc(hidden)]
pub use dispatch::deferred_reply::DeferredReply;
#[doc(hidden)]
pub use dispatch::detached_call::{DetachedCall, ProcedureCall};
#[doc(hidden)]
pub use dispatch::exclusive::Exclusive;
pub use dispatch::incoming::{Dispatch, IncomingCall, Refused};
#[doc(hidden)]
pub use dispatch::local_handlers::{DispatchLocal, HandlerCall, LocalCall};
pub use error::{CallError, Error, ExportError, FromCallError, ImportError, Outcome, ShareError};
#[doc(hidden)]
pub use payload::passed_file::PassedSocket;
pub use payload::sealed::{Sealed, SealedWriter};
pub use payload::shared::{Shared, SharedLater};
pub use trace_context::{InTraceContext, TraceContext};
pub use underpass_channel::{Copied, copied};
