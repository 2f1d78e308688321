//! Streams to and from other machines: their records, without their types.
//!
//! A transport carries the records. It reads those of a local writer, and writes those of a remote
//! writer into a stream of this machine. So both programs have ordinary ends.

use crate::quota::{Charge, Quota};
use crate::stream::errors::{OpenStreamError, StreamError, StreamSendError};
use crate::stream::offer::StreamOffer;
use crate::stream::open_stream::OpenStream;
use crate::stream::options::open_sizes;
use crate::stream::words::{
    ABANDONED, DROPPED, ENDED_WITH_BINDING, FAILURE, FINISHED, ITEM, LOST, MALFORMED,
};
use crate::stream::writer_end::WriterEnd;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::sync::{Arc, OnceLock};
use underpass_channel::{BadLaneSizes, LaneMemory, LaneSizes, WhenFull};
use underpass_os::process;
use underpass_rpc::remote::{RemoteMessage, RemoteStream, StreamPlace};
use underpass_wire::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types};

/// The most items and bytes ahead of the reader of a stream that came from another machine. Further
/// ones wait in the transport, and then at their writer.
const MOST_AHEAD: (usize, usize) = (1024, 64 << 10);

/// The bytes that the streams of all clients on other machines may take of a server.
const MEMORY: u64 = 256 << 20;

/// How many files of a server such a stream takes, at most. They may take a quarter of all.
const FILES: u64 = 8;

/// What a stream has next, without the type of its items.
///
/// # Examples
/// See [`RemoteStreamReader`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteRecord {
    /// The bytes of an item.
    Item(Vec<u8>),
    /// The bytes of the error with which the writer has ended the stream. Nothing follows.
    Failure(Vec<u8>),
    /// The end.
    End(RemoteStreamEnd),
}

/// How a stream has ended.
///
/// # Examples
/// See [`RemoteStreamReader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteStreamEnd {
    /// Its writer has finished.
    Finished,
    /// Its writer was dropped before.
    Abandoned,
    /// The binding of its writer has ended.
    BindingEnded,
    /// Its writer, or the way to it, is gone.
    PeerDied,
    /// Its writer has broken the rules.
    Malformed,
}

/// Reads the records of a stream of this machine, for a transport.
///
/// If it is dropped, the writer learns that its reader's domain has died.
///
/// # Examples
/// A transport carries a stream from one message to another:
/// ```no_run
/// use underpass::remote::{RemoteMessage, RemoteRecord};
/// use underpass::remote::{RemoteStreamReader, RemoteStreamWriter};
///
/// # type Done = Result<(), Box<dyn std::error::Error>>;
/// # async fn carry(mut left: RemoteMessage, mut came: RemoteMessage) -> Done {
/// let most = 4 << 20;
/// let Some((mut reader, place)) = RemoteStreamReader::take(&mut left, most)? else { return Ok(()) };
/// // The bytes and the place go to the other machine, and become the message `came`.
/// let writer = RemoteStreamWriter::put(&mut came, place, most, true)?;
/// loop {
///     match reader.next().await {
///         RemoteRecord::End(how) => break writer.end(how),
///         record => drop(writer.send(record).await),
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct RemoteStreamReader {
    open: OpenStream,
    closed: bool,
}

/// Writes records that came from another machine into a stream of this one, for a transport.
///
/// If it is dropped before its [`end`](Self::end), the reader learns that its writer's domain has
/// died.
///
/// # Examples
/// See [`RemoteStreamReader`].
pub struct RemoteStreamWriter(Arc<WriterEnd>);

/// The bytes of an item or an error, as they are.
struct RecordBytes(Vec<u8>);

impl RemoteStreamReader {
    /// Takes the stream out of a message that leaves this machine. Returns its place too, which
    /// the other machine has to know.
    ///
    /// # Errors
    /// The message has more than one stream, items may have more than `most` bytes, or this domain
    /// has no room. The error names the remedy.
    pub fn take(message: &mut RemoteMessage, most: usize) -> io::Result<Option<(Self, StreamPlace)>> {
        let mut streams = std::mem::take(&mut message.streams);
        let Some(RemoteStream { place, files }) = streams.pop() else { return Ok(None) };
        if !streams.is_empty() {
            let why = "more than one stream can't go to another machine by one call; make several calls";
            return Err(io::Error::other(why));
        }
        let no_stream = |_: DecodeError| io::Error::from(ErrorKind::InvalidData);
        let described = described(message, place).ok_or(ErrorKind::InvalidData)?;
        let (sizes, light) = StreamOffer::described(&mut &*described).map_err(no_stream)?;
        if sizes.longest() > most {
            let why = format!(
                "items of {} bytes are longer than {most}, which the transport takes; see \
                 `StreamOptions::longest`",
                sizes.longest()
            );
            return Err(io::Error::other(why));
        }
        let [memory, room, bell] = files;
        let open = OpenStream::take(StreamOffer { sizes, light, memory, room, bell })?;
        Ok(Some((Self { open, closed: false }, place)))
    }

