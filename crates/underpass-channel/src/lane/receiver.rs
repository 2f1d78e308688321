//! The end of a lane that takes. The steps B1 to B4 are those of `README.md`.

use crate::attention::{Attention, Doorbell, Fence};
use crate::copy_counts;
use crate::lane::memory::{COUNTS, LaneEnd, LaneMemory, LaneWord, RecordHead, RecordRing};
use crate::lane::sizes::{HEAD, LaneSizes, WhenFull, record};
use crate::ring::Malformed;
use std::sync::Arc;
use underpass_seam::atomic::{Ordering, fence};

/// How often a receiver tries to copy a message that its sender overwrites meanwhile.
const TRIES: u32 = 16;

/// How many records ahead of its position a receiver fetches lines, and for records of what length
/// at most.
const FETCHED_AHEAD: u64 = 4;
const MOST_FETCHED: u64 = 512;

/// What a receiver learns of a message beside its bytes. All of it comes from the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneHead {
    /// The number of the message on its lane, counted from 0.
    pub number: u64,
    /// How many messages between the previous one and this one were overwritten.
    pub lost: u64,
    /// The sender's clock when it posted, in ms modulo 2³².
    pub stamp_ms: u32,
}

/// The end of a lane that takes.
///
/// | field | meaning |
/// |---|---|
/// | `taken`, `at` | the number of the next message, and where its record begins |
/// | `posted` | the last value of `Posted` that was seen |
#[derive(Debug)]
pub struct LaneReceiver<M> {
    ring: RecordRing<M>,
    sizes: LaneSizes,
    taken: u64,
    at: u64,
    posted: u64,
    lost: u64,
    /// The last value of `Counted` that was seen, and the counts by then.
    counted: u64,
    counts: Box<[u64]>,
    malformed: bool,
}

impl<M: LaneMemory> LaneReceiver<M> {
    /// The receiving end of fresh memory.
    pub fn new(memory: Arc<M>, sizes: LaneSizes) -> Self {
        let ring = RecordRing::new(memory, &sizes);
        Self {
            ring,
            sizes,
            taken: 0,
            at: 0,
            posted: 0,
            lost: 0,
            counted: 0,
            counts: Box::default(),
            malformed: false,
        }
    }

    /// The sizes of the lane.
    pub fn sizes(&self) -> LaneSizes {
        self.sizes
    }

    /// The number of the next message, which counts those that were lost.
    pub fn position(&self) -> u64 {
        self.taken
    }

    /// How many messages were overwritten before they were taken.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How many messages wait, as the sender says, and at most as many as there are credits.
    pub fn queued(&self) -> u64 {
        // Relaxed: only a number.
        let posted = self.ring.memory.word(LaneWord::Posted).load(Ordering::Relaxed);
        posted.saturating_sub(self.taken).min(self.sizes.items() as u64)
    }

    /// How many messages the sender has posted, as it says.
    pub fn posted(&self) -> u64 {
        // SYNC with `Posted` store in `LaneSender::publish`: the records.
        self.ring.memory.word(LaneWord::Posted).load(Ordering::Acquire)
    }

    /// Writes a word, as a domain that follows no rule does. For tests of what the other end makes
    /// of it.
    #[doc(hidden)]
    pub fn spoil(&self, word: LaneWord, value: u64) {
        self.ring.memory.word(word).store(value, Ordering::Relaxed);
    }

    /// Whether a message seems to wait. A caller that relies on "no" has passed the barrier of a
    /// wait.
    #[inline]
    pub fn is_ready(&self) -> bool {
        // Relaxed: the barrier orders it, and `take` acquires.
        self.ring.memory.word(LaneWord::Posted).load(Ordering::Relaxed) != self.taken || self.has_counts()
    }

    /// Whether counts seem to have changed since they were last taken.
    #[inline]
    pub fn has_counts(&self) -> bool {
        // Relaxed: as in `is_ready`.
        self.ring.memory.word(LaneWord::Counted).load(Ordering::Relaxed) != self.counted
    }

    /// The counts that have changed, each by how much. Each change is reported once.
    pub fn take_counts(&mut self) -> Vec<(usize, u64)> {
        // SYNC with `Counted` store in `LaneSender::count`: the counts.
        let counted = self.ring.memory.word(LaneWord::Counted).load(Ordering::Acquire);
        if counted == self.counted {
            return Vec::new();
        }
        self.counted = counted;
        if self.counts.is_empty() {
            self.counts = vec![0; COUNTS].into();
        }
        let counts = self.counts.iter_mut().enumerate();
        let changed = counts.filter_map(|(number, last)| {
            // A later count may be seen already. It is not reported twice, since it is remembered.
            let now = self.ring.memory.count(number).load(Ordering::Relaxed);
            let more = now.wrapping_sub(std::mem::replace(last, now));
            (more != 0).then_some((number, more))
        });
        changed.collect()
    }

    /// The sender's clock when it posted the next message, if one waits: a hint.
    pub fn oldest_stamp_ms(&self) -> Option<u32> {
        // SYNC with `Posted` store in `LaneSender::publish`: the head.
        let posted = self.ring.memory.word(LaneWord::Posted).load(Ordering::Acquire);
        (posted != self.taken).then(|| self.ring.head(self.at).stamp_ms)
    }

