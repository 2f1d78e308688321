//! Synchronous ports: queues of messages whose senders wait for a reply (Raven, section 3.1).
//!
//! The owner receives a message together with the right to reply to it, a [`Reply`]. It replies
//! when it likes: at once, later, out of order, from another thread. Meanwhile the sender waits,
//! and nobody else does.
//!
//! | you want | use |
//! |---|---|
//! | an answer that a function computes | a call of an interface |
//! | an answer that depends on what comes later: a lock, a job, a rendezvous | a synchronous port |
//! | no answer | an [asynchronous port](crate) |
//!
//! # Examples
//! A service that hands out one lock, and parks the replies of those that wait for it:
//!
//! ```
//! use std::collections::VecDeque;
//! use underpass::port::sync::{Reply, SyncPortOptions, SyncPortSender};
//!
//! #[derive(Debug, underpass::Wire)]
//! enum Order {
//!     Lock,
//!     Unlock,
//! }
//!
//! # let dir = std::env::temp_dir().join(format!("underpass-doc-sync-{}", std::process::id()));
//! # // SAFETY: no other thread has been started yet.
//! # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
//! // In the owner's process:
//! let (service, port) = SyncPortOptions::new().messages(20).open::<Order, ()>();
//! let running = underpass::Server::new().export("lock", service).start()?;
//! let owner = underpass::thread::spawn(move || {
//!     let (mut locked, mut parked) = (false, VecDeque::<Reply<()>>::new());
//!     for came in port.messages() {
//!         let (order, reply) = came.take();
//!         match order {
//!             Order::Lock if locked => parked.push_back(reply),
//!             Order::Lock => {
//!                 locked = true;
//!                 reply.give(());
//!             }
//!             Order::Unlock => {
//!                 reply.give(());
//!                 // Those whose senders have given up or died are dropped.
//!                 let next = std::iter::from_fn(|| parked.pop_front()).find(Reply::is_wanted);
//!                 locked = next.is_some();
//!                 next.into_iter().for_each(|reply| reply.give(()));
//!             }
//!         }
//!     }
//! });
//!
//! // In a sender's process:
//! let lock = SyncPortSender::<Order, ()>::connect("lock")?;
//! lock.send(&Order::Lock)?;
//! let second = lock.begin(Order::Lock)?; // waits in the owner
//! lock.send(&Order::Unlock)?;
//! second.wait()?;
//! # drop((lock, running));
//! # owner.join().unwrap();
//! # std::fs::remove_dir_all(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Messages
//! A message is a value of any type that travels, and the receiver gets a copy of its own.
//! [`Sealed`](underpass_rpc::Sealed) memory is read where it lies, as a slice. Of
//! [`SharedMessage`] the receiver gets an accessor that copies out of the sender's memory.
#![doc = include_str!("sync/README.md")]

mod dispatch;
mod errors;
#[cfg(fuzzing)]
pub(crate) mod fuzz;
mod interface;
mod lane;
mod message;
mod options;
mod pending;
mod receiver;
mod reply;
mod sender;
mod sender_end;
#[cfg(test)]
mod tests;
mod turns;

pub use errors::SyncSendError;
pub(crate) use interface::RefusalMark;
pub use message::{PortRequest, SharedMessage, SyncMessage};
pub use options::SyncPortOptions;
pub use pending::PendingReply;
pub use receiver::{SyncMessages, SyncPortReceiver};
pub use reply::Reply;
pub use sender::SyncPortSender;
pub use underpass_rpc::SharedLater;
