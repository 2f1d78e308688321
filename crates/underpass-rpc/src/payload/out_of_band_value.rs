//! Values with files, and values larger than an A-stack: how they are sent and received out of
//! band.

use crate::binding::interface_exchange::{GivenInterface, TakenInterface};
use crate::control::mailbox::ChannelMailbox;
use crate::payload::interfaces::{fill_with_interfaces, given, next_interface};
use crate::payload::message::{Bytes as MessageBytes, IN_REPLY, Unsent};
use crate::payload::out_of_band::{BytesLocation, OutOfBand};
use crate::payload::overflow_buffers::{MappedOverflow, Numbered};
use crate::payload::passed_file::PassedFiles;
use std::any::Any;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::IntoIter;
use underpass_channel::layout::LARGEST;
use underpass_channel::{
    Cell, Channel, OverflowSource, PayloadFileSink, PayloadFileSource, PayloadPlace, RegionSource,
};
use underpass_os::{PayloadFile, failpoint};
use underpass_wire::{DecodeError, Encode, Sink, Source};

/// A sink that takes files as well.
///
/// It duplicates them, so the value need not outlive the encoding, and what is passed is what the
/// value had then.
struct Packing<S> {
    bytes: S,
    files: Vec<OwnedFd>,
    interfaces: Vec<GivenInterface>,
    failed: Option<io::Error>,
}

/// Why a value was not written.
enum NotPacked {
    Unsent(Unsent),
    /// It has interfaces, so it must be written behind their words.
    HasInterfaces(Vec<GivenInterface>),
}

impl From<Unsent> for NotPacked {
    fn from(why: Unsent) -> Self {
        Self::Unsent(why)
    }
}

impl<S> Packing<S> {
    fn new(bytes: S) -> Self {
        Self { bytes, files: Vec::new(), interfaces: Vec::new(), failed: None }
    }

    fn finish(self) -> Result<(S, Vec<OwnedFd>), NotPacked> {
        match self.failed {
            Some(e) => Err(Unsent::NoResources(e).into()),
            None if self.interfaces.is_empty() => Ok((self.bytes, self.files)),
            None => Err(NotPacked::HasInterfaces(self.interfaces)),
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

    fn put_interface(&mut self, interface: &dyn Any) {
        match given(interface) {
            Some(given) => self.interfaces.push(given),
            None => self.failed = Some(io::Error::other("this interface can't be passed over a connection")),
        }
    }
}

/// Writes `value`, of `size` bytes, for `cell` into its A-stack, its overflow buffer or a payload
/// file. Sends an out-of-band message ahead, with the value's files, if there is something to send.
///
/// The overflow buffer is the one that both sides have. If there is none, the client makes one and
/// sends it along; the server uses one that it was offered.
#[cold]
#[inline(never)]
pub(crate) fn fill_out_of_band<const BEGIN: usize, T: Encode + ?Sized>(
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
    let out_of_band = match pack(channel, mailbox, cell, value, size) {
        Ok(Some(out_of_band)) => out_of_band,
        Ok(None) => return Ok(()),
        Err(NotPacked::Unsent(why)) => return Err(why),
        Err(NotPacked::HasInterfaces(interfaces)) => {
            return fill_with_interfaces::<BEGIN, T>(channel, mailbox, cell, (value, size), &interfaces);
        }
    };
    failpoint!("file-made");
    let passed = match BEGIN {
        IN_REPLY => mailbox.pass_or_hold(cell.slot(), out_of_band),
        _ => mailbox.pass(cell.slot(), &out_of_band),
    };
    passed.map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Unsent::NoPeer,
        _ => Unsent::NoResources(e),
    })?;
    failpoint!("file-sent");
    (cell.place, cell.length) = (PayloadPlace::OutOfBand, 0);
    Ok(())
}