    /// *Take, B1 to B3.* Copies the next message into `out`, and drops the bytes in there. `None`
    /// if there is none, or if the sender overwrites faster than this end copies.
    ///
    /// # Errors
    /// [`Malformed`] if the sender has written what no honest sender writes, or the system has
    /// refused a page. The lane is of no more use.
    #[inline]
    pub fn take(&mut self, out: &mut Vec<u8>) -> Result<Option<LaneHead>, Malformed> {
        let came = match self.sizes.when_full() {
            _ if self.malformed => Err(Malformed),
            WhenFull::Refuse => self.copy_next(out),
            WhenFull::DropOldest => self.catch_up(out),
        };
        let came = came.and_then(|head| match self.ring.memory.is_damaged() {
            true => Err(Malformed),
            false => Ok(head),
        });
        match came {
            Ok(Some(head)) => Ok(Some(self.taken(head))),
            Ok(None) => Ok(None),
            Err(malformed) => {
                self.malformed = true;
                Err(malformed)
            }
        }
    }

    /// *B1 and B2*, with credits.
    #[inline]
    fn copy_next(&mut self, out: &mut Vec<u8>) -> Result<Option<RecordHead>, Malformed> {
        if self.taken == self.posted {
            // SYNC with `Posted` store in `LaneSender::publish`: the records.
            let posted = self.ring.memory.word(LaneWord::Posted).load(Ordering::Acquire);
            match posted.checked_sub(self.taken) {
                Some(0) => return Ok(None),
                Some(untaken) if untaken <= self.sizes.items() as u64 => self.posted = posted,
                _ => return Err(Malformed),
            }
        }
        let head = self.ring.head(self.at);
        if head.number != self.taken || head.len as usize > self.sizes.longest() {
            return Err(Malformed);
        }
        if self.posted - self.taken > FETCHED_AHEAD {
            // Rows of a stream have about the same length. So the record that comes after a few
            // others is probably there. To find it by the heads would wait for one line after the
            // other.
            let len = record(head.len as usize) as u64;
            if len <= MOST_FETCHED {
                self.ring.fetch_for_reading(self.at.wrapping_add(FETCHED_AHEAD * len), len);
            }
        }
        self.copy(head, out);
        Ok(Some(head))
    }

    /// *B1' and B2'*, in overwriting mode.
    fn catch_up(&mut self, out: &mut Vec<u8>) -> Result<Option<RecordHead>, Malformed> {
        for _ in 0..TRIES {
            // SYNC with `Oldest` store in `LaneSender::make_room`: `Posted` of the record there.
            let oldest = self.ring.memory.word(LaneWord::Oldest).load(Ordering::Acquire);
            // SYNC with `Posted` store in `LaneSender::publish`: the records.
            let posted = self.ring.memory.word(LaneWord::Posted).load(Ordering::Acquire);
            if posted < self.posted || !oldest.is_multiple_of(HEAD as u64) {
                return Err(Malformed);
            }
            self.posted = posted;
            if posted == self.taken {
                return Ok(None);
            }
            self.at = self.at.max(oldest);
            let head = self.ring.head(self.at);
            if self.was_overwritten() {
                continue;
            }
            let known = self.taken..posted;
            if !known.contains(&head.number) || head.len as usize > self.sizes.longest() {
                return Err(Malformed);
            }
            self.copy(head, out);
            if !self.was_overwritten() {
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    /// Whether the sender may have written over what was read at this end's position.
    fn was_overwritten(&self) -> bool {
        // SYNC with the fence in `LaneSender::make_room`: if a byte of a later record was read, the
        // new `Oldest` is seen.
        fence(Ordering::Acquire);
        self.ring.memory.word(LaneWord::Oldest).load(Ordering::Relaxed) > self.at
    }

    #[inline]
    fn copy(&self, head: RecordHead, out: &mut Vec<u8>) {
        out.clear();
        copy_counts::out_of_region(head.len as usize);
        self.ring.append(self.at.wrapping_add(HEAD as u64), head.len as usize, out);
    }

    /// *B3.* The message of `head` was copied.
    #[inline]
    fn taken(&mut self, head: RecordHead) -> LaneHead {
        let lost = head.number - self.taken;
        self.lost += lost;
        self.taken = head.number + 1;
        self.at = self.at.wrapping_add(record(head.len as usize) as u64);
        // SYNC with `Taken` load in `LaneSender::refresh`: the copy is made.
        self.ring.memory.word(LaneWord::Taken).store(self.taken, Ordering::Release);
        LaneHead { number: head.number, lost, stamp_ms: head.stamp_ms }
    }

    /// *Take, B4.* Call it after one or more messages were taken. Returns how the sender must be
    /// notified, and obliges the caller to do that.
    #[inline]
    pub fn after_take(&self, with: Fence) -> Doorbell {
        Attention::new(self.ring.memory.attention(LaneEnd::Sender)).after_post(with)
    }

    /// *Wait, W1.* The barrier and [`is_ready`](Self::is_ready) must follow.
    pub fn announce_wait(&self) {
        Attention::new(self.ring.memory.attention(LaneEnd::Receiver)).set_unpolled();
    }

    /// Withdraws [`announce_wait`](Self::announce_wait). The sender may have rung already.
    pub fn end_wait(&self) {
        Attention::new(self.ring.memory.attention(LaneEnd::Receiver)).look();
    }

    /// Whether the sender has said that it will post no more. All of its messages are there then.
    pub fn is_finished(&self) -> bool {
        self.finished() != 0
    }

    /// Why the sender will post no more, as it says. 0 as long as it may.
    pub fn finished(&self) -> u64 {
        // SYNC with `Finished` store in `LaneMemory::finish`: all posts.
        self.ring.memory.word(LaneWord::Finished).load(Ordering::Acquire)
    }
}
