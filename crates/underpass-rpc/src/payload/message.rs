//! Bytes into and out of a message, wherever they lie.

use crate::control::mailbox::ChannelMailbox;
use crate::payload::aside::{Aside, fill_aside};
use crate::payload::parcel::Came;
use std::io;
use underpass_channel::{Cell, Channel, INLINE, PayloadSink, Place, RegionSource};
use underpass_wire::{Decode, DecodeError, Encode, Source};

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

/// Writes `value` for `cell`, which is new: into it if it fits, else into the A-stack of its slot,
/// else into its annex, or a blob that goes ahead, as do its files if it has any. Whether it has is
/// seen when they are put: where there are none they cost nothing. Says whether it went aside, into
/// the annex or a blob.
///
/// One copy in each case (LRPC, Table III: A).
#[inline(always)]
pub(crate) fn fill<T: Encode + ?Sized>(
    channel: &Channel,
    mailbox: &ChannelMailbox,
    cell: &mut Cell,
    value: &T,
) -> Result<bool, Unsent> {
    let size = T::FIXED.unwrap_or_else(|| value.size());
    if size > INLINE {
        return fill_elsewhere(channel, mailbox, cell, value, size);
    }
    let mut sink = PayloadSink::new(&mut cell.payload, size);
    value.encode(&mut sink);
    if sink.finish() {
        return fill_aside(channel, mailbox, cell, value, size).map(|()| true);
    }
    cell.length = size as u32;
    Ok(false)
}

/// The same into the cell alone, if that has room for all values of the type, and this one brings
/// no files; says whether that is so.
#[inline(always)]
pub(crate) fn fill_brief<T: Encode + ?Sized>(cell: &mut Cell, value: &T) -> bool {
    let Some(size) = T::FIXED.filter(|&size| size <= INLINE) else { return false };
    let mut sink = PayloadSink::new(&mut cell.payload, size);
    value.encode(&mut sink);
    cell.length = size as u32;
    !sink.finish()
}

#[inline(never)]
fn fill_elsewhere<T: Encode + ?Sized>(
    channel: &Channel,
    mailbox: &ChannelMailbox,
    cell: &mut Cell,
    value: &T,
    size: usize,
) -> Result<bool, Unsent> {
    if size <= channel.stack() {
        let mut sink = channel.stack_sink(cell.slot());
        value.encode(&mut sink);
        if sink.overflowed() {
            return fill_aside(channel, mailbox, cell, value, size).map(|()| true);
        }
        sink.is_written().map_err(Unsent::NoResources)?;
        channel.send_on_stack(cell.slot(), size);
        cell.place = Place::Stack;
        cell.length = size as u32;
        return Ok(false);
    }
    fill_aside(channel, mailbox, cell, value, size).map(|()| true)
}

/// Why there are no bytes.
#[derive(Debug)]
pub(crate) enum Unread {
    /// No honest peer announces such.
    Violation(DecodeError),
    /// This domain had no file left for them.
    NoFile,
    /// They did not come in time.
    Late,
}

/// What a domain without files says.
pub(crate) const NO_FILE: &str = "too many open files where they should arrive";

/// What a domain says whose file thread is held up.
pub(crate) const LATE: &str =
    "the files did not arrive in time: another file that a domain of the same user has passed holds them up";

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
    Aside(Box<Aside<'a>>),
}

impl<'a> Bytes<'a> {
    /// The bytes that `cell` names. Where they come over the socket the calling thread may wait.
    #[inline(always)]
    pub(crate) fn of(channel: &'a Channel, mailbox: &ChannelMailbox, cell: &'a Cell) -> Result<Self, Unread> {
        match cell.place {
            Place::Inline => Ok(Self::Inline(cell.bytes())),
            Place::Stack => Ok(Self::Stack(channel.stack_source(cell.slot(), cell.length as usize)?)),
            Place::Aside => Self::beside(channel, mailbox, cell.slot()),
            Place::Annex => {
                Ok(Self::Aside(Box::new(Aside::in_annex(channel, mailbox, cell.slot(), cell.length)?)))
            }
        }
    }

    /// Those that came in a parcel.
    #[inline(never)]
    fn beside(channel: &'a Channel, mailbox: &ChannelMailbox, slot: u16) -> Result<Self, Unread> {
        match mailbox.take(slot) {
            Some(Came::Parcel(parcel)) => {
                Ok(Self::Aside(Box::new(Aside::of(channel, mailbox, slot, parcel)?)))
            }
            Some(Came::NoFile) => Err(Unread::NoFile),
            Some(Came::Late) => Err(Unread::Late),
            None => Err(Unread::Violation(DecodeError::Truncated)),
        }
    }

    /// Reads a value, into `place`.
    #[inline(always)]
    pub(crate) fn read_into<T: Decode>(&mut self, place: &mut Option<T>) -> Result<(), DecodeError> {
        match self {
            Self::Inline(left) => T::decode_into(place, left),
            Self::Stack(source) => T::decode_into(place, source),
            Self::Aside(source) => T::decode_into(place, &mut **source),
        }
    }

    /// Reads a value.
    #[inline]
    pub(crate) fn read<T: Decode>(&mut self) -> Result<T, DecodeError> {
        let mut place = None;
        self.read_into(&mut place)?;
        Ok(place.expect("a value that was read"))
    }

    /// Bytes not read yet.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        match self {
            Self::Inline(left) => left.len(),
            Self::Stack(source) => source.remaining(),
            Self::Aside(source) => source.remaining(),
        }
    }

    /// Checks that everything was read, and was what the peer has written.
    #[inline]
    pub(crate) fn check_end(&self) -> Result<(), DecodeError> {
        let damaged = match self {
            Self::Inline(_) => false,
            Self::Stack(source) => source.is_damaged(),
            Self::Aside(source) => source.is_damaged(),
        };
        if damaged {
            return Err(DecodeError::BadValue { of: "memory of which the system has refused a page" });
        }
        match (self.left(), self) {
            (0, Self::Aside(source)) if source.files_left() > 0 => {
                Err(DecodeError::FilesLeftOver(source.files_left()))
            }
            (0, _) => Ok(()),
            (left, _) => Err(DecodeError::LeftOver(left)),
        }
    }
}
