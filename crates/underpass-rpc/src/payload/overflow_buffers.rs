//! The overflow buffers of one end: memory for values that are too large for an A-stack, at most
//! one for each slot. The client makes them, the server maps them, and both keep them.
//!
//! The client numbers the buffers of a slot as it makes them. When a server has mapped one, it
//! writes its number into the slot's word, before it replies to the call that brought the buffer.
//! So between two calls over a slot both sides know which buffer it has. Only large arguments and
//! results come here.
//!
//! A client that drops a buffer between two calls clears the word. The server sees that before it
//! uses the buffer again, or when it counts. Neither side frees pages in place: the peer could hold
//! the file's lock for ever (decision 0056).

use crate::binding::budget::BudgetShare;
use crate::payload::file_thread;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use underpass_channel::layout::{OVERFLOW_SIZES, OVERFLOW_TOTAL, SLOTS};
use underpass_channel::{Channel, OverflowBuffer};
use underpass_threads::critical;
use underpass_wire::DecodeError;

/// The number that stands for "no buffer".
const NONE: u16 = 0;

/// A mapped overflow buffer, and its bytes of the budget.
#[derive(Debug)]
pub(crate) struct MappedOverflow {
    /// `Some` until it is dropped.
    held: Option<(OverflowBuffer, BudgetShare)>,
    /// The peer's user.
    user: u32,
    /// At the server: the buffer goes when its call has been read, because there is no room for it
    /// any more, or another has replaced it.
    last_time: AtomicBool,
}

impl MappedOverflow {
    fn new(overflow: OverflowBuffer, room: BudgetShare, user: u32) -> Self {
        Self { held: Some((overflow, room)), user, last_time: AtomicBool::new(false) }
    }

    fn held(&self) -> &(OverflowBuffer, BudgetShare) {
        self.held.as_ref().expect("it is there until it is dropped")
    }

    fn overflow(&self) -> &OverflowBuffer {
        &self.held().0
    }

    fn room(&self) -> &BudgetShare {
        &self.held().1
    }

    /// At the server: the buffer is not needed once it has been read here.
    fn goes_when_read(&self) {
        // Relaxed: read by the thread that drops the last share.
        self.last_time.store(true, Ordering::Relaxed);
    }

    /// At the server: counts the pages that are there, between two calls.
    fn count(&self) {
        let resident = self.overflow().resident().unwrap_or(self.overflow().room());
        let counted = resident.max(*OVERFLOW_SIZES.start());
        self.room().set(counted as u64);
    }

    /// At the server: counts the whole buffer, for a call that may touch all of it. Returns `false`
    /// if there is no room.
    fn count_all(&self) -> bool {
        self.room().set(self.overflow().room() as u64)
    }
}

impl Drop for MappedOverflow {
    fn drop(&mut self) {
        // Relaxed: the thread that drops the last share has synchronized, through the reference
        // count, with the thread that set it.
        if self.last_time.load(Ordering::Relaxed)
            && let Some((overflow, room)) = self.held.take()
        {
            // The reading may have made pages resident. They would count for this domain for as
            // long as the client likes, so they are freed. The client can hold the lock that this
            // takes, so another thread does it. The buffer counts until it is done.
            file_thread::run(self.user, move || {
                overflow.give_back();
                drop(room);
            });
        }
    }
}

impl AsRef<OverflowBuffer> for MappedOverflow {
    fn as_ref(&self) -> &OverflowBuffer {
        self.overflow()
    }
}

/// A buffer with its number.
#[derive(Clone, Debug)]
pub(crate) struct Numbered {
    pub(crate) mapped: Arc<MappedOverflow>,
    pub(crate) number: u16,
}

/// What an end knows of the buffers of one slot.
#[derive(Debug, Default)]
struct Place {
    /// The one that both sides have.
    common: Option<Numbered>,
    /// At the client: one that it has made, while it doesn't know whether the server has it.
    offered: Option<Numbered>,
    /// `offered` went out with arguments. If the server didn't map it then, it never will.
    with_arguments: bool,
    /// The server has no room for it.
    refused: bool,
    /// The number of the last one made.
    last: u16,
    /// A buffer was used since the last sweep.
    used: bool,
    filled: bool,
}

