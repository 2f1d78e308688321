//! The end of a lane that posts. The steps A1 to A4 are those of `README.md`.

use crate::attention::{Attention, Doorbell, Fence};
use crate::lane::memory::{LaneEnd, LaneMemory, LaneWord, RecordHead, RecordRing};
use crate::lane::sizes::{HEAD, LaneSizes, WhenFull, record};
use std::any::Any;
use std::ops::DerefMut;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use underpass_seam::atomic::{Ordering, fence};
use underpass_wire::Sink;

/// How far ahead of its position a sender fetches lines, in bytes, and for records of what length
/// at most. Longer ones are written by moves that the processor overlaps by itself.
const AHEAD: u64 = 1024;
const MOST_FETCHED: u64 = 512;

/// Why nothing was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unposted {
    /// There are not enough credits now.
    Full,
    /// The message is longer than the longest of this lane.
    TooLong,
    /// The system has refused a page of the lane's memory.
    Damaged,
    /// The receiver has written what no honest receiver writes. The lane is of no more use.
    Malformed,
}

/// The end of a lane that posts.
///
/// | field | meaning |
/// |---|---|
/// | `posted`, `end` | the number of messages that were posted, and the position of the next record |
/// | `first` | the number of the oldest message that is neither known to be taken nor given up |
/// | `taken` | the last value of `Taken` that was seen |
/// | `free` | the position up to which no untaken record lies, as far as this end knows |
/// | `starts` | where the record of each message from `first` on begins, by its number modulo the length, a power of two |
#[derive(Debug)]
pub struct LaneSender<M> {
    ring: RecordRing<M>,
    sizes: LaneSizes,
    posted: u64,
    end: u64,
    first: u64,
    free: u64,
    taken: u64,
    dropped: u64,
    counted: u64,
    malformed: bool,
    starts: Box<[u64]>,
}

impl<M: LaneMemory> LaneSender<M> {
    /// The sending end of fresh memory.
    pub fn new(memory: Arc<M>, sizes: LaneSizes) -> Self {
        let starts = vec![0; sizes.items().next_power_of_two()].into_boxed_slice();
        let ring = RecordRing::new(memory, &sizes);
        Self {
            ring,
            sizes,
            posted: 0,
            end: 0,
            first: 0,
            free: sizes.bytes() as u64,
            taken: 0,
            dropped: 0,
            counted: 0,
            malformed: false,
            starts,
        }
    }

    /// The sizes of the lane.
    pub fn sizes(&self) -> LaneSizes {
        self.sizes
    }

    /// How many messages were posted.
    pub fn posted(&self) -> u64 {
        self.posted
    }

    /// How many messages were given up to make room for others. The receiver may have taken the
    /// last few of them at that moment, so this is an upper bound of its loss.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How many messages the receiver has not taken yet.
    ///
    /// # Errors
    /// [`Unposted::Malformed`].
    pub fn queued(&mut self) -> Result<u64, Unposted> {
        self.refresh()?;
        Ok(self.posted - self.first)
    }

    /// *Post, A1.* Reserves room for a message of at most `most` bytes. The message is written in
    /// place, and is posted by [`Reservation::commit`].
    ///
    /// # Errors
    /// [`Unposted`], each with its reason.
    #[inline]
    pub fn reserve(&mut self, most: usize) -> Result<Reservation<&mut Self>, Unposted> {
        Reservation::on(self, most)
    }

    /// *Post, A1.*
    #[inline]
    fn provide(&mut self, most: usize) -> Result<(), Unposted> {
        if most > self.sizes.longest() {
            return Err(Unposted::TooLong);
        }
        if self.ring.memory.is_damaged() {
            return Err(Unposted::Damaged);
        }
        if self.malformed {
            return Err(Unposted::Malformed);
        }
        if !self.has_room(most) {
            self.make_room(most)?;
        }
        Ok(())
    }

    /// Posts `bytes`. Returns their number. `stamp_ms` is the sender's clock.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    #[inline]
    pub fn post(&mut self, bytes: &[u8], stamp_ms: u32) -> Result<u64, Unposted> {
        let mut reservation = self.reserve(bytes.len())?;
        reservation.put(bytes);
        Ok(reservation.commit(stamp_ms)?.0)
    }

    /// Where the record of the oldest message begins that is neither known to be taken nor given
    /// up.
    #[inline]
    fn oldest(&self) -> u64 {
        match self.first == self.posted {
            true => self.end,
            false => self.starts[self.place(self.first)],
        }
    }

