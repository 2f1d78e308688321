//! I/O that blocks a thread and nothing else: a user-level thread's activation goes on with the
//! others.
//!
//! *Decides:* how a thread waits for a descriptor ([`Async`]) and who wakes it (the reactor, one
//! kernel thread that sleeps in the poller), what sockets, pipes, timers and child processes look
//! like to a thread ([`net`], [`pipe()`], [`Timer`], [`process`]): as in `std`.
//!
//! *Must not know:* channels, calls; how threads are scheduled. It suspends and wakes them, by
//! [`suspend`](underpass_threads::suspend) and [`Control::wake`](underpass_threads::Control::wake).
//!
//! Plain kernel threads may use everything here too: they sleep in the kernel. Waits can be
//! cancelled, and then end in an error that [`is_cancelled`] knows; those with a deadline end in
//! [`TimedOut`](std::io::ErrorKind::TimedOut).
//!
//! Unsafe code lives in `registration.rs` alone: one call of the poller.
//!
//! *Read first:* the proof below (`README.md`), then `event_source.rs`, then `descriptor.rs`.
#![doc = include_str!("README.md")]
#![deny(unsafe_code)]

mod cancelled;
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

pub use cancelled::{Cancelled, is_cancelled};
pub use descriptor::Async;
pub use pipe::{PipeReader, PipeWriter, pipe};
pub use timer::Timer;