impl Place {
    /// Takes note of the number that the server has written.
    fn learn(&mut self, number: u16) {
        if self.offered.as_ref().is_some_and(|offered| offered.number == number) {
            self.common = self.offered.take();
        }
    }

    /// At the server: releases the buffer if the slot's word says that the client has dropped it.
    fn is_dropped(&mut self, channel: &Channel, slot: u16) {
        if self.common.as_ref().is_some_and(|common| common.number != channel.mapped_overflow(slot)) {
            self.common = None;
        }
    }

    /// At the client: releases the buffers that the server has, or has refused. A buffer that was
    /// offered for results stays, as the server may still use it.
    fn drop_unused(&mut self, channel: &Channel, slot: u16) {
        self.learn(channel.mapped_overflow(slot));
        if self.common.take().is_some() {
            channel.set_mapped_overflow(slot, NONE);
        }
        if self.with_arguments {
            self.offered = None;
        }
        self.filled = false;
    }

    fn common(&self, number: u16) -> Option<&Numbered> {
        self.common.as_ref().filter(|common| common.number == number)
    }

    fn use_now(&mut self, overflow: &Numbered) -> Numbered {
        (self.used, self.filled) = (true, true);
        overflow.clone()
    }
}

/// The overflow buffers of one end.
pub(crate) struct OverflowBuffers {
    /// This is the server's end.
    maps: bool,
    /// The bytes that all buffers of this budget take, at most `most`. At the server the budget is
    /// that of the client's user, at the client that of this channel.
    budget: Arc<AtomicU64>,
    most: u64,
    /// The client's user, at the server.
    user: u32,
    places: OnceLock<Box<[Mutex<Place>]>>,
    /// A timer is set for the next sweep or count.
    watched: AtomicBool,
}

impl Default for OverflowBuffers {
    /// Those of a client.
    fn default() -> Self {
        Self {
            maps: false,
            budget: Arc::default(),
            most: OVERFLOW_TOTAL as u64,
            user: u32::MAX,
            places: OnceLock::new(),
            watched: AtomicBool::new(false),
        }
    }
}

impl OverflowBuffers {
    /// The buffers of a server for a client of `user`. This user may have `most` bytes of them.
    pub(crate) fn of_server(user: u32, budget: Arc<AtomicU64>, most: u64) -> Self {
        Self { maps: true, budget, most, user, ..Self::default() }
    }

    /// Whether this is the server's end.
    pub(crate) fn maps(&self) -> bool {
        self.maps
    }

    fn places(&self) -> &[Mutex<Place>] {
        self.places.get_or_init(|| (0..SLOTS).map(|_| Mutex::default()).collect())
    }

    /// Runs `act` with what is known of `slot`. The thread keeps its processor meanwhile, since the
    /// clerk may wait for this lock.
    fn at<R>(&self, slot: u16, act: impl FnOnce(&mut Place) -> R) -> R {
        let _held = critical();
        act(&mut lock(&self.places()[usize::from(slot)]))
    }

    /// The buffer of `slot` that holds the bytes of a message that has come.
    pub(crate) fn named(&self, channel: &Channel, slot: u16) -> Option<Arc<MappedOverflow>> {
        self.at(slot, |place| {
            let common = if self.maps {
                self.for_call(place, channel, slot)
            } else {
                let number = channel.mapped_overflow(slot);
                place.learn(number);
                place.common(number).cloned()
            };
            common.map(|common| place.use_now(&common).mapped)
        })
    }

    /// At the server: the buffer of a slot over which a call has come. If there is no room any more
    /// for all of it, this is its last use, and the client is told.
    fn for_call(&self, place: &mut Place, channel: &Channel, slot: u16) -> Option<Numbered> {
        place.is_dropped(channel, slot);
        let common = place.common.clone()?;
        if !common.mapped.count_all() {
            common.mapped.goes_when_read();
            place.common = None;
            channel.set_mapped_overflow(slot, NONE);
        }
        Some(common)
    }

