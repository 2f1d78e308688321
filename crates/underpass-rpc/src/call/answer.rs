//! The outcome of a call, for its caller to read.

use crate::call::abandon::UnderWay;
use crate::call::client::{ClientEnd, ClientRow};
use crate::call::linkage::Linkage;
use crate::counters::SlotCount;
use crate::dispatch::incoming::{REVOKED, Status};
use crate::error::{CallError, Outcome};
use crate::payload::message::{Bytes, IN_REPLY, LATE, NO_FILE, Unread};
use std::cell::Cell;
use underpass_channel::{self as channel, INLINE, Payload, PayloadPlace, RegionSource, Slot};
use underpass_os::{failpoint, fork};
use underpass_wire::{Decode, DecodeError, Source};

/// The type that a procedure returns: a `Result`.
pub trait Results {
    /// The type of a success.
    type Value;
    /// The type of an error.
    type Error;

    /// Whether it is an error.
    fn is_failure(&self) -> bool;

    /// Converts it into the `Result` that it is.
    ///
    /// # Errors
    /// If it is an error.
    fn into_result(self) -> Result<Self::Value, Self::Error>;
}

impl<T, E> Results for Result<T, E> {
    type Value = T;
    type Error = E;

    fn is_failure(&self) -> bool {
        self.is_err()
    }

    fn into_result(self) -> Self {
        self
    }
}

/// A result, or the reason why there is none.
pub(crate) type Read<R> = Result<Result<<R as Results>::Value, <R as Results>::Error>, Box<CallError>>;

/// A call under way, then its answer. When it is dropped it gives the slot back, and the A-stack
/// with it, whatever happens to the call.
pub(crate) struct Answer<'a> {
    pub(crate) end: &'a ClientEnd,
    /// The binding over which it is made.
    pub(crate) row: &'a ClientRow,
    /// `None` once somebody else gives it back, or it was given back.
    pub(crate) slot: Cell<Option<Slot>>,
    pub(crate) number: u16,
    linkage: &'a Linkage,
    /// What calls of the binding over this channel have carried. Written under the lock of `end`.
    pub(crate) count: &'a SlotCount,
    /// Bytes of a result that was read from the A-stack or elsewhere.
    received: Cell<u64>,
    /// What frees the call. Unused once the slot may belong to another call.
    under_way: Option<&'a UnderWay>,
}

/// More bytes than a cell has room for.
const NONE: u8 = u8::MAX;

/// Receives the bytes of an inline reply for its caller.
#[derive(Debug)]
pub(crate) struct Landing {
    /// How many bytes there are, if the caller itself has found and taken the reply before another
    /// thread delivered it. Else [`NONE`].
    caught: Cell<u8>,
    words: Cell<[[u8; 8]; Payload::WORDS]>,
}

impl Landing {
    /// No reply yet.
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self { caught: Cell::new(NONE), words: Cell::new([[0; 8]; Payload::WORDS]) }
    }

    /// Stores a word of the reply.
    #[inline(always)]
    pub(crate) fn put(&self, index: usize, word: u64) {
        self.words.as_array_of_cells()[index].set(word.to_le_bytes());
    }

    /// The caller has taken a reply of `len` bytes.
    #[inline(always)]
    pub(crate) fn catch(&self, len: usize) {
        self.caught.set(len as u8);
    }

    /// Whether the caller has taken the reply.
    #[inline(always)]
    pub(crate) fn is_caught(&self) -> bool {
        self.caught.get() != NONE
    }

    /// The first `len` bytes.
    #[inline(always)]
    fn bytes(&mut self, len: usize) -> &[u8] {
        &self.words.get_mut().as_flattened()[..len]
    }
}

impl<'a> Answer<'a> {
    /// The answer of the call that has this slot, and may be freed by `under_way`.
    #[inline(always)]
    pub(crate) fn new(
        end: &'a ClientEnd,
        row: &'a ClientRow,
        slot: Slot,
        under_way: Option<&'a UnderWay>,
    ) -> Self {
        let number = slot.number();
        let (linkage, count) = (end.linkage(number), row.count(end));
        Self {
            end,
            row,
            slot: Cell::new(Some(slot)),
            number,
            linkage,
            count,
            received: Cell::new(0),
            under_way,
        }
    }

    /// The answer of a late call. Its bytes lie in its cell, or with the slot `number`.
    pub(crate) fn of_late(end: &'a ClientEnd, row: &'a ClientRow, slot: Option<Slot>, number: u16) -> Self {
        let (linkage, count) = (end.linkage(number), row.count(end));
        Self {
            end,
            row,
            slot: Cell::new(slot),
            number,
            linkage,
            count,
            received: Cell::new(0),
            under_way: None,
        }
    }

