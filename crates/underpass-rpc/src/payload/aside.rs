//! Values with files, and values larger than an A-stack: into a parcel and out of one.

use crate::control::mailbox::ChannelMailbox;
use crate::payload::annexes::{Kept, Numbered};
use crate::payload::message::Unsent;
use crate::payload::parcel::{Lie, Parcel};
use crate::payload::passed_file::PassedFiles;
use std::any::Any;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use underpass_channel::layout::LARGEST;
use underpass_channel::{AnnexSource, BlobSink, BlobSource, Cell, Channel, Place, RegionSource};
use underpass_os::{Blob, failpoint};
use underpass_wire::{DecodeError, Encode, Sink, Source};

/// A sink with room for files.
///
/// It duplicates them: the value need not outlive the writing, and what is passed is what the value
/// had.
struct Packing<S> {
    bytes: S,
    files: Vec<OwnedFd>,
    failed: Option<io::Error>,
}

impl<S> Packing<S> {
    fn new(bytes: S) -> Self {
        Self { bytes, files: Vec::new(), failed: None }
    }

    fn finish(self) -> Result<(S, Vec<OwnedFd>), Unsent> {
        match self.failed {
            Some(e) => Err(Unsent::NoResources(e)),
            None => Ok((self.bytes, self.files)),
        }
    }
}

impl<S: Sink> Sink for Packing<S> {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.put(bytes);
    }

    fn put_file(&mut self, file: BorrowedFd<'_>) {
        match file.try_clone_to_owned() {
            Ok(file) => self.files.push(file),
            Err(e) => self.failed = Some(e),
        }
    }
}

/// Writes `value`, of `size` bytes, for `cell`, into its A-stack, its annex or a blob, and has that
/// go ahead with the value's files, if there is something to go.
///
/// The annex is the one that both sides have; else the client makes one, which goes along, and the
/// server uses one that it was offered.
#[cold]
#[inline(never)]
pub(crate) fn fill_aside<T: Encode + ?Sized>(
    channel: &Channel,
    mailbox: &ChannelMailbox,
    cell: &mut Cell,
    value: &T,
    size: usize,
) -> Result<(), Unsent> {
    if size as u64 > LARGEST {
        let why = format!("{size} bytes are more than the {LARGEST} that a message can have");
        return Err(Unsent::NoResources(io::Error::other(why)));
    }
    let parcel = if size <= channel.stack() {
        let mut packing = Packing::new(channel.stack_sink(cell.slot()));
        value.encode(&mut packing);
        let (sink, files) = packing.finish()?;
        if sink.overflowed() || files.is_empty() {
            return Err(Unsent::Inconsistent);
        }
        sink.is_written().map_err(Unsent::NoResources)?;
        Parcel { bytes: Lie::Stack(size as u64), files }
    } else if let Some((annex, file)) = annex_for(channel, mailbox, cell.slot(), size) {
        let mut packing = Packing::new((*annex.kept).as_ref().sink());
        value.encode(&mut packing);
        let (sink, files) = packing.finish()?;
        if sink.overflowed() {
            return Err(Unsent::Inconsistent);
        }
        sink.is_written().map_err(Unsent::NoResources)?;
        let bytes = match file {
            None if files.is_empty() => {
                cell.place = Place::Annex;
                cell.length = size as u32;
                return Ok(());
            }
            None => Lie::Annex(size as u64),
            Some(file) => Lie::NewAnnex(file, annex.number, size as u64),
        };
        Parcel { bytes, files }
    } else {
        let blob = Blob::create("underpass-argument").map_err(Unsent::NoResources)?;
        let mut packing = Packing::new(BlobSink::new(blob));
        value.encode(&mut packing);
        let (sink, files) = packing.finish()?;
        let (blob, written) = sink.finish().map_err(Unsent::NoResources)?;
        if written != size as u64 {
            return Err(Unsent::Inconsistent);
        }
        Parcel { bytes: Lie::Blob(blob, written), files }
    };
    failpoint!("file-made");
    mailbox.pass(cell.slot(), &parcel).map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Unsent::NoPeer,
        _ => Unsent::NoResources(e),
    })?;
    failpoint!("file-sent");
    cell.place = Place::Aside;
    Ok(())
}

/// The annex for `size` bytes over `slot`, and its file if the peer doesn't have it.
fn annex_for(
    channel: &Channel,
    mailbox: &ChannelMailbox,
    slot: u16,
    size: usize,
) -> Option<(Numbered, Option<OwnedFd>)> {
    let found = match mailbox.annexes().maps() {
        true => Some((mailbox.annex_for_reply(channel, slot, size)?, None)),
        false => mailbox.annexes().for_arguments(channel, slot, size),
    };
    // What is written into a damaged one may not come to the peer.
    found.filter(|(annex, _)| !(*annex.kept).as_ref().is_damaged())
}

/// What came in a parcel or an annex, for who decodes it. Files that nobody takes are closed with
/// it.
#[derive(Debug)]
pub(crate) struct Aside<'a> {
    bytes: Bytes<'a>,
    files: Option<PassedFiles>,
}

