//! What came of a call, for its caller to read.

use crate::call::abandon::UnderWay;
use crate::call::client::ClientEnd;
use crate::call::linkage::Linkage;
use crate::dispatch::incoming::Status;
use crate::error::{CallError, Outcome};
use crate::payload::message::{Bytes, LATE, NO_FILE, Unread};
use std::cell::Cell;
use underpass_channel::{self as channel, INLINE, Payload, PayloadPlace, RegionSource, Slot};
use underpass_os::failpoint;
use underpass_wire::{Decode, DecodeError, Source};

/// The type that a procedure returns: a `Result`.
#[diagnostic::on_unimplemented(
    message = "a method of an interface returns a `Result`, not `{Self}`",
    label = "every call can fail, and this can't say so",
    note = "write `Result<T, E>`, where `E: From<underpass::CallError>`"
)]
pub trait Results {
    /// Of what went well.
    type Value;
    /// Of what did not.
    type Error;

    /// As what it is.
    ///
    /// # Errors
    /// If it is one.
    fn into_result(self) -> Result<Self::Value, Self::Error>;
}

impl<T, E> Results for Result<T, E> {
    type Value = T;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }
}

/// A result, or why it never came.
type Read<R> = Result<Result<<R as Results>::Value, <R as Results>::Error>, Box<CallError>>;

/// A call under way, then its answer. Gives the slot back when it is dropped, and its bytes with
/// it, whatever happens to the call.
pub(crate) struct Answer<'a> {
    pub(crate) end: &'a ClientEnd,
    /// Nothing once it is another's to give back, or was given back.
    pub(crate) slot: Cell<Option<Slot>>,
    pub(crate) number: u16,
    /// What frees it: no more once the slot may be another call's.
    under_way: Option<&'a UnderWay>,
}

/// More than have room in a cell.
const NONE: u8 = u8::MAX;

/// Where the bytes of a brief reply are put for its caller.
#[derive(Debug)]
pub(crate) struct Landing {
    /// How many there are, once the caller itself has found and taken the reply, before anybody
    /// delivered it; or [`NONE`].
    caught: Cell<u8>,
    words: Cell<[[u8; 8]; Payload::WORDS]>,
}

impl Landing {
    /// Nothing so far.
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self { caught: Cell::new(NONE), words: Cell::new([[0; 8]; Payload::WORDS]) }
    }

    /// Puts a word there.
    #[inline(always)]
    pub(crate) fn put(&self, index: usize, word: u64) {
        self.words.as_array_of_cells()[index].set(word.to_le_bytes());
    }

    /// The caller has taken so many bytes.
    #[inline(always)]
    pub(crate) fn catch(&self, len: usize) {
        self.caught.set(len as u8);
    }

    /// Whether the caller has taken the reply.
    #[inline(always)]
    pub(crate) fn is_caught(&self) -> bool {
        self.caught.get() != NONE
    }

    /// So many bytes.
    #[inline(always)]
    fn bytes(&mut self, len: usize) -> &[u8] {
        &self.words.get_mut().as_flattened()[..len]
    }
}

impl<'a> Answer<'a> {
    /// Of the call that has this slot, and may be freed by `under_way`.
    #[inline(always)]
    pub(crate) fn new(end: &'a ClientEnd, slot: Slot, under_way: Option<&'a UnderWay>) -> Self {
        let number = slot.number();
        Self { end, slot: Cell::new(Some(slot)), number, under_way }
    }

    /// The slot, which the caller gives back from now on.
    #[inline(always)]
    pub(crate) fn into_slot(self) -> Slot {
        self.slot.take().expect("a slot that nobody has given back")
    }

