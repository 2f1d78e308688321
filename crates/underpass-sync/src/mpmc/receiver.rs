//! The receiving end of a channel.

use super::channel::{ChannelCore, RecvFailure};
use super::{RecvError, RecvTimeoutError, TryRecvError};
use crate::runtime::WaitLimit;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Receives messages from a channel. Each message goes to one of the clones. When the last clone is
/// dropped, the messages that are left are dropped too, and sending fails.
pub struct Receiver<T> {
    pub(super) channel: Arc<ChannelCore<T>>,
}

impl<T> Receiver<T> {
    /// Waits for a message.
    ///
    /// # Errors
    /// If all senders are gone and no message is left, or if the thread is cancelled while it
    /// waits.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.channel.receive(WaitLimit::Endless).map_err(|missed| match missed {
            RecvFailure::Gone => RecvError::Disconnected,
            // Without a deadline the wait never ends late.
            RecvFailure::Cancelled | RecvFailure::Late => RecvError::Cancelled,
        })
    }

    /// The next message, if there is one.
    ///
    /// # Errors
    /// If there is none, or if all senders are gone and no message is left.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.channel.receive(WaitLimit::None).map_err(|missed| match missed {
            RecvFailure::Gone => TryRecvError::Disconnected,
            // A thread that doesn't wait isn't cancelled.
            RecvFailure::Late | RecvFailure::Cancelled => TryRecvError::Empty,
        })
    }

    /// Waits for a message, but no longer than `span`.
    ///
    /// # Errors
    /// If the time is over; if all senders are gone and no message is left; or if the thread is
    /// cancelled while it waits.
    pub fn recv_timeout(&self, span: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_for(WaitLimit::of(span))
    }

    /// Waits for a message, but not beyond `deadline`.
    ///
    /// # Errors
    /// As [`recv_timeout`](Self::recv_timeout).
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_for(WaitLimit::until(deadline))
    }

    fn recv_for(&self, limit: WaitLimit) -> Result<T, RecvTimeoutError> {
        self.channel.receive(limit).map_err(|missed| match missed {
            RecvFailure::Late => RecvTimeoutError::Timeout,
            RecvFailure::Gone => RecvTimeoutError::Disconnected,
            RecvFailure::Cancelled => RecvTimeoutError::Cancelled,
        })
    }

    /// Messages as they come, until all senders are gone or the thread is cancelled.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// The messages that are in the channel now. Never waits.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }

    /// What `look` says of the message that is received next. `None` if the channel is empty now.
    /// Senders and receivers wait meanwhile, so it must neither wait nor panic.
    #[doc(hidden)]
    pub fn peek<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.channel.peek(look)
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

    /// Whether `other` receives from the same channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.channel.add_receiver();
        Self { channel: Arc::clone(&self.channel) }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.channel.drop_receiver();
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

/// Messages as they come; from [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// The messages that are in the channel; from [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// Messages as they come, with the receiver; from its `into_iter`.
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;
    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}