    /// The slot, which the caller gives back from now on.
    #[inline(always)]
    pub(crate) fn into_slot(self) -> Slot {
        self.slot.take().expect("a slot that nobody has given back")
    }

    #[inline(always)]
    pub(crate) fn linkage(&self) -> &'a Linkage {
        self.linkage
    }

    /// The result, once the call is settled. If there is none, `failed` makes the error.
    ///
    /// A successful result is constructed where the caller wants it, and is not moved afterwards.
    /// If the processor reads in one piece what it has just written in several, it waits until all
    /// its earlier stores have left the store buffer. The request is among these, and the server
    /// may own its cache line (decision 0021).
    #[inline(always)]
    pub(crate) fn result<R: Decode + Results<Value: Decode>>(
        &mut self,
        landing: &mut Landing,
        failed: impl FnOnce(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        if landing.is_caught() {
            let len = landing.caught.get().into();
            return good_or_odd::<R>(landing.bytes(len), failed);
        }
        // A result that has no room in a cell is read where the caller wants it, too. For smaller
        // ones that would only be more code.
        if R::Value::LEAST >= INLINE
            && let Some(source) = self.stacked()
        {
            return good_or_odd::<R>(source, failed);
        }
        let Some(len) = self.inline(landing) else {
            return self.read::<R>().unwrap_or_else(|e| Err(failed(*e)));
        };
        self.finish(len as u64);
        good_or_odd::<R>(landing.bytes(len), failed)
    }

    /// The bytes of a result that lay in the cell. Most results do.
    #[inline(always)]
    fn inline(&self, landing: &Landing) -> Option<usize> {
        let linkage = self.linkage();
        linkage.take_inline(Status::Done as u16, |i, word| landing.put(i, word))
    }

    /// The bytes of a result that lie in the A-stack, if what the peer says of them is valid.
    #[inline(always)]
    fn stacked(&self) -> Option<RegionSource<'a>> {
        let linkage = self.linkage();
        let len = linkage.stacked(Status::Done as u16)?;
        let source = self.end.channel().stack_source(self.number, len).ok()?;
        if source.is_damaged() {
            // `read` reports it.
            return None;
        }
        linkage.clear();
        self.received.set(len as u64);
        Some(source)
    }

    fn has_slot(&self) -> bool {
        let slot = self.slot.take();
        let has = slot.is_some();
        self.slot.set(slot);
        has
    }

    /// Gives the slot back, after a result of `len` bytes.
    #[inline(always)]
    fn finish(&mut self, len: u64) {
        if let Some(slot) = self.slot.take() {
            self.under_way.inspect(|call| call.leaves());
            self.end.give_back(slot, self.count, len);
        }
    }

    /// Reads any other answer.
    #[cold]
    #[inline(never)]
    fn read<R: Results + Decode>(&mut self) -> Read<R> {
        let (end, linkage) = (self.end, self.linkage());
        if linkage.is_freed()
            && let Some(error) = end.leave_call(self)
        {
            return Err(error);
        }
        // Looked at last: until a freed call was left, its reply may come, also this one.
        if linkage.late_reply().is_some() {
            let late = end.late_answer_of_thread(self.row, self, None, None)?;
            return end.read_late::<R>(&late);
        }
        let Some(reply) = linkage.take() else {
            return Err(self.row.reason(end.outcome_of(self)));
        };
        self.read_reply::<R>(&reply)
    }

    /// Reads a late answer. If it has no slot, its bytes are counted here.
    #[cold]
    pub(crate) fn read_late<R: Results + Decode>(&self, reply: &channel::Cell) -> Read<R> {
        let read = self.read_reply::<R>(reply);
        if !self.has_slot() {
            let _inside = self.end.lock();
            self.count.come_in(self.received.get());
        }
        read
    }

    /// Reads an answer that was taken out of its linkage record.
    fn read_reply<R: Results + Decode>(&self, reply: &channel::Cell) -> Read<R> {
        let end = self.end;
        let mut bytes = self.bytes(reply)?;
        self.received.set(bytes.left() as u64);
        if matches!(reply.place, PayloadPlace::OutOfBand | PayloadPlace::OverflowBuffer) {
            end.count_entries(end.mailbox().entries());
            end.watch_overflow_buffers();
        }
        if reply.what() == Status::DoneWithInterfaces as u16 {
            if let Err(e) = bytes.take_interfaces(end.mailbox(), true) {
                return Err(Box::new(lost_result(&e)));
            }
        } else if reply.what() != Status::Done as u16 {
            return Err(Box::new(self.refusal(reply.what(), bytes.read().unwrap_or_default())));
        }
        let result = bytes.read::<R>();
        whole(result, bytes.check_end())
    }

    fn bytes<'b>(&self, reply: &'b channel::Cell) -> Result<Bytes<'b>, Box<CallError>>
    where
        'a: 'b,
    {
        Bytes::of::<IN_REPLY>(self.end.channel(), self.end.mailbox(), reply).map_err(|e| {
            Box::new(match e {
                Unread::Violation(e) => self.end.violated(&format!("a reply that can't be read: {e}")),
                Unread::NoFile => CallError::NoResources(lost(reply.what()), NO_FILE.to_owned()),
                Unread::Late => CallError::NoResources(lost(reply.what()), LATE.to_owned()),
            })
        })
    }

    fn refusal(&self, status: u16, text: String) -> CallError {
        match Status::from(status) {
            Some(Status::Panicked) => CallError::Panicked(text),
            Some(Status::BadArguments) => CallError::Decode(Outcome::NotStarted, text),
            Some(Status::NoResources) => CallError::NoResources(Outcome::NotStarted, text),
            Some(Status::NoRoomForResult) => CallError::NoResources(Outcome::Executed, text),
            Some(Status::Unwanted) => CallError::Deadline(Outcome::NotStarted),
            Some(Status::Closed) => self.row.turned_away(),
            Some(Status::NoBinding) => self.end.without_row(self.row, text == REVOKED),
            Some(Status::Dropped) => CallError::Dropped(Outcome::Unknown),
            Some(Status::DroppedUnstarted) => CallError::Dropped(Outcome::NotStarted),
            Some(Status::NoProcedure) => CallError::Unsupported(Outcome::NotStarted),
            Some(Status::Cancelled) => CallError::Deadline(Outcome::Unknown),
            Some(Status::Done | Status::DoneWithInterfaces | Status::Late) | None => {
                self.end.violated("a reply of no known status")
            }
        }
    }
}

