//! The memory of a lane: a mapped file in production, and a heap allocation under loom, in tests
//! and in fuzz targets.

use crate::lane::sizes::{HEAD, LaneSizes};
use underpass_seam::atomic::{AtomicU32, AtomicU64, Ordering};

/// A word by which the ends of a lane tell each other how far they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneWord {
    /// How many messages the sender has posted.
    Posted,
    /// The position before which the sender may overwrite.
    Oldest,
    /// Not 0 once the sender will post no more.
    Finished,
    /// The number of the next message that the receiver will take.
    Taken,
    /// Changes whenever the sender has changed one of its counts.
    Counted,
    /// What the receiver says of its end: bits that the lane's user chooses.
    Closed,
}

/// One end of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneEnd {
    /// The end that posts.
    Sender,
    /// The end that takes.
    Receiver,
}

impl LaneWord {
    /// Offset of the word in bytes. The receiver's word has a pair of cache lines of its own.
    pub(crate) const fn offset(self) -> usize {
        match self {
            Self::Posted => 0,
            Self::Oldest => 8,
            Self::Finished => 16,
            Self::Counted => 24,
            Self::Taken => 128,
            Self::Closed => 136,
        }
    }
}

impl LaneEnd {
    /// Offset of the attention word in bytes: a pair of cache lines for each.
    pub(crate) const fn offset(self) -> usize {
        match self {
            Self::Sender => 256,
            Self::Receiver => 384,
        }
    }
}

/// Bytes of a cache line. A ring begins at the beginning of one.
const LINE: u64 = 64;

/// How many counts a lane has.
pub const COUNTS: usize = 64;

/// Offset of the first count in bytes.
pub(crate) const FIRST_COUNT: usize = 512;

/// The memory of a lane. The other end may write any byte of it at any moment.
pub trait LaneMemory {
    /// A word.
    fn word(&self, word: LaneWord) -> &AtomicU64;

    /// The attention word of `end`.
    fn attention(&self, end: LaneEnd) -> &AtomicU32;

    /// The count `number`, which only the sender changes.
    ///
    /// # Panics
    /// If there are not that many.
    fn count(&self, number: usize) -> &AtomicU64;

    /// Writes into the ring, beginning at byte `at`. Only the sender does.
    ///
    /// # Panics
    /// If the ring ends before the bytes do.
    fn put(&self, at: usize, bytes: &[u8]);

    /// Reads from the ring, beginning at byte `at`.
    ///
    /// # Panics
    /// If the ring ends before the bytes do.
    fn get(&self, at: usize, out: &mut [u8]);

    /// As [`get`](Self::get), for `len` bytes that are appended to `out`.
    ///
    /// # Panics
    /// If the ring ends before the bytes do.
    fn append(&self, at: usize, len: usize, out: &mut Vec<u8>) {
        let old = out.len();
        out.resize(old + len, 0);
        self.get(at, &mut out[old..]);
    }

    /// Has this processor fetch the line of byte `at` of the ring, which the sender is about to
    /// write: a hint.
    fn fetch_for_writing(&self, _at: usize) {}

    /// The same, for the receiver, which is about to read.
    fn fetch_for_reading(&self, _at: usize) {}

    /// The sender tells that it will post no more, and why. `why` is not 0. Its meaning is up to
    /// the lane's user.
    fn finish(&self, why: u64) {
        // SYNC with `Finished` load in `LaneReceiver::finished`: all posts.
        self.word(LaneWord::Finished).store(why, Ordering::Release);
    }

    /// The receiver adds `bits` to what it says of its end.
    fn close(&self, bits: u64) {
        // SYNC with `Closed` load in `LaneSender::closed`: what the receiver did before.
        self.word(LaneWord::Closed).fetch_or(bits, Ordering::Release);
    }

    /// Whether the system has refused a page of the memory. What was put there did not reach the
    /// other end.
    fn is_damaged(&self) -> bool {
        false
    }
}

/// The memory of a lane on the heap.
#[derive(Debug)]
pub struct HeapLane {
    words: [AtomicU64; 6],
    counts: Box<[AtomicU64]>,
    attention: [AtomicU32; 2],
    ring: Box<[AtomicU64]>,
}

