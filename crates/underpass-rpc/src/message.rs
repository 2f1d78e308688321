//! Bytes into and out of a message, wherever they lie.

use crate::mailbox::{Came, Mailbox, News};
use std::io;
use underpass_channel::{BlobSink, BlobSource, Cell, Channel, INLINE, Place, RegionSource, layout::LARGEST};
use underpass_os::{Blob, failpoint};
use underpass_wire::{Decode, DecodeError, Encode, SliceSink};

/// System calls that a blob costs its sender: made, written, passed, closed.
pub(crate) const BLOB_OUT: u64 = 4;
/// System calls that a blob costs its receiver: received, asked for its kind and size, read, closed.
pub(crate) const BLOB_IN: u64 = 5;

/// Why a value could not be put into a message.
#[derive(Debug)]
pub(crate) enum Unsent {
    /// `Encode::size` and `Encode::encode` of a type disagree.
    Inconsistent,
    /// The peer is gone, or has closed the binding.
    NoPeer,
    /// No memory or no files for it.
    NoResources(io::Error),
}

/// Writes `value` for `cell`, which is new: into it if it fits, else into the A-stack of its slot, else into a blob that goes ahead.
///
/// One copy in each case (LRPC, Table III: A).
#[inline(always)]
pub(crate) fn fill<T: Encode + ?Sized>(
    channel: &Channel,
    mailbox: &Mailbox,
    cell: &mut Cell,
    value: &T,
) -> Result<(), Unsent> {
    let size = T::FIXED.unwrap_or_else(|| value.size());
    if size > INLINE {
        return fill_elsewhere(channel, mailbox, cell, value, size);
    }
    let mut sink = SliceSink::new(&mut cell.payload.0[..size]);
    value.encode(&mut sink);
    if sink.overflowed() {
        return Err(Unsent::Inconsistent);
    }
    cell.length = size as u32;
    Ok(())
}

#[inline(never)]
fn fill_elsewhere<T: Encode + ?Sized>(
    channel: &Channel,
    mailbox: &Mailbox,
    cell: &mut Cell,
    value: &T,
    size: usize,
) -> Result<(), Unsent> {
    if size <= channel.stack() {
        let mut sink = channel.stack_sink(cell.slot);
        value.encode(&mut sink);
        if sink.overflowed() {
            return Err(Unsent::Inconsistent);
        }
        cell.place = Place::Stack;
        cell.length = size as u32;
        return Ok(());
    }
    if size as u64 > LARGEST {
        let why = format!("{size} bytes are more than the {LARGEST} that a message can have");
        return Err(Unsent::NoResources(io::Error::other(why)));
    }
    let blob = Blob::create("underpass-argument").map_err(Unsent::NoResources)?;
    let mut sink = BlobSink::new(blob);
    value.encode(&mut sink);
    let (blob, written) = sink.finish().map_err(Unsent::NoResources)?;
    if written != size as u64 {
        return Err(Unsent::Inconsistent);
    }
    failpoint!("file-made");
    mailbox.pass(cell.slot, &blob, written).map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Unsent::NoPeer,
        _ => Unsent::NoResources(e),
    })?;
    failpoint!("file-sent");
    cell.place = Place::Blob;
    Ok(())
}

/// Why there are no bytes.
#[derive(Debug)]
pub(crate) enum Unread {
    /// No honest peer announces such.
    Violation(DecodeError),
    /// This domain had no file left for them.
    NoFile,
}

/// What a domain without files says.
pub(crate) const NO_FILE: &str = "too many open files where they should arrive";

impl From<DecodeError> for Unread {
    fn from(e: DecodeError) -> Self {
        Self::Violation(e)
    }
}

/// The bytes of a message that has come. Each is copied out once, before it is checked.
#[derive(Debug)]
pub(crate) enum Bytes<'a> {
    Inline(&'a [u8]),
    Stack(RegionSource<'a>),
    Blob(Box<BlobSource>),
}

impl<'a> Bytes<'a> {
    /// The bytes that `cell` names; what came over the socket meanwhile is `heard`.
    #[inline]
    pub(crate) fn of(
        channel: &'a Channel,
        mailbox: &Mailbox,
        cell: &'a Cell,
        heard: impl FnOnce(News),
    ) -> Result<Self, Unread> {
        match cell.place {
            Place::Inline => Ok(Self::Inline(cell.bytes())),
            Place::Stack => Ok(Self::Stack(channel.stack_source(cell.slot, cell.length as usize)?)),
            Place::Blob => match mailbox.take(cell.slot, heard) {
                Some(Came::Blob(blob, length)) => Ok(Self::Blob(Box::new(BlobSource::new(blob, length)?))),
                Some(Came::NoFile) => Err(Unread::NoFile),
                None => Err(Unread::Violation(DecodeError::Truncated)),
            },
        }
    }

    /// Reads a value.
    #[inline]
    pub(crate) fn read<T: Decode>(&mut self) -> Result<T, DecodeError> {
        match self {
            Self::Inline(left) => T::decode(left),
            Self::Stack(source) => T::decode(source),
            Self::Blob(source) => T::decode(&mut **source),
        }
    }

    /// Bytes not read yet.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        use underpass_wire::Source;
        match self {
            Self::Inline(left) => left.len(),
            Self::Stack(source) => source.remaining(),
            Self::Blob(source) => source.remaining(),
        }
    }
}