/// Writes a value to where it has room. Returns what is to be sent over the socket, if there is
/// something.
fn pack<T: Encode + ?Sized>(
    channel: &Channel,
    mailbox: &ChannelMailbox,
    cell: &mut Cell,
    value: &T,
    size: usize,
) -> Result<Option<OutOfBand>, NotPacked> {
    let out_of_band = if size <= channel.stack() {
        let mut packing = Packing::new(channel.stack_sink(cell.slot()));
        value.encode(&mut packing);
        let (sink, files) = packing.finish()?;
        if sink.overflowed() || files.is_empty() {
            return Err(Unsent::Inconsistent.into());
        }
        sink.is_written().map_err(Unsent::NoResources)?;
        OutOfBand { bytes: BytesLocation::Stack(size as u64), files }
    } else if let Some((overflow, file)) = overflow_for(channel, mailbox, cell.slot(), size) {
        let mut packing = Packing::new((*overflow.mapped).as_ref().sink());
        value.encode(&mut packing);
        let (sink, files) = packing.finish()?;
        if sink.overflowed() {
            return Err(Unsent::Inconsistent.into());
        }
        sink.is_written().map_err(Unsent::NoResources)?;
        let bytes = match file {
            None if files.is_empty() => {
                cell.place = PayloadPlace::OverflowBuffer;
                cell.length = size as u32;
                return Ok(None);
            }
            None => BytesLocation::OverflowBuffer(size as u64),
            Some(file) => BytesLocation::NewOverflowBuffer(file, overflow.number, size as u64),
        };
        OutOfBand { bytes, files }
    } else {
        let payload_file = PayloadFile::create("underpass-argument").map_err(Unsent::NoResources)?;
        let mut packing = Packing::new(PayloadFileSink::new(payload_file));
        value.encode(&mut packing);
        let (sink, files) = packing.finish()?;
        let (payload_file, written) = sink.finish().map_err(Unsent::NoResources)?;
        if written != size as u64 {
            return Err(Unsent::Inconsistent.into());
        }
        OutOfBand { bytes: BytesLocation::PayloadFile(payload_file, written), files }
    };
    Ok(Some(out_of_band))
}

/// The overflow buffer for `size` bytes over `slot`, and its file if the peer doesn't have it.
fn overflow_for(
    channel: &Channel,
    mailbox: &ChannelMailbox,
    slot: u16,
    size: usize,
) -> Option<(Numbered, Option<OwnedFd>)> {
    let found = match mailbox.overflow_buffers().maps() {
        true => Some((mailbox.overflow_for_reply(channel, slot, size)?, None)),
        false => mailbox.overflow_buffers().for_arguments(channel, slot, size),
    };
    // The peer may not see what is written into a damaged one.
    found.filter(|(overflow, _)| !(*overflow.mapped).as_ref().is_damaged())
}

/// The bytes and files of a value that came out of band, to be decoded. Files that nobody takes are
/// closed when it is dropped.
#[derive(Debug)]
pub(crate) struct OutOfBandSource<'a> {
    bytes: Bytes<'a>,
    files: Option<PassedFiles>,
    /// Those that nobody takes are released when it is dropped.
    interfaces: IntoIter<TakenInterface>,
}

