//! The memory of a lane in a file that both domains map.
//!
//! Except for atomics, no reference or slice into it is ever made. Bytes cross by opaque copies.

use crate::lane::memory::{COUNTS, FIRST_COUNT, LaneEnd, LaneMemory, LaneWord};
use crate::lane::sizes::{LaneSizes, RING};
use crate::opaque_copy::copy;
use crate::region::{prefetch_for_read, prefetch_for_write};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use underpass_os::Memory;
use underpass_seam::atomic::{AtomicU32, AtomicU64};

/// A mapped lane. Its size is sealed, so an access never lies beyond its end.
#[derive(Debug)]
pub struct MappedLane {
    memory: Memory,
    /// Bytes of the ring.
    ring: usize,
}

impl MappedLane {
    /// Fresh memory, and the file to pass to the sender. Pages take memory when they are first
    /// used.
    ///
    /// # Errors
    /// As [`Memory::create`].
    pub fn create(sizes: LaneSizes) -> io::Result<(Self, OwnedFd)> {
        let (memory, file) = Memory::create("underpass-lane", sizes.memory())?;
        // The words must be there before the lane is: what one end says has to reach the other.
        memory.fill(RING)?;
        Ok((Self { memory, ring: sizes.bytes() }, file))
    }

    /// The memory in `file`, which a receiver handed out.
    ///
    /// # Errors
    /// As [`Memory::adopt`].
    pub fn adopt(file: BorrowedFd<'_>, sizes: LaneSizes) -> io::Result<Self> {
        Ok(Self { memory: Memory::adopt(file, sizes.memory())?, ring: sizes.bytes() })
    }

    /// The address of the bytes of the ring from `at` on, of which there are at least `len`.
    #[inline]
    fn place(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.ring && len <= self.ring - at, "{len} bytes at {at} of {}", self.ring);
        // SAFETY: the memory has `RING` bytes before the ring, and the ring as asserted.
        unsafe { self.memory.base().as_ptr().add(RING + at) }
    }
}

impl LaneMemory for MappedLane {
    #[inline]
    fn word(&self, word: LaneWord) -> &AtomicU64 {
        // SAFETY: all words lie before the ring.
        let place = unsafe { self.memory.base().as_ptr().add(word.offset()) };
        // SAFETY: aligned (the mapping is page-aligned, and offsets are multiples of 8), mapped as
        // long as `self` lives, and accessed by atomics alone, on both sides.
        unsafe { AtomicU64::from_ptr(place.cast()) }
    }

    #[inline]
    fn attention(&self, end: LaneEnd) -> &AtomicU32 {
        // SAFETY: as in `word`.
        let place = unsafe { self.memory.base().as_ptr().add(end.offset()) };
        // SAFETY: as in `word`.
        unsafe { AtomicU32::from_ptr(place.cast()) }
    }

    #[inline]
    fn count(&self, number: usize) -> &AtomicU64 {
        assert!(number < COUNTS, "there is no count {number}");
        // SAFETY: all counts lie before the ring.
        let place = unsafe { self.memory.base().as_ptr().add(FIRST_COUNT + 8 * number) };
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(place.cast()) }
    }

    #[inline]
    fn put(&self, at: usize, bytes: &[u8]) {
        let to = self.place(at, bytes.len());
        // SAFETY: the target has room as `place` has asserted and stays mapped; the source is a
        // slice of ours.
        unsafe { copy(bytes.as_ptr(), to, bytes.len()) };
    }

    #[inline]
    fn get(&self, at: usize, out: &mut [u8]) {
        let from = self.place(at, out.len());
        // SAFETY: the source has the bytes as `place` has asserted and stays mapped; the target is
        // a slice of ours.
        unsafe { copy(from, out.as_mut_ptr(), out.len()) };
    }

    #[inline]
    fn append(&self, at: usize, len: usize, out: &mut Vec<u8>) {
        let from = self.place(at, len);
        out.reserve(len);
        let room = out.spare_capacity_mut().as_mut_ptr().cast();
        // SAFETY: the source has the bytes as `place` has asserted and stays mapped; the target has
        // room for them, which was reserved just now.
        unsafe { copy(from, room, len) };
        // SAFETY: the room was reserved, and all of it was written just now.
        unsafe { out.set_len(out.len() + len) };
    }

    #[inline]
    fn fetch_for_writing(&self, at: usize) {
        prefetch_for_write(self.memory.base().as_ptr().wrapping_add(RING + at));
    }

    #[inline]
    fn fetch_for_reading(&self, at: usize) {
        prefetch_for_read(self.memory.base().as_ptr().wrapping_add(RING + at));
    }

    #[inline]
    fn is_damaged(&self) -> bool {
        self.memory.is_damaged()
    }
}

const _: () = {
    assert!(LaneEnd::Receiver.offset() + 128 <= FIRST_COUNT, "the counts lie behind the words");
    assert!(FIRST_COUNT + 8 * COUNTS <= RING, "the counts lie before the ring");
    assert!(LaneWord::Taken.offset() >= LaneWord::Finished.offset() + 64, "each domain has lines of its own");
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WhenFull;
    use std::os::fd::AsFd;
    use underpass_seam::atomic::Ordering;

    #[test]
    fn both_ends_see_the_same_words_and_bytes() {
        let sizes = LaneSizes::new(4, 100, WhenFull::Refuse).unwrap();
        let (ours, file) = MappedLane::create(sizes).unwrap();
        let theirs = MappedLane::adopt(file.as_fd(), sizes).unwrap();
        let words = [LaneWord::Posted, LaneWord::Oldest, LaneWord::Finished, LaneWord::Taken];
        for (value, word) in (1..).zip(words) {
            ours.word(word).store(value, Ordering::Relaxed);
        }
        ours.attention(LaneEnd::Sender).store(5, Ordering::Relaxed);
        ours.attention(LaneEnd::Receiver).store(6, Ordering::Relaxed);
        ours.put(sizes.bytes() - 3, b"end");
        let mut out = [0; 3];
        theirs.get(sizes.bytes() - 3, &mut out);
        assert_eq!(&out, b"end");
        assert_eq!(words.map(|word| theirs.word(word).load(Ordering::Relaxed)), [1, 2, 3, 4]);
        assert_eq!(theirs.attention(LaneEnd::Sender).load(Ordering::Relaxed), 5);
        assert_eq!(theirs.attention(LaneEnd::Receiver).load(Ordering::Relaxed), 6);
        assert!(std::panic::catch_unwind(|| ours.put(sizes.bytes() - 2, b"end")).is_err());
        let other = LaneSizes::new(400, 100, WhenFull::Refuse).unwrap();
        assert!(MappedLane::adopt(file.as_fd(), other).is_err(), "the lane has another size");
    }
}
