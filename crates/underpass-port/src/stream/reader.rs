//! Reading a stream.

use crate::stream::binding::ends_with_binding;
use crate::stream::errors::StreamError;
use crate::stream::offer::StreamOffer;
use crate::stream::open_stream::OpenStream;
use crate::wait_until::WaitUntil;
use futures_core::stream::FusedStream;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use underpass_os::fork;
use underpass_wire::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types};

/// A stream of items from one domain to another: an argument or a result of a method, and the
/// reader's end of it.
///
/// It is an iterator for blocking code ([`iter`](Self::iter), `for`), and a
/// [`futures_core::Stream`] for async code. When it is dropped, its writer learns that nobody
/// reads. A stream that came from another domain can't be passed on.
///
/// # Examples
/// See the [module](crate::stream).
pub struct Stream<T, E = String> {
    state: StreamState,
    deadline: WaitUntil,
    of: PhantomData<fn() -> (T, E)>,
}

#[derive(Debug)]
enum StreamState {
    /// It was opened here, and nothing was read.
    Offered(StreamOffer),
    Open(Box<OpenStream>),
    Over,
}

impl<T: Schema, E: Schema> Stream<T, E> {
    pub(crate) fn offered(offer: StreamOffer) -> Self {
        Self { state: StreamState::Offered(offer), deadline: WaitUntil::Endless, of: PhantomData }
    }

    /// The stream ends with [`StreamError::Timeout`] at the first wait that reaches `deadline`, and
    /// its writer learns that nobody reads. In async code, use the deadlines of the runtime.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = WaitUntil::Until(deadline);
        self
    }

    /// Waits for the next item. `None`: the writer has finished, and all items were taken.
    ///
    /// # Errors
    /// [`StreamError`], each variant with its remedy. After any error except `Cancelled` the stream
    /// has ended, and there is nothing more.
    pub fn recv(&mut self) -> Result<Option<T>, StreamError<E>> {
        let item = self.recv_within(self.deadline);
        if matches!(item, Err(StreamError::Timeout)) {
            self.state = StreamState::Over;
        }
        item
    }

    /// Waits for the next item, but no longer than `span`. After a
    /// [`Timeout`](StreamError::Timeout) the stream goes on.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_timeout(&mut self, span: Duration) -> Result<Option<T>, StreamError<E>> {
        self.recv_within(WaitUntil::of(span))
    }

    /// The items as they come. After an error or the end, the iterator has nothing more.
    pub fn iter(&mut self) -> StreamItems<'_, T, E> {
        StreamItems { stream: StreamHold::Borrowed(self), over: false }
    }

    /// How many items wait to be taken.
    pub fn queued(&self) -> u64 {
        match &self.state {
            StreamState::Open(open) if !fork::is_forked() => open.queued(),
            _ => 0,
        }
    }

    /// The open stream, if it is not over.
    #[inline]
    fn open(&mut self) -> io::Result<Option<&mut OpenStream>> {
        if matches!(self.state, StreamState::Offered(_))
            && let StreamState::Offered(offer) = std::mem::replace(&mut self.state, StreamState::Over)
        {
            self.state = StreamState::Open(Box::new(OpenStream::take(offer)?));
        }
        match &mut self.state {
            StreamState::Open(open) => Ok(Some(open)),
            _ => Ok(None),
        }
    }

    /// The end, if the stream was taken.
    #[cfg(test)]
    pub(crate) fn end(&self) -> Option<&std::sync::Arc<crate::stream::reader_end::ReaderEnd>> {
        match &self.state {
            StreamState::Open(open) => Some(open.end()),
            _ => None,
        }
    }

    /// Notes an end, and lets the writer know.
    #[inline]
    fn ended<R>(&mut self, end: R) -> R {
        self.release();
        end
    }

    #[inline]
    fn recv_within(&mut self, limit: WaitUntil) -> Result<Option<T>, StreamError<E>> {
        let open = self.open().map_err(|_| StreamError::NoResources)?;
        let Some(open) = open else { return Ok(None) };
        match open.recv(limit) {
            Ok(Some(item)) => Ok(Some(item)),
            Err(why @ (StreamError::Timeout | StreamError::Cancelled)) => Err(why),
            end => self.ended(end),
        }
    }
}