    /// The next record. A future that is dropped has taken none.
    pub async fn next(&mut self) -> RemoteRecord {
        let next = poll_fn(|task| self.open.poll_recv::<RecordBytes, RecordBytes>(task)).await;
        match next {
            Ok(Some(item)) => RemoteRecord::Item(item.0),
            Err(StreamError::Failed(error)) => RemoteRecord::Failure(error.0),
            Ok(None) => RemoteRecord::End(RemoteStreamEnd::Finished),
            Err(StreamError::Abandoned) => RemoteRecord::End(RemoteStreamEnd::Abandoned),
            Err(StreamError::BindingEnded) => RemoteRecord::End(RemoteStreamEnd::BindingEnded),
            Err(StreamError::Malformed) => RemoteRecord::End(RemoteStreamEnd::Malformed),
            Err(_) => RemoteRecord::End(RemoteStreamEnd::PeerDied),
        }
    }

    /// The reader wants no more. Its writer is told so.
    pub fn close(mut self) {
        // At once: the drop of the end may be left to the thread of the bells, and then come after
        // the end of the call's binding.
        self.open.end().memory.close(DROPPED);
        self.closed = true;
    }
}

impl Drop for RemoteStreamReader {
    fn drop(&mut self) {
        if !self.closed {
            self.open.end().lose();
        }
    }
}

impl RemoteStreamWriter {
    /// Opens a stream of this machine for the one that a message from another machine describes at
    /// `place`, and puts it into the message. Items may have `most` bytes. `serves`: for a server,
    /// where the streams of remote clients may take 256 MiB and a quarter of the open files.
    ///
    /// # Errors
    /// [`OpenStreamError`], each variant with its remedy.
    pub fn put(
        message: &mut RemoteMessage,
        place: StreamPlace,
        most: usize,
        serves: bool,
    ) -> Result<Self, OpenStreamError> {
        let described = described(message, place).ok_or(BadLaneSizes)?;
        let (sizes, _) = StreamOffer::described(&mut &*described).map_err(|_| BadLaneSizes)?;
        if sizes.longest() > most {
            return Err(BadLaneSizes.into());
        }
        let (items, bytes) = (sizes.items().min(MOST_AHEAD.0), sizes.bytes().min(MOST_AHEAD.1));
        let sizes = LaneSizes::with_bytes(items, sizes.longest(), bytes, WhenFull::Refuse)?;
        let charge = if serves { Some(charge_for_machines(sizes.memory() as u64)?) } else { None };
        let (end, offer) = open_sizes(sizes, charge)?;
        described.copy_from_slice(&offer.description());
        let files = [offer.memory, offer.room, offer.bell];
        message.streams.push(RemoteStream { place, files });
        Ok(Self(end))
    }

    /// Writes an item or an error, and waits for room. A future that is dropped has written
    /// nothing.
    ///
    /// # Errors
    /// The reader has gone, or the record is longer than the stream allows.
    pub async fn send(&self, record: RemoteRecord) -> Result<(), StreamSendError> {
        let (kind, bytes) = match record {
            RemoteRecord::Item(bytes) => (ITEM, bytes),
            RemoteRecord::Failure(bytes) => (FAILURE, bytes),
            RemoteRecord::End(_) => return Ok(()),
        };
        self.0.send_async(kind, &RecordBytes(bytes)).await?;
        if kind == FAILURE {
            self.0.finish(FINISHED);
        }
        Ok(())
    }

    /// Waits until the reader has gone.
    pub async fn closed(&self) {
        poll_fn(|task| self.0.poll_end(task)).await;
    }

    /// The stream ends for its reader in this way, after all that was written.
    pub fn end(self, how: RemoteStreamEnd) {
        self.0.finish(match how {
            RemoteStreamEnd::Finished => FINISHED,
            RemoteStreamEnd::Abandoned => ABANDONED,
            RemoteStreamEnd::BindingEnded => ENDED_WITH_BINDING,
            RemoteStreamEnd::PeerDied => LOST,
            RemoteStreamEnd::Malformed => MALFORMED,
        });
    }
}

impl Drop for RemoteStreamWriter {
    fn drop(&mut self) {
        // Nothing changes after `end`.
        self.0.finish(LOST);
    }
}

/// The bytes that describe the stream at `place`.
fn described(message: &mut RemoteMessage, place: StreamPlace) -> Option<&mut [u8]> {
    message.bytes.get_mut(place.at.checked_sub(StreamOffer::SIZE)?..place.at)
}

/// Counts a stream of a client on another machine.
///
/// # Errors
/// All of them take as much as they may.
pub(crate) fn charge_for_machines(bytes: u64) -> Result<Charge, OpenStreamError> {
    static OF_MACHINES: OnceLock<Arc<Quota>> = OnceLock::new();
    let quota = OF_MACHINES.get_or_init(|| Quota::new(MEMORY));
    // No stream counts for less than its share, so their number is bounded too.
    let most = (process::files() / 4 / FILES).max(1);
    let nobody = u32::MAX;
    quota.charge(nobody, bytes.max(MEMORY / most), false).ok_or(OpenStreamError::MemoryOfUser)
}

impl Encode for RecordBytes {
    const FIXED: Option<usize> = None;

    fn size(&self) -> usize {
        self.0.len()
    }

    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        to.put(&self.0);
    }
}

impl Decode for RecordBytes {
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        from.take_vec(from.remaining()).map(Self)
    }
}

impl Schema for RecordBytes {
    type Itself = Self;

    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("RecordBytes")
    }
}

impl fmt::Debug for RemoteStreamReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStreamReader").finish_non_exhaustive()
    }
}

impl fmt::Debug for RemoteStreamWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStreamWriter").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