    #[inline(always)]
    pub(crate) fn linkage(&self) -> &'a Linkage {
        self.end.linkage(self.number)
    }

    /// The result, once the call is settled; one that never came is `failed`.
    ///
    /// A result that went well is made where the caller of this wants it, and is moved no more: to
    /// read in one piece what was just written in several, the processor waits until all it has
    /// written before is out, the request too, whose line the server may have (decision 0021).
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
        // What has no room in a cell is read where the caller wants it too; else that would only be
        // more code.
        if R::Value::LEAST >= INLINE
            && let Some(source) = self.stacked()
        {
            return good_or_odd::<R>(source, failed);
        }
        let Some(len) = self.inline(landing) else {
            return self.read::<R>().unwrap_or_else(|e| Err(failed(*e)));
        };
        self.finish();
        good_or_odd::<R>(landing.bytes(len), failed)
    }

    /// The bytes of a result that lay in the cell, which most do.
    #[inline(always)]
    fn inline(&self, landing: &Landing) -> Option<usize> {
        let linkage = self.linkage();
        let len = linkage.take_inline(Status::Done as u16, |i, word| landing.put(i, word))?;
        linkage.count.come_in(len as u64);
        Some(len)
    }

    /// The bytes of a result that lie in the A-stack, if the peer says what it may say.
    #[inline(always)]
    fn stacked(&self) -> Option<RegionSource<'a>> {
        let linkage = self.linkage();
        let len = linkage.stacked(Status::Done as u16)?;
        let source = self.end.channel().stack_source(self.number, len).ok()?;
        if source.is_damaged() {
            // Told in `read`.
            return None;
        }
        linkage.clear();
        linkage.count.come_in(len as u64);
        Some(source)
    }

    /// Gives the slot back.
    #[inline(always)]
    fn finish(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.under_way.inspect(|call| call.leaves());
            self.end.give_back(slot);
        }
    }

    /// Reads any other answer.
    #[cold]
    #[inline(never)]
    fn read<R: Results + Decode>(&mut self) -> Read<R> {
        let (end, linkage) = (self.end, self.linkage());
        let Some(reply) = linkage.take() else {
            return Err(end.reason(end.outcome_of(self.number)));
        };
        let mut bytes = self.bytes(&reply)?;
        linkage.count.come_in(bytes.left() as u64);
        if matches!(reply.place, PayloadPlace::OutOfBand | PayloadPlace::OverflowBuffer) {
            end.count_entries(end.mailbox().entries());
            end.watch_annexes();
        }
        if reply.what() != Status::Done as u16 {
            return Err(Box::new(self.refusal(reply.what(), bytes.read().unwrap_or_default())));
        }
        let result = bytes.read::<R>();
        whole(result, bytes.check_end())
    }

    fn bytes<'b>(&self, reply: &'b channel::Cell) -> Result<Bytes<'b>, Box<CallError>>
    where
        'a: 'b,
    {
        Bytes::of(self.end.channel(), self.end.mailbox(), reply).map_err(|e| {
            Box::new(match e {
                Unread::Violation(e) => self.end.violated(&format!("a reply of which {e}")),
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
            Some(Status::Closed) => self.end.turned_away(),
            Some(Status::Dropped) => CallError::Dropped(Outcome::Unknown),
            Some(Status::DroppedUnstarted) => CallError::Dropped(Outcome::NotStarted),
            Some(Status::Done) | None => self.end.violated("a reply of no known status"),
        }
    }
}

impl Drop for Answer<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            give_back_late(self.end, slot, self.under_way);
        }
    }
}

/// Apart, so that what drops an answer without a slot is small enough to go into those who do.
#[cold]
#[inline(never)]
fn give_back_late(end: &ClientEnd, slot: Slot, under_way: Option<&UnderWay>) {
    under_way.inspect(|call| call.leaves());
    end.give_back(slot);
}

/// Reads a result, of which most went well.
#[inline(always)]
fn good_or_odd<R: Decode + Results<Value: Decode>>(
    mut left: impl Source,
    failed: impl FnOnce(CallError) -> R::Error,
) -> Result<R::Value, R::Error> {
    // What a `Result` begins with.
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

/// A result came, so its procedure has ended, and can't be read.
#[cold]
fn lost_result(e: &DecodeError) -> CallError {
    CallError::unread(Outcome::Executed, e)
}

/// What became of a call whose reply, with this status, has lost its bytes.
#[cold]
fn lost(status: u16) -> Outcome {
    if status == Status::Done as u16 { Outcome::Executed } else { Outcome::Unknown }
}

/// Reads a result that is an error, or is none, and begins with `tag`.
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