    /// Where the start of message `number` is noted.
    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & (self.starts.len() - 1)
    }

    #[inline]
    fn has_room(&self, most: usize) -> bool {
        self.posted - self.first < self.sizes.items() as u64 && self.end + record(most) as u64 <= self.free
    }

    /// The oldest message is another one now.
    fn frees(&mut self) {
        self.free = self.oldest() + self.sizes.bytes() as u64;
    }

    #[cold]
    fn make_room(&mut self, most: usize) -> Result<(), Unposted> {
        self.refresh()?;
        if self.has_room(most) {
            return Ok(());
        }
        if self.sizes.when_full() == WhenFull::Refuse {
            return Err(Unposted::Full);
        }
        // A1'. The last posted record always stays (O2): it and the new one have room together.
        while !self.has_room(most) {
            self.first += 1;
            self.dropped += 1;
            self.frees();
        }
        // SYNC with `Oldest` load in `LaneReceiver::catch_up`: `Posted` of the record there.
        self.ring.memory.word(LaneWord::Oldest).store(self.oldest(), Ordering::Release);
        // SYNC with the fence in `LaneReceiver::was_overwritten`: a receiver that reads a byte of
        // the new record sees the new `Oldest`.
        fence(Ordering::Release);
        Ok(())
    }

    /// Learns what the receiver has taken.
    fn refresh(&mut self) -> Result<(), Unposted> {
        // SYNC with `Taken` store in `LaneReceiver::taken`: the receiver's copies are made.
        let taken = self.ring.memory.word(LaneWord::Taken).load(Ordering::Acquire);
        if self.malformed || taken < self.taken || taken > self.posted {
            self.malformed = true;
            return Err(Unposted::Malformed);
        }
        self.taken = taken;
        self.first = self.first.max(taken);
        self.frees();
        Ok(())
    }

    /// Whether a message of `most` bytes could be posted now.
    ///
    /// # Errors
    /// [`Unposted::TooLong`] and [`Unposted::Malformed`].
    pub fn could_post(&mut self, most: usize) -> Result<bool, Unposted> {
        if most > self.sizes.longest() {
            return Err(Unposted::TooLong);
        }
        self.refresh()?;
        Ok(self.sizes.when_full() == WhenFull::DropOldest || self.has_room(most))
    }

    /// Adds `more` to the count `number`. This needs no credits, and takes no room. Wraps at 2⁶⁴.
    ///
    /// # Panics
    /// If there is no such count.
    pub fn count(&mut self, number: usize, more: u64) {
        // Relaxed, since only this end writes, and `Counted` publishes it.
        let count = self.ring.memory.count(number);
        count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        self.counted = self.counted.wrapping_add(1);
        // SYNC with `Counted` load in `LaneReceiver::take_counts`: the count.
        self.ring.memory.word(LaneWord::Counted).store(self.counted, Ordering::Release);
    }

    /// *Post, A4.* Call it after each post and each count. Returns how the receiver must be
    /// notified, and obliges the caller to do that.
    #[inline]
    pub fn after_post(&self, with: Fence) -> Doorbell {
        Attention::new(self.ring.memory.attention(LaneEnd::Receiver)).after_post(with)
    }

    /// This end's clock when it posted the oldest message that the receiver has not taken: a hint,
    /// since the receiver could write there.
    ///
    /// # Errors
    /// [`Unposted::Malformed`].
    pub fn oldest_stamp_ms(&mut self) -> Result<Option<u32>, Unposted> {
        self.refresh()?;
        Ok((self.first != self.posted).then(|| self.ring.head(self.oldest()).stamp_ms))
    }

    /// Whether the receiver waits for a message: a hint.
    pub fn receiver_waits(&self) -> bool {
        Attention::new(self.ring.memory.attention(LaneEnd::Receiver)).is_unpolled()
    }

    /// *Wait, W1.* The barrier and [`could_post`](Self::could_post) must follow.
    pub fn announce_wait(&self) {
        Attention::new(self.ring.memory.attention(LaneEnd::Sender)).set_unpolled();
    }

    /// Withdraws [`announce_wait`](Self::announce_wait). The receiver may have rung already.
    pub fn end_wait(&self) {
        Attention::new(self.ring.memory.attention(LaneEnd::Sender)).look();
    }

    /// Tells the receiver that no message will follow.
    pub fn finish(&self) {
        self.ring.memory.finish(1);
    }

    /// What the receiver has said of its end: bits, 0 at first.
    pub fn closed(&self) -> u64 {
        // SYNC with `Closed` fetch_or in `LaneMemory::close`: what it did before.
        self.ring.memory.word(LaneWord::Closed).load(Ordering::Acquire)
    }

    /// The messages that the receiver has not received, oldest first, with their numbers. Call it
    /// when the receiver is gone. A message with a lower number may have been received, unless it
    /// was given up.
    ///
    /// A hostile receiver may have changed the bytes. A message whose length it has changed is left
    /// out, and counts as one that may have been received.
    pub fn unreceived(&mut self) -> Vec<(u64, Vec<u8>)> {
        if self.refresh().is_err() {
            return Vec::new();
        }
        let untaken = self.first..self.posted;
        untaken.filter_map(|number| Some((number, self.posted_bytes(number)?))).collect()
    }

    /// The bytes of message `number`, which the receiver has not taken.
    fn posted_bytes(&self, number: u64) -> Option<Vec<u8>> {
        let start = |number: u64| match number == self.posted {
            true => self.end,
            false => self.starts[self.place(number)],
        };
        let (begin, end) = (start(number), start(number + 1));
        let len = self.ring.head(begin).len as usize;
        if record(len.min(self.sizes.longest())) as u64 != end - begin {
            return None;
        }
        let mut bytes = vec![0; len.min(self.sizes.longest())];
        self.ring.get(begin + HEAD as u64, &mut bytes);
        Some(bytes)
    }

    /// *Post, A2 and A3.* The record at the end of the ring has `len` bytes.
    #[inline]
    fn publish(&mut self, len: usize, stamp_ms: u32) -> u64 {
        let number = self.posted;
        self.ring.put_head(self.end, RecordHead { len: len as u32, stamp_ms, number });
        let (begun, place) = (self.end, self.place(number));
        self.starts[place] = begun;
        self.end += record(len) as u64;
        self.posted += 1;
        // SYNC with `Posted` load in `LaneReceiver`: the record.
        self.ring.memory.word(LaneWord::Posted).store(self.posted, Ordering::Release);
        self.fetch_ahead(self.end - begun);
        number
    }

    /// The receiver's cache holds the lines that are written next. To fetch one takes longer than
    /// to write a small message, so they are fetched while others are written.
    #[inline]
    fn fetch_ahead(&self, len: u64) {
        // No line of an untaken record: the receiver is about to read there.
        if len <= MOST_FETCHED && self.end + AHEAD + len <= self.free {
            self.ring.fetch_for_writing(self.end + AHEAD, len);
        }
    }
}

