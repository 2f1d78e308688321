//! Interfaces in messages.
//!
//! A message with interfaces begins with their number (two bytes) and a word for each. Then comes
//! the value, in which they take no bytes. The kind of the message says that it has them, so that a
//! side that does not read the value can release them.

use crate::binding::interface_exchange::{GivenInterface, GivenRows, MOST, TakenInterface};
use crate::control::mailbox::ChannelMailbox;
use crate::dispatch::incoming::Status;
use crate::payload::message::{Bytes, IN_REQUEST, Unsent, fill};
use std::any::Any;
use std::os::fd::BorrowedFd;
use underpass_channel::{Cell, Channel, Ids};
use underpass_os::failpoint;
use underpass_wire::{DecodeError, Encode, Sink};

/// The bit of a request's procedure that says that the message has interfaces.
pub(crate) const WITH_INTERFACES: u16 = 1 << 15;

/// A value without its type.
pub(crate) trait AnyValue {
    fn encode_into(&self, to: &mut dyn Sink);
}

/// A value whose type is left out.
pub(crate) struct OfType<'a, T: ?Sized>(pub(crate) &'a T);

impl<T: Encode + ?Sized> AnyValue for OfType<'_, T> {
    fn encode_into(&self, to: &mut dyn Sink) {
        self.0.encode(to);
    }
}

/// A value behind the words of its interfaces.
struct WithWords<'a> {
    words: &'a [u64],
    value: &'a dyn AnyValue,
    size: usize,
}

impl Encode for WithWords<'_> {
    const FIXED: Option<usize> = None;

    fn size(&self) -> usize {
        self.size + size_of::<u16>() + size_of_val(self.words)
    }

    fn encode<S: Sink + ?Sized>(&self, mut to: &mut S) {
        (self.words.len() as u16).encode(to);
        self.words.iter().for_each(|word| word.encode(to));
        self.value.encode_into(&mut WithoutInterfaces(&mut to));
    }
}

/// Takes bytes and files of a value whose interfaces were taken before.
struct WithoutInterfaces<'a>(&'a mut dyn Sink);

impl Sink for WithoutInterfaces<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.0.put(bytes);
    }

    fn put_file(&mut self, file: BorrowedFd<'_>) {
        self.0.put_file(file);
    }

    fn put_interface(&mut self, _: &dyn Any) {}
}

/// Writes `value`, of `size` bytes, for `cell`, with the `interfaces` that it has put. Opens a row
/// for each of them that is implemented here.
#[cold]
#[inline(never)]
pub(crate) fn fill_with_interfaces<const BEGIN: usize, T: Encode + ?Sized>(
    channel: &Channel,
    mailbox: &ChannelMailbox,
    cell: &mut Cell,
    (value, size): (&T, usize),
    interfaces: &[GivenInterface],
) -> Result<(), Unsent> {
    fill_any::<BEGIN>(channel, mailbox, cell, (&OfType(value), size), interfaces)
}

fn fill_any<const BEGIN: usize>(
    channel: &Channel,
    mailbox: &ChannelMailbox,
    cell: &mut Cell,
    (value, size): (&dyn AnyValue, usize),
    interfaces: &[GivenInterface],
) -> Result<(), Unsent> {
    let (control, at) = (mailbox.control(), (mailbox.number(), cell.slot()));
    let is_reply = BEGIN != IN_REQUEST;
    let given: GivenRows =
        control.interfaces().give(control, interfaces, at, is_reply).map_err(Unsent::NoResources)?;
    fill::<BEGIN, _>(channel, mailbox, cell, &WithWords { words: &given.words, value, size })?;
    let what = if is_reply { Status::DoneWithInterfaces as u16 } else { cell.what() | WITH_INTERFACES };
    cell.ids = Ids::new(cell.slot(), what);
    match is_reply && mailbox.holds(cell.slot()) {
        true => mailbox.hold_rows(cell.slot(), given),
        false => given.sent(),
    }
    failpoint!("interface-filled");
    Ok(())
}

/// What a stub has put into a sink.
pub(crate) fn given(interface: &dyn Any) -> Option<GivenInterface> {
    interface.downcast_ref().cloned()
}

/// Takes the interfaces at the beginning of a message. If it fails, the others are released.
pub(crate) fn take_interfaces(
    mailbox: &ChannelMailbox,
    bytes: &mut Bytes<'_>,
    is_reply: bool,
) -> Result<Vec<TakenInterface>, DecodeError> {
    let count = usize::from(bytes.read::<u16>()?);
    if count > MOST || count * size_of::<u64>() > bytes.left() {
        return Err(DecodeError::Truncated);
    }
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        words.push(bytes.read::<u64>()?);
    }
    let control = mailbox.control();
    // Each word is looked at, so that all rows that this side does not keep are released.
    let taken: Vec<_> =
        words.into_iter().map(|word| control.interfaces().take(control, word, is_reply)).collect();
    failpoint!("interface-taken");
    taken.into_iter().collect()
}

/// Takes the next of the interfaces that came along.
pub(crate) fn next_interface(
    interfaces: &mut std::vec::IntoIter<TakenInterface>,
) -> Result<Box<dyn Any>, DecodeError> {
    Ok(Box::new(interfaces.next().ok_or(DecodeError::NoInterface)?))
}