    /// At the client: a buffer of `slot` for arguments of `size` bytes. Its file comes along if the
    /// server doesn't have it. Nothing if the arguments are to go in a file of their own.
    pub(crate) fn for_arguments(
        &self,
        channel: &Channel,
        slot: u16,
        size: usize,
    ) -> Option<(Numbered, Option<OwnedFd>)> {
        let number = channel.mapped_overflow(slot);
        self.at(slot, |place| {
            place.learn(number);
            if let Some(common) =
                place.common(number).filter(|common| common.mapped.overflow().room() >= size).cloned()
            {
                return Some((place.use_now(&common), None));
            }
            if place.with_arguments && place.offered.take().is_some() {
                place.refused = true;
            }
            if place.refused {
                return None;
            }
            let (made, file) = self.make(place, size)?;
            place.with_arguments = true;
            Some((place.use_now(&made), Some(file)))
        })
    }

    /// At the client: a buffer of `slot` for results of `size` bytes, with its file to pass. Called
    /// when such results have come in a file of their own. Nothing if there is a suitable one
    /// already.
    pub(crate) fn for_results(
        &self,
        channel: &Channel,
        slot: u16,
        size: usize,
    ) -> Option<(Numbered, OwnedFd)> {
        let number = channel.mapped_overflow(slot);
        self.at(slot, |place| {
            place.learn(number);
            // One at a time: the server may use the offered one whenever it has results for it.
            if place.offered.is_some()
                || place.common(number).is_some_and(|overflow| overflow.mapped.overflow().room() >= size)
            {
                return None;
            }
            let made = self.make(place, size)?;
            place.with_arguments = false;
            Some(made)
        })
    }

    /// Makes a buffer and offers it, in place of what was offered before.
    fn make(&self, place: &mut Place, size: usize) -> Option<(Numbered, OwnedFd)> {
        place.offered = None;
        // If there is no memory or file for it, the value goes another way, and an error there
        // reaches the caller.
        let (overflow, file) = OverflowBuffer::create(size).ok()??;
        let room = BudgetShare::take(&self.budget, overflow.room() as u64, self.most)?;
        place.last = place.last.checked_add(1).unwrap_or(1);
        let made =
            Numbered { mapped: Arc::new(MappedOverflow::new(overflow, room, self.user)), number: place.last };
        place.offered = Some(made.clone());
        Some((made, file))
    }

    /// At the server: maps the buffer in `file`, which came with a call over `slot`. Nothing if the
    /// user may have no more.
    ///
    /// # Errors
    /// No honest client makes such a file.
    pub(crate) fn map(
        &self,
        channel: &Channel,
        slot: u16,
        number: u16,
        file: &OwnedFd,
    ) -> Result<Option<Arc<MappedOverflow>>, DecodeError> {
        let room = OverflowBuffer::room_in(file.as_fd()).map_err(|_| DecodeError::Truncated)?;
        let Some(taken) = BudgetShare::take(&self.budget, room as u64, self.most) else { return Ok(None) };
        let overflow = match OverflowBuffer::adopt(file.as_fd(), room) {
            Ok(overflow) => overflow,
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => return Err(DecodeError::Truncated),
            // There is no memory to map it. The bytes can still be read from the file.
            Err(_) => return Ok(None),
        };
        let mapped = Arc::new(MappedOverflow::new(overflow, taken, self.user));
        let before = self.at(slot, |place| {
            (place.used, place.filled) = (true, true);
            place.common.replace(Numbered { mapped: mapped.clone(), number })
        });
        // The client has read all results in the earlier buffer, as this call came after them. The
        // earlier one is released: else a client could have any number of files filled by being
        // read here, and keep them.
        if let Some(before) = before {
            before.mapped.goes_when_read();
        }
        channel.set_mapped_overflow(slot, number);
        Ok(Some(mapped))
    }

