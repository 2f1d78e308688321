//! Channels with any number of senders and receivers.
//!
//! Messages are received in the order in which they were sent, and waiting threads are served in
//! the order in which they came.
//!
//! # Examples
//! ```
//! use underpass::sync::mpmc;
//! use underpass::thread;
//!
//! let (sender, receiver) = mpmc::bounded(2);
//! let workers: Vec<_> = (0..3)
//!     .map(|_| {
//!         let receiver = receiver.clone();
//!         thread::spawn(move || receiver.iter().sum::<u32>())
//!     })
//!     .collect();
//! drop(receiver);
//! (1..=10).for_each(|n| sender.send(n).unwrap());
//! drop(sender);
//! assert_eq!(workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u32>(), 55);
//! ```

mod buffer;
mod channel;
mod errors;
mod receiver;
mod sender;

pub(crate) use channel::{ChannelCore, Enrolled};
pub use errors::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};
pub use receiver::{IntoIter, Iter, Receiver, TryIter};
pub use sender::Sender;

use std::sync::Arc;

/// A channel for up to `capacity` messages. Its memory is allocated at once. With 0, each message
/// goes straight from a sender to a receiver, and the two wait for each other (rendezvous).
///
/// # Panics
/// If the address space is too small for `capacity` messages.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    ends(Some(capacity))
}

/// A channel for any number of messages: sending never waits.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    ends(None)
}

fn ends<T>(capacity: Option<usize>) -> (Sender<T>, Receiver<T>) {
    let channel = ChannelCore::new(capacity);
    (Sender { channel: Arc::clone(&channel) }, Receiver { channel })
}

impl<T> Sender<T> {
    pub(crate) fn channel(&self) -> &ChannelCore<T> {
        &self.channel
    }
}

impl<T> Receiver<T> {
    pub(crate) fn channel(&self) -> &ChannelCore<T> {
        &self.channel
    }
}

impl<T> AsRef<Self> for Sender<T> {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl<T> AsRef<Self> for Receiver<T> {
    fn as_ref(&self) -> &Self {
        self
    }
}
