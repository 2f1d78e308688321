//! The buffer of a channel: messages that were not received yet.

use std::collections::VecDeque;

/// About how many bytes of messages a chunk holds.
const CHUNK_BYTES: usize = 4096;

/// Messages in their order. Under the lock it neither allocates nor frees memory: chunks are made
/// and dropped by its callers, outside.
pub(crate) enum Buffer<T> {
    /// A queue with room for `capacity` messages, which was allocated at once.
    Bounded { capacity: usize, messages: VecDeque<T> },
    /// Chunks that never grow. All but the last are full of messages that are still to be received.
    Unbounded { chunks: VecDeque<Chunk<T>>, len: usize, spare: Option<Chunk<T>> },
}

/// Room for a number of messages.
pub(crate) type Chunk<T> = VecDeque<T>;

/// Why a message was not added.
pub(crate) enum PushError<T> {
    /// The buffer is at its capacity.
    Full(T),
    /// It needs another [`Chunk`] first.
    NoRoom(T),
}

impl<T> Buffer<T> {
    pub(crate) fn new(capacity: Option<usize>) -> Self {
        match capacity {
            Some(capacity) => Self::Bounded { capacity, messages: VecDeque::with_capacity(capacity) },
            None => Self::Unbounded { chunks: VecDeque::new(), len: 0, spare: None },
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bounded { messages, .. } => messages.len(),
            Self::Unbounded { len, .. } => *len,
        }
    }

    /// Adds a message.
    #[inline]
    pub(crate) fn push(&mut self, message: T) -> Result<(), PushError<T>> {
        match self {
            Self::Bounded { capacity, messages } => {
                if messages.len() >= *capacity {
                    return Err(PushError::Full(message));
                }
                messages.push_back(message);
            }
            Self::Unbounded { chunks, len, spare } => {
                let room = chunks.back().is_some_and(|last| last.len() < last.capacity());
                if !room {
                    match spare.take() {
                        Some(spare) => chunks.push_back(spare),
                        None => return Err(PushError::NoRoom(message)),
                    }
                }
                if let Some(last) = chunks.back_mut() {
                    last.push_back(message);
                    *len += 1;
                }
            }
        }
        Ok(())
    }

    /// The oldest message, which stays.
    pub(crate) fn first(&self) -> Option<&T> {
        match self {
            Self::Bounded { messages, .. } => messages.front(),
            Self::Unbounded { chunks, .. } => chunks.iter().find_map(VecDeque::front),
        }
    }

    /// The oldest message, and a chunk that the caller has to drop outside.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(T, Option<Chunk<T>>)> {
        match self {
            Self::Bounded { messages, .. } => Some((messages.pop_front()?, None)),
            Self::Unbounded { chunks, len, spare } => {
                let message = chunks.front_mut()?.pop_front()?;
                *len -= 1;
                let mut spent = None;
                // The last chunk stays: while as many messages come as go, it is the only one.
                if chunks.len() > 1 && chunks.front().is_some_and(VecDeque::is_empty) {
                    spent = std::mem::replace(spare, chunks.pop_front());
                }
                Some((message, spent))
            }
        }
    }

    /// Adds room. Returns the chunk if there is an unused one already.
    pub(crate) fn supply(&mut self, chunk: Chunk<T>) -> Option<Chunk<T>> {
        match self {
            Self::Unbounded { spare, .. } if spare.is_none() => {
                *spare = Some(chunk);
                None
            }
            _ => Some(chunk),
        }
    }

    /// A chunk to supply.
    pub(crate) fn chunk() -> Chunk<T> {
        VecDeque::with_capacity((CHUNK_BYTES / size_of::<T>().max(1)).clamp(4, 1024))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(buffer: &mut Buffer<u32>, message: u32) -> bool {
        match buffer.push(message) {
            Ok(()) => true,
            Err(PushError::Full(_)) => false,
            Err(PushError::NoRoom(message)) => {
                assert!(buffer.supply(Buffer::chunk()).is_none(), "it has no spare one");
                buffer.push(message).is_ok()
            }
        }
    }

    #[test]
    fn messages_keep_their_order_over_chunks() {
        let mut buffer = Buffer::new(None);
        let (mut sent, mut received) = (0, 0);
        for round in 0..10 {
            (0..1000 * round).for_each(|_| {
                assert!(push(&mut buffer, sent));
                sent += 1;
            });
            for _ in 0..900 * round {
                assert_eq!(buffer.pop().unwrap().0, received);
                received += 1;
            }
            assert_eq!(buffer.len(), (sent - received) as usize);
        }
        while let Some((message, _)) = buffer.pop() {
            assert_eq!(message, received);
            received += 1;
        }
        assert_eq!((sent, buffer.len()), (received, 0));
    }

    #[test]
    fn a_bound_is_kept() {
        let mut buffer = Buffer::new(Some(2));
        assert!(push(&mut buffer, 1) && push(&mut buffer, 2) && !push(&mut buffer, 3));
        assert_eq!(buffer.pop().unwrap().0, 1);
        assert!(push(&mut buffer, 3) && !push(&mut buffer, 4));
        assert!(!push(&mut Buffer::new(Some(0)), 1));
    }
}
