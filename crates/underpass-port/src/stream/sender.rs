//! Sending over a stream.

use crate::stream::errors::{OpenStreamError, StreamSendError};
use crate::stream::options::StreamOptions;
use crate::stream::reader::Stream;
use crate::stream::words::{FAILURE, FINISHED, ITEM};
use crate::stream::writer_end::WriterEnd;
use crate::wait_until::WaitUntil;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass_os::fork;
use underpass_threads::spawn;
use underpass_wire::{Encode, Schema};

/// The writer's end of a stream. Several threads may send over it.
///
/// A stream is complete when its writer has called [`finish`](Self::finish). A sender that is
/// dropped without it leaves an incomplete stream, and the reader is told so.
///
/// # Examples
/// See the [module](crate::stream).
pub struct StreamSender<T, E = String> {
    end: Arc<WriterEnd>,
    deadline: WaitUntil,
    of: PhantomData<fn(&T, &E)>,
}

impl<T: Schema, E: Schema> StreamSender<T, E> {
    pub(crate) fn new(end: Arc<WriterEnd>) -> Self {
        Self { end, deadline: WaitUntil::Endless, of: PhantomData }
    }

    /// From now on no `send` waits beyond `deadline`.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = WaitUntil::Until(deadline);
        self
    }

    /// Sends an item, and waits for credit.
    ///
    /// # Errors
    /// [`StreamSendError`], except `Full`.
    #[inline]
    pub fn send(&self, item: &T) -> Result<(), StreamSendError> {
        self.send_within(ITEM, item, WaitUntil::Endless)
    }

    /// Sends an item if there is credit for it.
    ///
    /// # Errors
    /// [`StreamSendError`], except `Timeout` and `Cancelled`.
    #[inline]
    pub fn try_send(&self, item: &T) -> Result<(), StreamSendError> {
        self.end.try_send(ITEM, item)
    }

    /// Sends an item; waits no longer than `span`.
    ///
    /// # Errors
    /// [`StreamSendError`], except `Full`.
    pub fn send_timeout(&self, item: &T, span: Duration) -> Result<(), StreamSendError> {
        self.send_within(ITEM, item, WaitUntil::of(span))
    }

    /// Sends an item, and waits for credit without blocking a thread. A future that is dropped has
    /// sent nothing. Deadlines are those of the task's runtime.
    ///
    /// # Errors
    /// [`StreamSendError`], except `Full`, `Timeout` and `Cancelled`.
    pub async fn send_async(&self, item: &T) -> Result<(), StreamSendError> {
        self.end.send_async(ITEM, item).await
    }

    /// Says that all items were sent. The reader gets those that it has not taken yet, and then the
    /// end.
    pub fn finish(self) {
        self.end.finish(FINISHED);
    }

    /// Ends the stream with an error, after all items that were sent. Waits for credit.
    ///
    /// # Errors
    /// [`StreamSendError`], except `Full`. The stream is incomplete then.
    pub fn fail(self, error: &E) -> Result<(), StreamSendError> {
        self.send_within(FAILURE, error, WaitUntil::Endless)?;
        self.end.finish(FINISHED);
        Ok(())
    }

    /// Why nothing can be sent any more. `None` as long as it can. A writer that computes for long
    /// looks here, so that it learns that nobody reads.
    pub fn ended(&self) -> Option<StreamSendError> {
        self.end.over()
    }

    /// Waits until nothing can be sent any more, without blocking a thread, and returns why. A task
    /// that waits for its next item selects between that and this.
    ///
    /// # Examples
    /// ```
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    /// use underpass::stream::{StreamOptions, StreamSendError};
    ///
    /// let (sender, mut stream) = StreamOptions::new().open::<u32>()?;
    /// let mut task = Context::from_waker(Waker::noop());
    /// sender.send(&1)?;
    /// assert_eq!(stream.recv(), Ok(Some(1)));
    /// assert!(pin!(sender.closed()).poll(&mut task).is_pending());
    /// drop(stream);
    /// while sender.ended().is_none() {
    ///     std::thread::yield_now();
    /// }
    /// assert_eq!(pin!(sender.closed()).poll(&mut task), Poll::Ready(StreamSendError::ReaderDropped));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn closed(&self) -> StreamSendError {
        poll_fn(|task| self.end.poll_end(task)).await
    }

    /// How many items the reader has not taken.
    pub fn queued(&self) -> u64 {
        self.end.queued()
    }

    #[inline]
    fn send_within(&self, kind: u8, value: &impl Encode, limit: WaitUntil) -> Result<(), StreamSendError> {
        loop {
            match self.end.try_send(kind, value) {
                Err(StreamSendError::Full) => {
                    self.end.wait_for_room(1 + value.size(), limit.or_sooner(self.deadline))?;
                }
                sent => return sent,
            }
        }
    }
}

impl<T: Schema + Send + 'static> Stream<T> {
    /// A stream of `items`, which a thread of this domain sends. It ends early if the reader is
    /// dropped.
    ///
    /// # Errors
    /// [`OpenStreamError`], each variant with its remedy.
    ///
    /// # Examples
    /// ```
    /// use underpass::stream::Stream;
    ///
    /// let squares = Stream::of((1..=3u32).map(|n| n * n))?;
    /// let squares: Result<Vec<_>, _> = squares.into_iter().collect();
    /// assert_eq!(squares?, [1, 4, 9]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of<I>(items: I) -> Result<Self, OpenStreamError>
    where
        I: IntoIterator<Item = T> + Send + 'static,
    {
        let (sender, stream) = StreamOptions::new().open::<T>()?;
        // It runs on by itself, and ends with the stream.
        drop(spawn(move || {
            if items.into_iter().all(|item| sender.send(&item).is_ok()) {
                sender.finish();
            }
        }));
        Ok(stream)
    }
}

impl<T, E> fmt::Debug for StreamSender<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSender").finish_non_exhaustive()
    }
}

impl<T, E> Drop for StreamSender<T, E> {
    fn drop(&mut self) {
        // A child has none of its parent's lanes, and must not unmap them.
        if fork::is_forked() {
            std::mem::forget(self.end.clone());
        }
    }
}
