//! Puts values into messages and reads them, wherever the bytes lie.

use crate::control::mailbox::ChannelMailbox;
use crate::payload::interfaces::take_interfaces;
use crate::payload::out_of_band::Came;
use crate::payload::out_of_band_value::{OutOfBandSource, fill_out_of_band};
use std::io;
use underpass_channel::{Cell, Channel, INLINE, Payload, PayloadPlace, PayloadSink, RegionSource, Tag};
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

/// Writes `value` for `cell`, which is new. The bytes go into the first of these that is large
/// enough: the cell, the A-stack of its slot, its overflow buffer, a payload file that is sent
/// ahead. The value's files, if any, are sent ahead as well. Only the encoding finds out whether
/// there are files: a value without files costs nothing more. Returns whether the value went out of
/// band, into the overflow buffer or a file.
///
/// One copy in each case (LRPC, Table III: A).
#[inline(always)]
pub(crate) fn fill<const BEGIN: usize, T: Encode + ?Sized>(
    channel: &Channel,
    mailbox: &ChannelMailbox,
    cell: &mut Cell,
    value: &T,
) -> Result<bool, Unsent> {
    let size = T::FIXED.unwrap_or_else(|| value.size());
    if size > INLINE - BEGIN {
        return fill_elsewhere::<BEGIN, T>(channel, mailbox, cell, value, size);
    }
    let mut sink = sink_from::<BEGIN>(&mut cell.payload, size);
    value.encode(&mut sink);
    if sink.finish() {
        if BEGIN == IN_REPLY {
            // The word of the tag is zero in a reply whose bytes lie elsewhere.
            cell.payload.set_word(0, 0);
        }
        return fill_out_of_band::<BEGIN, T>(channel, mailbox, cell, value, size).map(|()| true);
    }
    cell.length = (size + BEGIN) as u32;
    Ok(false)
}

/// Where the bytes of a message begin in a cell: in a request behind the tag of its row.
pub(crate) const IN_REQUEST: usize = Tag::BYTES;
/// The same in a reply.
pub(crate) const IN_REPLY: usize = 0;

#[inline(always)]
fn sink_from<const BEGIN: usize>(payload: &mut Payload, size: usize) -> PayloadSink<'_> {
    const { assert!(BEGIN == IN_REQUEST || BEGIN == IN_REPLY) };
    if BEGIN == IN_REQUEST { PayloadSink::behind_tag(payload, size) } else { PayloadSink::new(payload, size) }
}

/// Writes `value` into the cell of a request alone, if that has room for all values of the type.
/// Returns whether it did so and the value has no files.
#[inline(always)]
pub(crate) fn fill_inline<T: Encode + ?Sized>(cell: &mut Cell, value: &T) -> bool {
    let Some(size) = T::FIXED.filter(|&size| size <= INLINE - IN_REQUEST) else { return false };
    let mut sink = sink_from::<IN_REQUEST>(&mut cell.payload, size);
    value.encode(&mut sink);
    cell.length = (size + IN_REQUEST) as u32;
    !sink.finish()
}

#[inline(never)]
fn fill_elsewhere<const BEGIN: usize, T: Encode + ?Sized>(
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
            return fill_out_of_band::<BEGIN, T>(channel, mailbox, cell, value, size).map(|()| true);
        }
        sink.is_written().map_err(Unsent::NoResources)?;
        channel.demote_stack(cell.slot(), size);
        cell.place = PayloadPlace::Stack;
        cell.length = size as u32;
        return Ok(false);
    }
    fill_out_of_band::<BEGIN, T>(channel, mailbox, cell, value, size).map(|()| true)
}

/// Why there are no bytes to read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// No honest peer announces this.
    Violation(DecodeError),
    /// This domain had no file left for them.
    NoFile,
    /// They did not come in time.
    Late,
}

/// The error text of a domain without free descriptors.
pub(crate) const NO_FILE: &str = "too many open files where they should arrive";

/// The error text of a domain whose file thread is held up.
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
    OutOfBand(Box<OutOfBandSource<'a>>),
}

impl<'a> Bytes<'a> {
    /// The bytes that `cell` names. If they come over the socket the calling thread may wait.
    #[inline(always)]
    pub(crate) fn of<const BEGIN: usize>(
        channel: &'a Channel,
        mailbox: &ChannelMailbox,
        cell: &'a Cell,
    ) -> Result<Self, Unread> {
        match cell.place {
            PayloadPlace::Inline => {
                Ok(Self::Inline(cell.bytes().get(BEGIN..).ok_or(DecodeError::Truncated)?))
            }
            PayloadPlace::Stack => Ok(Self::Stack(channel.stack_source(cell.slot(), cell.length as usize)?)),
            PayloadPlace::OutOfBand => Self::beside(channel, mailbox, cell.slot()),
            PayloadPlace::OverflowBuffer => Ok(Self::OutOfBand(Box::new(OutOfBandSource::in_overflow(
                channel,
                mailbox,
                cell.slot(),
                cell.length,
            )?))),
        }
    }

    /// The bytes of an out-of-band message.
    #[inline(never)]
    fn beside(channel: &'a Channel, mailbox: &ChannelMailbox, slot: u16) -> Result<Self, Unread> {
        match mailbox.take(slot) {
            Some(Came::OutOfBand(out_of_band)) => {
                Ok(Self::OutOfBand(Box::new(OutOfBandSource::of(channel, mailbox, slot, out_of_band)?)))
            }
            Some(Came::NoFile) => Err(Unread::NoFile),
            Some(Came::Late) => Err(Unread::Late),
            None => Err(Unread::Violation(DecodeError::Truncated)),
        }
    }

    /// Takes the interfaces at the beginning of the message, for the values behind them.
    #[cold]
    pub(crate) fn take_interfaces(
        &mut self,
        mailbox: &ChannelMailbox,
        is_reply: bool,
    ) -> Result<(), DecodeError> {
        let interfaces = take_interfaces(mailbox, self, is_reply)?;
        let behind = std::mem::replace(self, Self::Inline(&[]));
        *self = Self::OutOfBand(Box::new(OutOfBandSource::with_interfaces(behind, interfaces)));
        Ok(())
    }

    /// Reads a value, into `place`.
    #[inline(always)]
    pub(crate) fn read_into<T: Decode>(&mut self, place: &mut Option<T>) -> Result<(), DecodeError> {
        match self {
            Self::Inline(left) => T::decode_into(place, left),
            Self::Stack(source) => T::decode_into(place, source),
            Self::OutOfBand(source) => T::decode_into(place, &mut **source),
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
            Self::OutOfBand(source) => source.remaining(),
        }
    }

    /// Checks that everything was read, and that the memory is as the peer has written it.
    #[inline]
    pub(crate) fn check_end(&self) -> Result<(), DecodeError> {
        let damaged = match self {
            Self::Inline(_) => false,
            Self::Stack(source) => source.is_damaged(),
            Self::OutOfBand(source) => source.is_damaged(),
        };
        if damaged {
            return Err(DecodeError::BadValue { of: "memory of which the system has refused a page" });
        }
        match (self.left(), self) {
            (0, Self::OutOfBand(source)) if source.files_left() > 0 => {
                Err(DecodeError::FilesLeftOver(source.files_left()))
            }
            (0, Self::OutOfBand(source)) if source.interfaces_left() > 0 => {
                Err(DecodeError::InterfacesLeftOver(source.interfaces_left()))
            }
            (0, _) => Ok(()),
            (left, _) => Err(DecodeError::LeftOver(left)),
        }
    }
}
