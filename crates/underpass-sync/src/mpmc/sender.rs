//! The sending end of a channel.

use super::channel::{ChannelCore, SendFailure};
use super::{SendError, SendTimeoutError, TrySendError};
use crate::runtime::WaitLimit;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sends messages into a channel. Each sending thread has a clone. When the last clone is dropped,
/// the channel is disconnected.
pub struct Sender<T> {
    pub(super) channel: Arc<ChannelCore<T>>,
}

impl<T> Sender<T> {
    /// Sends a message. Waits until there is room for it, or, without a buffer, until it is
    /// received.
    ///
    /// # Errors
    /// If all receivers are gone, or the thread is cancelled while it waits. The message is in the
    /// error.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.channel.send(message, WaitLimit::Endless).map_err(|unsent| match unsent {
            SendFailure::Gone(message) => SendError::Disconnected(message),
            // Without a deadline the wait never ends late.
            SendFailure::Cancelled(message) | SendFailure::Late(message) => SendError::Cancelled(message),
        })
    }

    /// Sends a message if there is room for it, or, without a buffer, if a receiver waits.
    ///
    /// # Errors
    /// If there is no room or no receiver waits, or if all receivers are gone. The message is in
    /// the error.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.channel.send(message, WaitLimit::None).map_err(|unsent| match unsent {
            SendFailure::Gone(message) => TrySendError::Disconnected(message),
            // A thread that doesn't wait isn't cancelled.
            SendFailure::Late(message) | SendFailure::Cancelled(message) => TrySendError::Full(message),
        })
    }

    /// Sends a message; waits no longer than `span`.
    ///
    /// # Errors
    /// If the time is over, all receivers are gone, or the thread is cancelled while it waits. The
    /// message is in the error.
    pub fn send_timeout(&self, message: T, span: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_for(message, WaitLimit::of(span))
    }

    /// Sends a message; does not wait beyond `deadline`.
    ///
    /// # Errors
    /// As [`send_timeout`](Self::send_timeout).
    pub fn send_deadline(&self, message: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.send_for(message, WaitLimit::until(deadline))
    }

    fn send_for(&self, message: T, limit: WaitLimit) -> Result<(), SendTimeoutError<T>> {
        self.channel.send(message, limit).map_err(|unsent| match unsent {
            SendFailure::Late(message) => SendTimeoutError::Timeout(message),
            SendFailure::Gone(message) => SendTimeoutError::Disconnected(message),
            SendFailure::Cancelled(message) => SendTimeoutError::Cancelled(message),
        })
    }

    /// How many messages are in the channel now.
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Whether the channel has no messages now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the channel has no room for another message now. Without a buffer, always `true`.
    pub fn is_full(&self) -> bool {
        self.capacity().is_some_and(|most| self.len() >= most)
    }

    /// How many messages the channel can hold. `None` if any number.
    pub fn capacity(&self) -> Option<usize> {
        self.channel.capacity()
    }

    /// Whether `other` sends into the same channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.channel.add_sender();
        Self { channel: Arc::clone(&self.channel) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.channel.drop_sender();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}
