//! Asynchronous ports: queues of messages that are not answered. One domain owns a port, and any
//! number of others send to it (Raven, section 3). Those that are answered are in [`sync`].
//!
//! *Decides:* how a sender gets its lane, which lanes a receiver looks at, which thread is woken
//! for what, and what becomes of messages when either side dies.
//!
//! *Must not know:* how a lane lies in memory (`underpass-channel`), how a binding is made and ends
//! (`underpass-rpc`), how a thread waits (`underpass-sync`).
//!
//! *Read first:* the proof below, then `owner.rs`, then `sender.rs`.
//!
//! # Use
//! The owner opens a port, exports it under a name, and receives. A sender connects to the name.
//!
//! ```
//! use underpass::port::{Arrival, PortOptions, PortSender};
//!
//! # let dir = std::env::temp_dir().join(format!("underpass-doc-port-{}", std::process::id()));
//! # // SAFETY: no other thread has been started yet.
//! # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
//! // In the owner's process:
//! let (service, receiver) = PortOptions::new().messages(20).open::<String>()?;
//! let running = underpass::Server::new().export("notes", service).start()?;
//!
//! // In a sender's process, or in several:
//! let sender = PortSender::<String>::connect("notes")?;
//! sender.send(&"the tea is ready".to_owned())?;
//! drop(sender);
//!
//! // The owner:
//! let Arrival::Message(first) = receiver.recv()? else { panic!("there was a message") };
//! assert_eq!(first.message, "the tea is ready");
//! let Arrival::Ended(lane) = receiver.recv()? else { panic!("the sender has gone") };
//! assert_eq!(lane.from, first.from);
//! # drop(running);
//! # std::fs::remove_dir_all(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | a port has | from where |
//! |---|---|
//! | a name, `authorize`, expiry, revocation, counts | it is exported as every [`Service`](underpass_rpc::Service) is |
//! | back-pressure | `send` waits for credits, `try_send` and `send_timeout` fail, [`PortOptions::drop_oldest`] loses the oldest messages and tells the receiver how many, in place |
//! | waits for threads of all kinds | `recv` and `send` block the calling thread alone; `recv_async` and `send_async` block none; [`PortReceiver::watch`] is for `Select` |
//! | order | messages of one sender come in the order of its sends |
//! | at most once | no message is received twice. After the owner's death [`PortSender::unreceived`] returns the messages that it has not received |
#![doc = include_str!("README.md")]
#![forbid(unsafe_code)]

mod arrival;
mod bell;
mod bell_thread;
mod described;
mod errors;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;
mod guard;
mod lane_slot;
mod open;
mod options;
mod owner;
mod pressure;
mod quota;
mod receiver;
mod room_spin;
mod sender;
mod sender_end;
pub mod signal;
pub mod stream;
pub mod sync;
#[cfg(test)]
mod tests;
mod wait_until;
mod waiters;
mod watch;

pub use arrival::{Arrival, LaneEnded, PortMessage, SenderId, WhyEnded};
pub use errors::{ConnectError, PortRecvError, PortSendError};
pub use open::OpenRefused;
pub use options::PortOptions;
pub use pressure::{OtherSide, Pressure};
pub use receiver::{Messages, PortReceiver};
pub use sender::{PortReservation, PortSender};
pub use underpass_channel::BadLaneSizes;
pub use watch::PortWatch;

/// What a transport to other machines needs to carry streams.
pub mod remote {
    pub use crate::stream::machines::{
        RemoteRecord, RemoteStreamEnd, RemoteStreamReader, RemoteStreamWriter,
    };
}

/// For the generated code of this crate's own interface.
#[doc(hidden)]
pub mod __private {
    pub use underpass_rpc::{
        Abandon, AllLeased, CallError, CarriedError, Counters, DetachedCall, Dispatch, Exclusive,
        FromCallError, Handler, ImportError, IncomingCall, Policy, ProcedureCall, Refused, ResultOf, Service,
        ShareError, Spawn, Stub, remote::RemoteTransport,
    };
    pub use underpass_wire as wire;
}
