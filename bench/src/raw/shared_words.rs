//! The page of words that the two processes of a benchmark share. The raw limits are measured on
//! it, without the runtime.
//!
//! Both processes are this program, and neither is hostile. Nothing outside the benchmarks uses
//! this.

use crate::BenchError;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};
use underpass_os::Memory;

/// Bytes from one word to the next. The prefetcher of neighbouring lines does not reach that far.
const STRIDE: usize = 256;

/// Bytes of the words and the doorbells.
const PAGE: usize = 4096;

/// Lines of a ring, as many as an end of a channel has.
pub const RING: usize = 64;
const LINE: usize = 64;

/// Bytes shared: the page, and a ring for each direction behind it.
const LEN: usize = PAGE + 2 * RING * LINE;

/// The 64-bit words, each in a cache line of its own. `ping.rs` and `responder.rs` say which side
/// writes which word, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedWord {
    /// The client's part of a ping-pong.
    Ping,
    /// The server's part.
    Pong,
    /// The kind of the responder's order.
    Kind,
    /// The CPU of the responder.
    Cpu,
    /// The number of rounds.
    Rounds,
    /// The number of the first round.
    First,
}

/// The 32-bit words on which a process can sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexWord {
    /// The number of orders to the responder.
    Order,
    /// The last order that the responder has taken.
    Taken,
    /// The client's part of a ping-pong by the kernel.
    Ping,
    /// The server's part.
    Pong,
}

const WORDS: usize = SharedWord::First as usize + 1;
const FUTEX_WORDS: usize = FutexWord::Pong as usize + 1;
const _: () = assert!((WORDS + FUTEX_WORDS) * STRIDE <= PAGE);

/// The shared page, and its rings.
#[derive(Debug)]
pub struct SharedWords {
    memory: Memory,
}

impl SharedWords {
    /// Makes a page of zeros, and the file by which another process maps it.
    ///
    /// # Errors
    /// There is no memory, or too many files are open.
    pub fn create() -> Result<(Self, OwnedFd), BenchError> {
        let (memory, file) = Memory::create("underpass-bench", LEN)?;
        Ok((Self { memory }, file))
    }

    /// Maps the page that another process made.
    ///
    /// # Errors
    /// If `file` is something else.
    pub fn adopt(file: impl AsFd) -> Result<Self, BenchError> {
        Ok(Self { memory: Memory::adopt(file.as_fd(), LEN)? })
    }

    /// The word of this name.
    #[inline]
    pub fn word(&self, word: SharedWord) -> &AtomicU64 {
        let at = self.at(word as usize).cast::<u64>();
        // SAFETY: the pointer is aligned and valid while `self` is borrowed, and every access to
        // these 8 bytes, by either process, goes through this function: atomic and of this size.
        unsafe { AtomicU64::from_ptr(at) }
    }

    /// The line of ring `ring` (0 or 1) for `round`. Successive rounds use distant lines, as in a
    /// channel.
    #[inline]
    pub fn turn(&self, ring: usize, round: u64) -> &AtomicU64 {
        let line = (round as usize).wrapping_mul(37) % RING;
        // SAFETY: the offset is within the LEN bytes of the mapping, as `ring % 2` is below 2 and
        // `line` below RING.
        let at = unsafe { self.memory.base().as_ptr().add(PAGE + (ring % 2 * RING + line) * LINE) };
        // SAFETY: as for `word`: aligned, mapped, and these 8 bytes are accessed through this
        // function alone.
        unsafe { AtomicU64::from_ptr(at.cast()) }
    }

    /// The futex word of this name.
    #[inline]
    pub fn futex_word(&self, word: FutexWord) -> &AtomicU32 {
        let at = self.at(WORDS + word as usize).cast::<u32>();
        // SAFETY: as for `word`: aligned, mapped, and these 4 bytes are accessed through this
        // function alone.
        unsafe { AtomicU32::from_ptr(at) }
    }

    /// The start of a line. It is aligned to [`STRIDE`], since mappings begin at pages.
    #[inline]
    fn at(&self, line: usize) -> *mut u8 {
        // SAFETY: `line` is less than WORDS + FUTEX_WORDS, so this stays within the first PAGE
        // bytes of the mapping.
        unsafe { self.memory.base().as_ptr().add(line * STRIDE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn both_mappings_are_the_same_memory() {
        let (here, file) = SharedWords::create().unwrap();
        let there = SharedWords::adopt(&file).unwrap();
        here.word(SharedWord::First).store(7, Ordering::Relaxed);
        there.futex_word(FutexWord::Pong).store(9, Ordering::Relaxed);
        assert_eq!(there.word(SharedWord::First).load(Ordering::Relaxed), 7);
        assert_eq!(here.futex_word(FutexWord::Pong).load(Ordering::Relaxed), 9);
        assert_eq!(here.word(SharedWord::Ping).load(Ordering::Relaxed), 0);
        for ring in 0..2 {
            (0..RING as u64)
                .for_each(|round| here.turn(ring, round).store(2 * round + ring as u64, Ordering::Relaxed));
        }
        for ring in 0..2 {
            let all = (0..RING as u64).map(|round| there.turn(ring, round).load(Ordering::Relaxed));
            assert!(
                all.eq((0..RING as u64).map(|round| 2 * round + ring as u64)),
                "each has a line of its own"
            );
        }
    }
}