#[derive(Debug)]
enum Bytes<'a> {
    Stack(RegionSource<'a>),
    Blob(BlobSource),
    Annex(AnnexSource<Kept>),
    /// All were read, and this goes when they do.
    Over(#[expect(dead_code, reason = "it is dropped")] DroppedLast),
}

/// A result whose reply is posted before it is dropped.
#[derive(Debug)]
struct DroppedLast(Option<Box<dyn Any>>);

impl Drop for DroppedLast {
    fn drop(&mut self) {
        let value = self.0.take();
        // A panic is told by its hook. The caller has its reply.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
    }
}

impl<'a> Aside<'a> {
    /// What came for `slot`.
    pub(crate) fn of(
        channel: &'a Channel,
        mailbox: &ChannelMailbox,
        slot: u16,
        parcel: Parcel<PassedFiles>,
    ) -> Result<Self, DecodeError> {
        let whole = |length| usize::try_from(length).map_err(|_| DecodeError::TooLong);
        let bytes = match parcel.bytes {
            Lie::Stack(length) => Bytes::Stack(channel.stack_source(slot, whole(length)?)?),
            Lie::Blob(blob, length) => {
                let source = BlobSource::new(blob, length)?;
                // The next of its size may come without a file.
                if !mailbox.annexes().maps() {
                    mailbox.offer(channel, slot, source.remaining());
                }
                Bytes::Blob(source)
            }
            Lie::Annex(length) => Bytes::Annex(in_annex(channel, mailbox, slot, whole(length)?)?),
            Lie::NewAnnex(..) if !mailbox.annexes().maps() => return Err(DecodeError::Truncated),
            Lie::NewAnnex(file, number, length) => match mailbox.map_annex(channel, slot, number, &file)? {
                Some(annex) => Bytes::Annex(AnnexSource::new(annex, whole(length)?)?),
                None => Bytes::Blob(BlobSource::new(
                    Blob::adopt(file).map_err(|_| DecodeError::Truncated)?,
                    length,
                )?),
            },
        };
        Ok(Self { bytes, files: Some(parcel.files) })
    }

    /// Nothing more, and `result`, which is dropped with it.
    pub(crate) fn over(result: impl Any) -> Self {
        Self { bytes: Bytes::Over(DroppedLast(Some(Box::new(result)))), files: None }
    }

    /// What lies in the annex of `slot`.
    pub(crate) fn in_annex(
        channel: &Channel,
        mailbox: &ChannelMailbox,
        slot: u16,
        length: u32,
    ) -> Result<Self, DecodeError> {
        let bytes = Bytes::Annex(in_annex(channel, mailbox, slot, length as usize)?);
        Ok(Self { bytes, files: None })
    }

    /// Where the bytes are that were not read yet, if they lie in an annex.
    pub(crate) fn in_annex_left(&mut self) -> Option<&mut AnnexSource<Kept>> {
        match &mut self.bytes {
            Bytes::Annex(source) => Some(source),
            Bytes::Stack(_) | Bytes::Blob(_) | Bytes::Over(_) => None,
        }
    }

    /// Files that nobody has taken yet.
    pub(crate) fn files_left(&self) -> usize {
        self.files.as_ref().map_or(0, PassedFiles::len)
    }

    /// Whether the system has refused a page of the memory in which the bytes lie.
    pub(crate) fn is_damaged(&self) -> bool {
        match &self.bytes {
            Bytes::Stack(source) => source.is_damaged(),
            Bytes::Blob(_) | Bytes::Over(_) => false,
            Bytes::Annex(source) => source.is_damaged(),
        }
    }
}

/// The first `length` bytes of the annex of `slot`, which no honest peer names where there is none.
fn in_annex(
    channel: &Channel,
    mailbox: &ChannelMailbox,
    slot: u16,
    length: usize,
) -> Result<AnnexSource<Kept>, DecodeError> {
    let annex = mailbox.annexes().named(channel, slot).ok_or(DecodeError::Truncated)?;
    AnnexSource::new(annex, length)
}

impl Source for Aside<'_> {
    fn remaining(&self) -> usize {
        match &self.bytes {
            Bytes::Stack(source) => source.remaining(),
            Bytes::Blob(source) => source.remaining(),
            Bytes::Annex(source) => source.remaining(),
            Bytes::Over(_) => 0,
        }
    }

    fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
        match &mut self.bytes {
            Bytes::Stack(source) => source.take(out),
            Bytes::Blob(source) => source.take(out),
            Bytes::Annex(source) => source.take(out),
            Bytes::Over(_) => Err(DecodeError::Truncated),
        }
    }

    fn take_vec(&mut self, len: usize) -> Result<Vec<u8>, DecodeError> {
        match &mut self.bytes {
            Bytes::Stack(source) => source.take_vec(len),
            Bytes::Blob(source) => source.take_vec(len),
            Bytes::Annex(source) => source.take_vec(len),
            Bytes::Over(_) => Err(DecodeError::Truncated),
        }
    }

    fn take_file(&mut self) -> Result<OwnedFd, DecodeError> {
        let file = self.files.as_mut().and_then(PassedFiles::take).ok_or(DecodeError::NoFile)?;
        file.map_err(|_| DecodeError::NoRoomForFile)
    }
}
