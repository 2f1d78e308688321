//! I/O that blocks one thread and nothing else: the activation of a user-level thread goes on with
//! its other threads.
//!
//! *Decides:* how a thread waits for a descriptor ([`Async`]), and what wakes it: the reactor, one
//! kernel thread that sleeps in the poller. It also decides how sockets, pipes, timers and child
//! processes look to a thread ([`net`], [`pipe()`], [`Timer`], [`process`]): as in `std`.
//!
//! *Must not know:* channels, calls, and how threads are scheduled. It suspends and wakes threads
//! by [`suspend`](underpass_threads::suspend) and
//! [`Control::wake`](underpass_threads::Control::wake).
//!
//! [`Completions`] are for threads that wait in an event loop of their own: calls end at a
//! descriptor.
//!
//! Plain kernel threads may use everything here too: they sleep in the kernel. A wait can be
//! cancelled, and then ends in an error that [`is_cancelled`] recognizes. A wait with a deadline
//! ends in [`TimedOut`](std::io::ErrorKind::TimedOut).
//!
//! Unsafe code lives in `registration.rs` alone: one call of the poller.
//!
//! *Read first:* the proof below (`README.md`), then `event_source.rs`, then `descriptor.rs`.
#![doc = include_str!("README.md")]
#![deny(unsafe_code)]

mod cancelled;
mod completions;
mod descriptor;
mod direction;
mod event_source;
mod lock;
pub mod net;
mod pipe;
pub mod process;
mod reactor;
mod read_write;
mod registration;
mod timer;
mod waiting;

pub use cancelled::is_cancelled;
pub use completions::Completions;
pub use descriptor::Async;
pub use pipe::{PipeReader, PipeWriter, pipe};
pub use timer::Timer;
pub use underpass_threads::Cancelled;