impl HeapLane {
    /// Zeros.
    pub fn new(sizes: LaneSizes) -> Self {
        Self {
            words: [(); 6].map(|()| AtomicU64::new(0)),
            counts: (0..COUNTS).map(|_| AtomicU64::new(0)).collect(),
            attention: [(); 2].map(|()| AtomicU32::new(0)),
            ring: (0..sizes.bytes() / 8).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl LaneMemory for HeapLane {
    fn word(&self, word: LaneWord) -> &AtomicU64 {
        &self.words[word as usize]
    }

    fn attention(&self, end: LaneEnd) -> &AtomicU32 {
        &self.attention[end as usize]
    }

    fn count(&self, number: usize) -> &AtomicU64 {
        &self.counts[number]
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let (word, offset) = (&self.ring[(at + done) / 8], (at + done) % 8);
            let n = (8 - offset).min(bytes.len() - done);
            // Relaxed, as opaque copies are. Only the sender writes, so nothing is lost between the
            // load and the store.
            let mut value = if n == 8 { [0; 8] } else { word.load(Ordering::Relaxed).to_le_bytes() };
            value[offset..offset + n].copy_from_slice(&bytes[done..done + n]);
            word.store(u64::from_le_bytes(value), Ordering::Relaxed);
            done += n;
        }
    }

    fn get(&self, at: usize, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let offset = (at + done) % 8;
            let n = (8 - offset).min(out.len() - done);
            let value = self.ring[(at + done) / 8].load(Ordering::Relaxed).to_le_bytes();
            out[done..done + n].copy_from_slice(&value[offset..offset + n]);
            done += n;
        }
    }
}

/// The ring of a lane: positions are masked, so every position is a place in it.
#[derive(Debug)]
pub(crate) struct RecordRing<M> {
    pub(crate) memory: std::sync::Arc<M>,
    mask: u64,
}

/// The head of a record, as it lies in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) len: u32,
    pub(crate) stamp_ms: u32,
    pub(crate) number: u64,
}

impl<M: LaneMemory> RecordRing<M> {
    pub(crate) fn new(memory: std::sync::Arc<M>, sizes: &LaneSizes) -> Self {
        Self { memory, mask: sizes.bytes() as u64 - 1 }
    }

    /// Writes `bytes` at `position`. They are no more than the ring has.
    #[inline]
    pub(crate) fn put(&self, position: u64, bytes: &[u8]) {
        let (at, room) = self.place(position);
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        crate::copy_counts::into_region(bytes.len());
        self.memory.put(at, first);
        if !rest.is_empty() {
            self.memory.put(0, rest);
        }
    }

    /// Reads into `out` at `position`. It has no more bytes than the ring.
    #[inline]
    pub(crate) fn get(&self, position: u64, out: &mut [u8]) {
        let (at, room) = self.place(position);
        let (first, rest) = out.split_at_mut(room.min(out.len()));
        self.memory.get(at, first);
        if !rest.is_empty() {
            self.memory.get(0, rest);
        }
    }

    /// Appends `len` bytes at `position` to `out`. They are no more than the ring has.
    #[inline]
    pub(crate) fn append(&self, position: u64, len: usize, out: &mut Vec<u8>) {
        let (at, room) = self.place(position);
        let first = room.min(len);
        self.memory.append(at, first, out);
        if first < len {
            self.memory.append(0, len - first, out);
        }
    }

    /// Has this processor fetch the lines of `len` bytes at `position`, to write there.
    #[inline]
    pub(crate) fn fetch_for_writing(&self, position: u64, len: u64) {
        for line in position / LINE..(position + len).div_ceil(LINE) {
            self.memory.fetch_for_writing(self.place(line * LINE).0);
        }
    }

    /// Has this processor fetch the lines of `len` bytes at `position`, to read there.
    #[inline]
    pub(crate) fn fetch_for_reading(&self, position: u64, len: u64) {
        for line in position / LINE..(position.wrapping_add(len)).div_ceil(LINE) {
            self.memory.fetch_for_reading(self.place(line * LINE).0);
        }
    }

    /// Where `position` lies, and how many bytes there are from it to the end of the ring.
    #[inline]
    fn place(&self, position: u64) -> (usize, usize) {
        let at = position & self.mask;
        (at as usize, (self.mask + 1 - at) as usize)
    }

    #[inline]
    pub(crate) fn put_head(&self, position: u64, head: RecordHead) {
        let first = u64::from(head.len) | u64::from(head.stamp_ms) << 32;
        // Records begin at multiples of a head, so a head lies in one piece.
        let at = self.place(position).0;
        // Two copies. A copy of both words at once would load what two stores have just written.
        // Such a load waits until all earlier stores are in memory, and those of the record are to
        // lines that the receiver's cache holds (decisions 0021 and 0072).
        self.memory.put(at, &first.to_le_bytes());
        self.memory.put(at + HEAD / 2, &head.number.to_le_bytes());
    }

    #[inline]
    pub(crate) fn head(&self, position: u64) -> RecordHead {
        let mut bytes = [0; HEAD];
        self.memory.get(self.place(position).0 & !(HEAD - 1), &mut bytes);
        let [first, number] = [0, 8].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        });
        RecordHead { len: first as u32, stamp_ms: (first >> 32) as u32, number }
    }
}