impl<T, E> Stream<T, E> {
    fn release(&mut self) {
        if let StreamState::Open(open) = std::mem::replace(&mut self.state, StreamState::Over)
            && fork::is_forked()
        {
            // A child has none of its parent's lanes, and must not unmap them.
            std::mem::forget(open);
        }
    }
}

impl<T, E> Drop for Stream<T, E> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<T: Schema, E: Schema> futures_core::Stream for Stream<T, E> {
    type Item = Result<T, StreamError<E>>;

    fn poll_next(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = self.get_mut();
        let open = match stream.open() {
            Ok(Some(open)) => open,
            Ok(None) => return Poll::Ready(None),
            Err(_) => return Poll::Ready(Some(Err(StreamError::NoResources))),
        };
        match open.poll_recv(task) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(Some(item))) => Poll::Ready(Some(Ok(item))),
            Poll::Ready(end) => stream.ended(Poll::Ready(end.transpose())),
        }
    }
}

impl<T: Schema, E: Schema> FusedStream for Stream<T, E> {
    fn is_terminated(&self) -> bool {
        matches!(self.state, StreamState::Over)
    }
}

/// The items of a [`Stream`] for blocking code.
#[derive(Debug)]
pub struct StreamItems<'a, T, E = String> {
    stream: StreamHold<'a, T, E>,
    over: bool,
}

#[derive(Debug)]
enum StreamHold<'a, T, E> {
    Borrowed(&'a mut Stream<T, E>),
    Owned(Stream<T, E>),
}

impl<T: Schema, E: Schema> Iterator for StreamItems<'_, T, E> {
    type Item = Result<T, StreamError<E>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let stream = match &mut self.stream {
            StreamHold::Borrowed(stream) => stream,
            StreamHold::Owned(stream) => stream,
        };
        let item = stream.recv().transpose();
        self.over = !matches!(item, Some(Ok(_)));
        item
    }
}

impl<T: Schema, E: Schema> std::iter::FusedIterator for StreamItems<'_, T, E> {}

impl<T: Schema + 'static, E: Schema + 'static> IntoIterator for Stream<T, E> {
    type Item = Result<T, StreamError<E>>;
    type IntoIter = StreamItems<'static, T, E>;

    fn into_iter(self) -> StreamItems<'static, T, E> {
        StreamItems { stream: StreamHold::Owned(self), over: false }
    }
}

impl<'a, T: Schema, E: Schema> IntoIterator for &'a mut Stream<T, E> {
    type Item = Result<T, StreamError<E>>;
    type IntoIter = StreamItems<'a, T, E>;

    fn into_iter(self) -> StreamItems<'a, T, E> {
        self.iter()
    }
}

impl<T: Schema, E: Schema> Encode for Stream<T, E> {
    const FIXED: Option<usize> = Some(StreamOffer::SIZE);

    fn size(&self) -> usize {
        StreamOffer::SIZE
    }

    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        match &self.state {
            StreamState::Offered(offer) => offer.encode(to),
            // The other side finds that no files came.
            StreamState::Open(_) | StreamState::Over => to.put(&[0; StreamOffer::SIZE]),
        }
    }
}

impl<T: Schema, E: Schema> Decode for Stream<T, E> {
    const LEAST: usize = StreamOffer::SIZE;

    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let open = OpenStream::take(StreamOffer::decode(from)?).map_err(|e| match e.kind() {
            io::ErrorKind::InvalidData => DecodeError::BadValue { of: "Stream" },
            _ => DecodeError::NoRoomForFile,
        })?;
        ends_with_binding(open.end());
        let state = StreamState::Open(Box::new(open));
        Ok(Self { state, deadline: WaitUntil::Endless, of: PhantomData })
    }
}

impl<T: Schema, E: Schema> Schema for Stream<T, E> {
    type Itself = Self;

    fn schema(types: &mut Types) -> TypeName {
        TypeName::generic("Stream", &[T::schema(types), E::schema(types)])
    }
}

impl<T, E> fmt::Debug for Stream<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}
