//! `std::sync::mpsc` for user-level threads: the same names, over [`mpmc`].
//!
//! If a wait ends because its thread was cancelled, it returns the error for a missing other end,
//! since `std` has no error for cancellation. `cancelled()` tells which of the two it was. The
//! errors of [`mpmc`] distinguish them.
//!
//! # Examples
//! ```
//! use underpass::sync::mpsc;
//! use underpass::thread;
//!
//! let (sender, receiver) = mpsc::channel();
//! for n in 0..3 {
//!     let sender = sender.clone();
//!     thread::spawn(move || sender.send(n).unwrap());
//! }
//! drop(sender);
//! assert_eq!(receiver.iter().sum::<i32>(), 3);
//! ```

use crate::mpmc;
use std::marker::PhantomData;
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::time::Duration;

/// The sending end of a channel that takes any number of messages.
#[derive(Debug)]
pub struct Sender<T>(mpmc::Sender<T>);

/// The sending end of a channel with a bound.
#[derive(Debug)]
pub struct SyncSender<T>(mpmc::Sender<T>);

/// The receiving end of a channel.
#[derive(Debug)]
pub struct Receiver<T> {
    receiver: mpmc::Receiver<T>,
    /// As in `std`, only one thread at a time may use it.
    single: PhantomData<std::cell::Cell<()>>,
}

/// A channel for any number of messages: sending never waits.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpmc::unbounded();
    (Sender(sender), Receiver { receiver, single: PhantomData })
}

/// A channel for up to `bound` messages. With 0, sender and receiver wait for each other.
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let (sender, receiver) = mpmc::bounded(bound);
    (SyncSender(sender), Receiver { receiver, single: PhantomData })
}

impl<T> Sender<T> {
    /// Sends a message.
    ///
    /// # Errors
    /// If the receiver is gone; the message is in the error.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.0.send(message).map_err(|error| SendError(error.into_inner()))
    }
}

impl<T> SyncSender<T> {
    /// Sends a message. Waits until there is room for it, or, with a bound of 0, until it is
    /// received.
    ///
    /// # Errors
    /// If the receiver is gone, or if the thread was cancelled while it waited. The message is in
    /// the error.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.0.send(message).map_err(|error| SendError(error.into_inner()))
    }

    /// Sends a message if that needs no wait.
    ///
    /// # Errors
    /// If there is no room, or if the receiver is gone. The message is in the error.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.0.try_send(message).map_err(|error| match error {
            mpmc::TrySendError::Full(message) => TrySendError::Full(message),
            mpmc::TrySendError::Disconnected(message) => TrySendError::Disconnected(message),
        })
    }
}

impl<T> Receiver<T> {
    /// Waits for a message.
    ///
    /// # Errors
    /// If all senders are gone and no message is left, or if the thread was cancelled while it
    /// waited.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.receiver.recv().map_err(|_| RecvError)
    }

    /// The next message, if there is one.
    ///
    /// # Errors
    /// If there is none, or if all senders are gone and no message is left.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.receiver.try_recv().map_err(|error| match error {
            mpmc::TryRecvError::Empty => TryRecvError::Empty,
            mpmc::TryRecvError::Disconnected => TryRecvError::Disconnected,
        })
    }

    /// Waits for a message, but no longer than `span`.
    ///
    /// # Errors
    /// If the time is over; if all senders are gone and no message is left; or if the thread was
    /// cancelled while it waited.
    pub fn recv_timeout(&self, span: Duration) -> Result<T, RecvTimeoutError> {
        self.receiver.recv_timeout(span).map_err(|error| match error {
            mpmc::RecvTimeoutError::Timeout => RecvTimeoutError::Timeout,
            mpmc::RecvTimeoutError::Disconnected | mpmc::RecvTimeoutError::Cancelled => {
                RecvTimeoutError::Disconnected
            }
        })
    }

    /// Messages as they come, until all senders are gone or the thread is cancelled.
    pub fn iter(&self) -> mpmc::Iter<'_, T> {
        self.receiver.iter()
    }

    /// The messages that are in the channel now. Never waits.
    pub fn try_iter(&self) -> mpmc::TryIter<'_, T> {
        self.receiver.try_iter()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// For [`Select`](crate::Select).
impl<T> AsRef<mpmc::Sender<T>> for SyncSender<T> {
    fn as_ref(&self) -> &mpmc::Sender<T> {
        &self.0
    }
}

/// For [`Select`](crate::Select).
impl<T> AsRef<mpmc::Receiver<T>> for Receiver<T> {
    fn as_ref(&self) -> &mpmc::Receiver<T> {
        &self.receiver
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = mpmc::Iter<'a, T>;
    fn into_iter(self) -> mpmc::Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = mpmc::IntoIter<T>;
    fn into_iter(self) -> mpmc::IntoIter<T> {
        self.receiver.into_iter()
    }
}
