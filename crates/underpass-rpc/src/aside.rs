//! Values with files, and values larger than an A-stack: into a parcel and out of one.

use crate::mailbox::Mailbox;
use crate::message::Unsent;
use crate::parcel::{Lie, Parcel};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::vec;
use underpass_channel::layout::LARGEST;
use underpass_channel::{BlobSink, BlobSource, Cell, Channel, Place, RegionSource};
use underpass_os::{Blob, failpoint};
use underpass_wire::{DecodeError, Encode, Sink, Source};

/// A sink with room for files.
///
/// It duplicates them: the value need not outlive the writing, and what is passed is what the value had.
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

/// Writes `value`, of `size` bytes, for `cell`, into its A-stack or a blob, and has that go ahead with the value's files.
#[cold]
#[inline(never)]
pub(crate) fn fill_aside<T: Encode + ?Sized>(
    channel: &Channel,
    mailbox: &Mailbox,
    cell: &mut Cell,
    value: &T,
    size: usize,
) -> Result<(), Unsent> {
    if size as u64 > LARGEST {
        let why = format!("{size} bytes are more than the {LARGEST} that a message can have");
        return Err(Unsent::NoResources(io::Error::other(why)));
    }
    let parcel = if size <= channel.stack() {
        let mut packing = Packing::new(channel.stack_sink(cell.slot));
        value.encode(&mut packing);
        let (sink, files) = packing.finish()?;
        if sink.overflowed() || files.is_empty() {
            return Err(Unsent::Inconsistent);
        }
        Parcel { bytes: Lie::Stack(size as u64), files }
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
    mailbox.pass(cell.slot, &parcel).map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Unsent::NoPeer,
        _ => Unsent::NoResources(e),
    })?;
    failpoint!("file-sent");
    cell.place = Place::Aside;
    Ok(())
}

/// What came in a parcel, for who decodes it. Files that nobody takes are closed with it.
#[derive(Debug)]
pub(crate) struct Aside<'a> {
    bytes: Bytes<'a>,
    files: vec::IntoIter<OwnedFd>,
}

#[derive(Debug)]
enum Bytes<'a> {
    Stack(RegionSource<'a>),
    Blob(BlobSource),
}

impl<'a> Aside<'a> {
    /// What came for `slot`.
    pub(crate) fn of(channel: &'a Channel, slot: u16, parcel: Parcel) -> Result<Self, DecodeError> {
        let bytes = match parcel.bytes {
            Lie::Stack(length) => {
                let length = usize::try_from(length).map_err(|_| DecodeError::TooLong)?;
                Bytes::Stack(channel.stack_source(slot, length)?)
            }
            Lie::Blob(blob, length) => Bytes::Blob(BlobSource::new(blob, length)?),
        };
        Ok(Self { bytes, files: parcel.files.into_iter() })
    }

    /// Files that nobody has taken yet.
    pub(crate) fn files_left(&self) -> usize {
        self.files.len()
    }
}

impl Source for Aside<'_> {
    fn remaining(&self) -> usize {
        match &self.bytes {
            Bytes::Stack(source) => source.remaining(),
            Bytes::Blob(source) => source.remaining(),
        }
    }

    fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
        match &mut self.bytes {
            Bytes::Stack(source) => source.take(out),
            Bytes::Blob(source) => source.take(out),
        }
    }

    fn take_vec(&mut self, len: usize) -> Result<Vec<u8>, DecodeError> {
        match &mut self.bytes {
            Bytes::Stack(source) => source.take_vec(len),
            Bytes::Blob(source) => source.take_vec(len),
        }
    }

    fn take_file(&mut self) -> Result<OwnedFd, DecodeError> {
        self.files.next().ok_or(DecodeError::NoFile)
    }
}