impl Drop for Answer<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            give_back_late(self, slot);
        }
    }
}

/// Out of line, so that the drop of an answer without a slot is small enough to be inlined.
#[cold]
#[inline(never)]
fn give_back_late(answer: &Answer<'_>, slot: Slot) {
    // The call is the parent's, and so is the memory.
    if fork::is_forked() {
        return;
    }
    answer.under_way.inspect(|call| call.leaves());
    if answer.linkage().answered() == Some(Status::DoneWithInterfaces as u16)
        && let Some(reply) = answer.linkage().take()
    {
        answer.end.release_interfaces_of(&reply);
    }
    answer.end.give_back(slot, answer.count, answer.received.get());
}

/// Reads a result. Most results are successes, so this is the way for them.
#[inline(always)]
fn good_or_odd<R: Decode + Results<Value: Decode>>(
    mut left: impl Source,
    failed: impl FnOnce(CallError) -> R::Error,
) -> Result<R::Value, R::Error> {
    // The tag with which an encoded `Result` begins.
    let mut tag = [0];
    let begins = left.take(&mut tag).is_ok();
    if !begins || tag != [0] {
        return odd::<R>(begins.then_some(tag[0]), left).unwrap_or_else(|e| Err(failed(*e)));
    }
    let mut place = None;
    match R::Value::decode_into(&mut place, &mut left) {
        Ok(()) if left.remaining() == 0 => {
            failpoint!("client-decoded");
            Ok(place.expect("a value that was decoded"))
        }
        Ok(()) => Err(failed(lost_result(&DecodeError::LeftOver(left.remaining())))),
        Err(e) => Err(failed(lost_result(&e))),
    }
}

/// The error of a call that has been executed, if its result can't be read.
#[cold]
fn lost_result(e: &DecodeError) -> CallError {
    CallError::unread(Outcome::Executed, e)
}

/// What is known of a call whose reply, with this status, has lost its bytes.
#[cold]
fn lost(status: u16) -> Outcome {
    let is_done = [Status::Done, Status::DoneWithInterfaces].iter().any(|done| *done as u16 == status);
    if is_done { Outcome::Executed } else { Outcome::Unknown }
}

/// Reads a result that begins with `tag` and is an error, or is malformed.
#[cold]
#[inline(never)]
fn odd<R: Results + Decode>(tag: Option<u8>, mut left: impl Source) -> Read<R> {
    let mut bytes = Vec::from_iter(tag);
    bytes.append(&mut left.take_vec(left.remaining()).map_err(|e| lost_result(&e))?);
    let mut rest = &bytes[..];
    let result = R::decode(&mut rest);
    whole(result, Bytes::Inline(rest).check_end())
}

fn whole<R: Results>(result: Result<R, DecodeError>, end: Result<(), DecodeError>) -> Read<R> {
    match result.and_then(|result| end.map(|()| result)) {
        Ok(result) => Ok(result.into_result()),
        Err(e) => Err(Box::new(lost_result(&e))),
    }
}