    /// At the server: a buffer of `slot` for results of `size` bytes. It is the one that the server
    /// has, or one that was `offered`.
    pub(crate) fn for_reply(
        &self,
        channel: &Channel,
        slot: u16,
        size: usize,
        offered: impl FnOnce() -> Option<(u16, OwnedFd)>,
    ) -> Option<Numbered> {
        let common = self.at(slot, |place| {
            place.is_dropped(channel, slot);
            let common = place.common.clone().filter(|common| common.mapped.overflow().room() >= size)?;
            common.mapped.count_all().then(|| place.use_now(&common))
        });
        if common.is_some() {
            return common;
        }
        let (number, file) = offered()?;
        // A file that no honest client makes is treated as none.
        let mapped = self.map(channel, slot, number, &file).ok()??;
        (mapped.overflow().room() >= size).then_some(Numbered { mapped, number })
    }

    /// Returns `true` if no timer was set: then the caller sets one.
    pub(crate) fn begin_watch(&self) -> bool {
        // Relaxed: the caller itself sets the timer, or the clerk does.
        !self.watched.swap(true, Ordering::Relaxed)
    }

    /// At the client: drops the buffers of free slots that were not used since the last
    /// sweep. Returns whether others are left.
    pub(crate) fn sweep(&self, channel: &Channel, is_free: impl Fn(u16) -> bool) -> bool {
        self.watched.store(false, Ordering::Relaxed);
        let mut more = false;
        for slot in 0..SLOTS as u16 {
            more |= self.at(slot, |place| {
                place.refused = false;
                // A call that begins over the slot from now on waits for this lock before it looks
                // for a buffer.
                if place.filled && !std::mem::take(&mut place.used) && is_free(slot) {
                    place.drop_unused(channel, slot);
                }
                place.filled
            });
        }
        more
    }

    /// At the server: looks at the buffers of free slots that no call has used since the last
    /// count. Releases those that the client has dropped. Of the others only the resident
    /// pages are counted for the user from now on, instead of the whole buffer. Returns whether any
    /// buffers are left.
    pub(crate) fn count(&self, channel: &Channel, is_free: impl Fn(u16) -> bool) -> bool {
        self.watched.store(false, Ordering::Relaxed);
        let mut more = false;
        for slot in 0..SLOTS as u16 {
            more |= self.at(slot, |place| {
                // A call that begins from now on waits for this lock, and counts the whole buffer.
                if place.common.is_some() && !std::mem::take(&mut place.used) && is_free(slot) {
                    place.is_dropped(channel, slot);
                    place.common.iter().for_each(|common| common.mapped.count());
                }
                place.common.is_some()
            });
        }
        more
    }

    /// Releases the buffers of `slot`.
    pub(crate) fn forget(&self, slot: u16) {
        if self.places.get().is_some() {
            drop(self.at(slot, std::mem::take));
        }
    }

    /// Releases all buffers. Those in use live until they are not.
    pub(crate) fn forget_all(&self) {
        (0..SLOTS as u16).for_each(|slot| self.forget(slot));
    }
}

fn lock(place: &Mutex<Place>) -> MutexGuard<'_, Place> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for OverflowBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverflowBuffers").field("bytes", &self.budget).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn an_overflow_buffer_counts_until_its_pages_were_given_back() {
        const USER: u32 = 4_000_000_001;
        // The user's closer hangs, as if over a lock that a peer holds.
        let (free, locked) = channel::<()>();
        file_thread::run(USER, move || _ = locked.recv());
        let (overflow, _file) = OverflowBuffer::create(1).unwrap().unwrap();
        let (budget, bytes) = (Arc::default(), overflow.room() as u64);
        let mapped = MappedOverflow::new(overflow, BudgetShare::take(&budget, bytes, bytes).unwrap(), USER);
        mapped.goes_when_read();
        drop(mapped);
        assert!(BudgetShare::take(&budget, bytes, bytes).is_none(), "its mapping is there still");
        drop(free);
        while BudgetShare::take(&budget, bytes, bytes).is_none() {
            std::thread::yield_now();
        }
    }
}