/// Room for one message, which is written in place. If it is dropped, nothing is posted. `L` leads
/// to the lane: a reference, or the guard of a lock.
#[derive(Debug)]
#[must_use = "nothing is posted before `commit`"]
pub struct Reservation<L> {
    lane: L,
    len: usize,
    most: usize,
    overflowed: bool,
}

impl<M: LaneMemory, L: DerefMut<Target = LaneSender<M>>> Reservation<L> {
    /// Reserves room for a message of at most `most` bytes on `lane`.
    ///
    /// # Errors
    /// As [`LaneSender::reserve`].
    #[inline]
    pub fn on(mut lane: L, most: usize) -> Result<Self, Unposted> {
        lane.provide(most)?;
        Ok(Self { lane, len: 0, most, overflowed: false })
    }

    /// How many more bytes there is room for.
    pub fn left(&self) -> usize {
        self.most - self.len
    }

    /// Posts the bytes that were put. Returns the message's number, and the lane.
    ///
    /// # Errors
    /// [`Unposted::TooLong`] if more bytes were put than were reserved, or a file.
    /// [`Unposted::Damaged`].
    #[inline]
    pub fn commit(mut self, stamp_ms: u32) -> Result<(u64, L), Unposted> {
        if self.overflowed {
            return Err(Unposted::TooLong);
        }
        if self.lane.ring.memory.is_damaged() {
            return Err(Unposted::Damaged);
        }
        let number = self.lane.publish(self.len, stamp_ms);
        Ok((number, self.lane))
    }
}

impl<M: LaneMemory, L: DerefMut<Target = LaneSender<M>>> Sink for Reservation<L> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if bytes.len() > self.left() {
            self.overflowed = true;
            return;
        }
        let at = self.lane.end + (HEAD + self.len) as u64;
        self.lane.ring.put(at, bytes);
        self.len += bytes.len();
    }

    fn put_file(&mut self, _: BorrowedFd<'_>) {
        self.overflowed = true;
    }

    fn put_interface(&mut self, _: &dyn Any) {
        self.overflowed = true;
    }
}