#[derive(Debug)]
enum Bytes<'a> {
    Inline(&'a [u8]),
    Stack(RegionSource<'a>),
    PayloadFile(PayloadFileSource),
    OverflowBuffer(OverflowSource<MappedOverflow>),
    /// All bytes were read. The value is dropped with this.
    Over(#[expect(dead_code, reason = "it is dropped")] DroppedLast),
}

/// A result that is dropped after its reply was posted.
#[derive(Debug)]
struct DroppedLast(Option<Box<dyn Any>>);

impl Drop for DroppedLast {
    fn drop(&mut self) {
        let value = self.0.take();
        // A panic is reported by its hook. The caller has its reply.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
    }
}

impl<'a> OutOfBandSource<'a> {
    /// The payload that came for `slot`.
    pub(crate) fn of(
        channel: &'a Channel,
        mailbox: &ChannelMailbox,
        slot: u16,
        out_of_band: OutOfBand<PassedFiles>,
    ) -> Result<Self, DecodeError> {
        let whole = |length| usize::try_from(length).map_err(|_| DecodeError::TooLong);
        let bytes = match out_of_band.bytes {
            BytesLocation::Stack(length) => Bytes::Stack(channel.stack_source(slot, whole(length)?)?),
            BytesLocation::PayloadFile(payload_file, length) => {
                let source = PayloadFileSource::new(payload_file, length)?;
                // The next value of its size may come without a file.
                if !mailbox.overflow_buffers().maps() {
                    mailbox.offer(channel, slot, source.remaining());
                }
                Bytes::PayloadFile(source)
            }
            BytesLocation::OverflowBuffer(length) => {
                Bytes::OverflowBuffer(in_overflow(channel, mailbox, slot, whole(length)?)?)
            }
            BytesLocation::NewOverflowBuffer(..) if !mailbox.overflow_buffers().maps() => {
                return Err(DecodeError::Truncated);
            }
            BytesLocation::NewOverflowBuffer(file, number, length) => {
                match mailbox.map_overflow(channel, slot, number, &file)? {
                    Some(overflow) => Bytes::OverflowBuffer(OverflowSource::new(overflow, whole(length)?)?),
                    None => Bytes::PayloadFile(PayloadFileSource::new(
                        PayloadFile::adopt(file).map_err(|_| DecodeError::Truncated)?,
                        length,
                    )?),
                }
            }
        };
        Ok(Self { bytes, files: Some(out_of_band.files), interfaces: IntoIter::default() })
    }

    /// The bytes of a message behind the words of its `interfaces`.
    pub(crate) fn with_interfaces(bytes: MessageBytes<'a>, interfaces: Vec<TakenInterface>) -> Self {
        let interfaces = interfaces.into_iter();
        match bytes {
            MessageBytes::Inline(bytes) => Self { bytes: Bytes::Inline(bytes), files: None, interfaces },
            MessageBytes::Stack(source) => Self { bytes: Bytes::Stack(source), files: None, interfaces },
            MessageBytes::OutOfBand(source) => Self { interfaces, ..*source },
        }
    }

    /// No bytes, and `result`, which is dropped with it.
    pub(crate) fn over(result: impl Any) -> Self {
        Self {
            bytes: Bytes::Over(DroppedLast(Some(Box::new(result)))),
            files: None,
            interfaces: IntoIter::default(),
        }
    }

    /// The bytes in the overflow buffer of `slot`.
    pub(crate) fn in_overflow(
        channel: &Channel,
        mailbox: &ChannelMailbox,
        slot: u16,
        length: u32,
    ) -> Result<Self, DecodeError> {
        let bytes = Bytes::OverflowBuffer(in_overflow(channel, mailbox, slot, length as usize)?);
        Ok(Self { bytes, files: None, interfaces: IntoIter::default() })
    }

    /// The bytes that were not read yet, if they lie in an overflow buffer.
    pub(crate) fn overflow_left(&mut self) -> Option<&mut OverflowSource<MappedOverflow>> {
        match &mut self.bytes {
            Bytes::OverflowBuffer(source) => Some(source),
            Bytes::Inline(_) | Bytes::Stack(_) | Bytes::PayloadFile(_) | Bytes::Over(_) => None,
        }
    }

    /// Files that nobody has taken yet.
    pub(crate) fn files_left(&self) -> usize {
        self.files.as_ref().map_or(0, PassedFiles::len)
    }

    /// Interfaces that nobody has taken yet.
    pub(crate) fn interfaces_left(&self) -> usize {
        self.interfaces.len()
    }

    /// Whether the system has refused a page of the memory in which the bytes lie.
    pub(crate) fn is_damaged(&self) -> bool {
        match &self.bytes {
            Bytes::Stack(source) => source.is_damaged(),
            Bytes::Inline(_) | Bytes::PayloadFile(_) | Bytes::Over(_) => false,
            Bytes::OverflowBuffer(source) => source.is_damaged(),
        }
    }
}

/// The first `length` bytes of the overflow buffer of `slot`. No honest peer names one that is not
/// there.
fn in_overflow(
    channel: &Channel,
    mailbox: &ChannelMailbox,
    slot: u16,
    length: usize,
) -> Result<OverflowSource<MappedOverflow>, DecodeError> {
    let overflow = mailbox.overflow_buffers().named(channel, slot).ok_or(DecodeError::Truncated)?;
    OverflowSource::new(overflow, length)
}

impl Source for OutOfBandSource<'_> {
    fn remaining(&self) -> usize {
        match &self.bytes {
            Bytes::Inline(left) => left.len(),
            Bytes::Stack(source) => source.remaining(),
            Bytes::PayloadFile(source) => source.remaining(),
            Bytes::OverflowBuffer(source) => source.remaining(),
            Bytes::Over(_) => 0,
        }
    }

    fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
        match &mut self.bytes {
            Bytes::Inline(left) => left.take(out),
            Bytes::Stack(source) => source.take(out),
            Bytes::PayloadFile(source) => source.take(out),
            Bytes::OverflowBuffer(source) => source.take(out),
            Bytes::Over(_) => Err(DecodeError::Truncated),
        }
    }

    fn take_vec(&mut self, len: usize) -> Result<Vec<u8>, DecodeError> {
        match &mut self.bytes {
            Bytes::Inline(left) => left.take_vec(len),
            Bytes::Stack(source) => source.take_vec(len),
            Bytes::PayloadFile(source) => source.take_vec(len),
            Bytes::OverflowBuffer(source) => source.take_vec(len),
            Bytes::Over(_) => Err(DecodeError::Truncated),
        }
    }

    fn take_file(&mut self) -> Result<OwnedFd, DecodeError> {
        let file = self.files.as_mut().and_then(PassedFiles::take).ok_or(DecodeError::NoFile)?;
        file.map_err(|_| DecodeError::NoRoomForFile)
    }

    fn take_interface(&mut self) -> Result<Box<dyn Any>, DecodeError> {
        next_interface(&mut self.interfaces)
    }
}
