//! Memory that a device reads and writes at any moment: its registers, or memory for its DMA.
//!
//! Every access is checked against the bounds. Registers are accessed by volatile reads and writes,
//! each of which is one access of that width. Words in memory that carry other bytes with them are
//! accessed by atomics. Bytes are copied by assembly into which the compiler can't see.

use crate::Memory;
use std::arch::asm;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A part of a mapping that a device shares with us.
#[derive(Debug)]
pub struct DeviceMemory {
    memory: Memory,
    range: Range<usize>,
}

mod sealed {
    pub trait SealedWord {}
}

/// The widths of an access: `u8`, `u16`, `u32` and `u64`.
pub trait RegisterWord: Copy + sealed::SealedWord {
    /// The number of bytes.
    const BYTES: usize = size_of::<Self>();
    /// As the lower bits of a `u64`.
    fn widen(self) -> u64;
    /// The lower bits of `value`.
    fn narrow(value: u64) -> Self;
    /// Reads the word at `at`, for this module.
    ///
    /// # Safety
    /// `at` is aligned, and mapped for as long as the call takes. It is accessed by atomics,
    /// volatile accesses and opaque copies alone.
    #[doc(hidden)]
    unsafe fn load_acquire(at: *mut Self) -> Self;
    /// Writes the word at `at`, for this module.
    ///
    /// # Safety
    /// As [`load_acquire`](Self::load_acquire).
    #[doc(hidden)]
    unsafe fn store_release(at: *mut Self, value: Self);
}

macro_rules! word {
    ($word:ty, $atomic:ty) => {
        impl sealed::SealedWord for $word {}

        impl RegisterWord for $word {
            fn widen(self) -> u64 {
                self.into()
            }

            fn narrow(value: u64) -> Self {
                value as $word
            }

            unsafe fn load_acquire(at: *mut Self) -> Self {
                // SAFETY: the caller's promise.
                let word = unsafe { <$atomic>::from_ptr(at) };
                // SYNC with the device's write of this word: what it wrote before.
                word.load(Ordering::Acquire)
            }

            unsafe fn store_release(at: *mut Self, value: Self) {
                // SAFETY: the caller's promise.
                let word = unsafe { <$atomic>::from_ptr(at) };
                // SYNC with the device's read of this word: what we wrote before.
                word.store(value, Ordering::Release);
            }
        }
    };
}

word!(u8, AtomicU8);
word!(u16, AtomicU16);
word!(u32, AtomicU32);
word!(u64, AtomicU64);

impl DeviceMemory {
    /// All of `memory`.
    pub fn new(memory: Memory) -> Self {
        let range = 0..memory.len();
        Self { memory, range }
    }

    /// The bytes of `memory` in `range`. `None` if they are not all there.
    pub fn within(memory: Memory, range: Range<usize>) -> Option<Self> {
        (range.start <= range.end && range.end <= memory.len()).then_some(Self { memory, range })
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The address of the first byte, for the kernel.
    pub(crate) fn address(&self) -> usize {
        self.memory.base().as_ptr() as usize + self.range.start
    }

    /// Whether the system has refused a page of it: see [`Memory::is_damaged`].
    pub fn is_damaged(&self) -> bool {
        self.memory.is_damaged()
    }

    /// Reads a register. `None` if it does not lie in bounds, or is not aligned.
    pub fn read<W: RegisterWord>(&self, at: usize) -> Option<W> {
        let from = self.word::<W>(at)?;
        // SAFETY: `word` has checked that it lies in the mapping, and is aligned.
        Some(unsafe { from.read_volatile() })
    }

    /// Writes a register. `None` if it does not lie in bounds, or is not aligned.
    ///
    /// What was written to DMA memory before is visible to the device before this.
    pub fn write<W: RegisterWord>(&self, at: usize, value: W) -> Option<()> {
        let to = self.word::<W>(at)?;
        // SYNC with the device's read of the register: what we wrote to its DMA memory before.
        std::sync::atomic::fence(Ordering::SeqCst);
        // SAFETY: `word` has checked that it lies in the mapping, and is aligned.
        unsafe { to.write_volatile(value) };
        Some(())
    }

    /// Reads a word of memory. What the device wrote before the word is visible afterwards. `None`
    /// as for [`read`](Self::read).
    pub fn load<W: RegisterWord>(&self, at: usize) -> Option<W> {
        let from = self.word::<W>(at)?;
        // SAFETY: `word` has checked that it lies in the mapping, and is aligned.
        Some(unsafe { W::load_acquire(from) })
    }

    /// Writes a word of memory. If the device sees it, it sees what was written before. `None` as
    /// for [`write`](Self::write).
    pub fn store<W: RegisterWord>(&self, at: usize, value: W) -> Option<()> {
        let to = self.word::<W>(at)?;
        // SAFETY: `word` has checked that it lies in the mapping, and is aligned.
        unsafe { W::store_release(to, value) };
        Some(())
    }

    /// Copies the bytes from `at` on into `to`. `None` if there are not as many.
    pub fn copy_out(&self, at: usize, to: &mut [u8]) -> Option<()> {
        let from = self.bytes(at, to.len())?;
        // SAFETY: `bytes` has checked the bounds, and private memory overlaps no mapping.
        unsafe { copy(from, to.as_mut_ptr(), to.len()) };
        Some(())
    }

    /// Copies `from` to the bytes from `at` on. `None` if there are not as many.
    pub fn copy_in(&self, at: usize, from: &[u8]) -> Option<()> {
        let to = self.bytes(at, from.len())?;
        // SAFETY: `bytes` has checked the bounds, and private memory overlaps no mapping.
        unsafe { copy(from.as_ptr(), to, from.len()) };
        Some(())
    }

    /// The address of a word. `None` if it does not lie in bounds, or is not aligned.
    fn word<W: RegisterWord>(&self, at: usize) -> Option<*mut W> {
        let word = self.bytes(at, W::BYTES)?.cast::<W>();
        word.is_aligned().then_some(word)
    }

    /// The address of `len` bytes. `None` if they do not lie in bounds.
    fn bytes(&self, at: usize, len: usize) -> Option<*mut u8> {
        let begin = self.range.start.checked_add(at)?;
        if begin.checked_add(len)? > self.range.end {
            return None;
        }
        // SAFETY: the range lies in the mapping, and `begin` in the range or at its end.
        Some(unsafe { self.memory.base().as_ptr().add(begin) })
    }
}

/// Copies bytes between private memory and memory that a device may be writing. The compiler can't
/// see into the assembly: it neither assumes that the bytes stay, nor reads them twice.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they don't overlap.
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; the direction flag is clear at every `asm!`.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> DeviceMemory {
        let (memory, _) = Memory::create("test", 4096).unwrap();
        DeviceMemory::within(memory, 64..128).unwrap()
    }

    #[test]
    fn words_are_read_as_they_were_written() {
        let part = part();
        part.write(0, 0x1122_3344_5566_7788u64).unwrap();
        assert_eq!(part.read::<u32>(4), Some(0x1122_3344));
        assert_eq!(part.load::<u16>(2), Some(0x5566));
        part.store(63, 7u8).unwrap();
        assert_eq!(part.read::<u8>(63), Some(7));
        assert_eq!(u16::narrow(part.read::<u64>(0).unwrap().widen()), 0x7788);
    }

    #[test]
    fn nothing_beyond_the_bounds_is_accessed() {
        let part = part();
        assert_eq!((part.len(), part.is_empty(), part.is_damaged()), (64, false, false));
        for at in [61, 64, 4096, usize::MAX - 2] {
            assert_eq!(part.read::<u32>(at), None, "{at}");
            assert_eq!(part.write(at, 1u32), None, "{at}");
            assert_eq!(part.load::<u64>(at), None, "{at}");
            assert_eq!(part.store(at, 1u64), None, "{at}");
            assert_eq!(part.copy_out(at, &mut [0; 4]), None, "{at}");
            assert_eq!(part.copy_in(at, &[0; 4]), None, "{at}");
        }
        assert_eq!(part.read::<u32>(2), None, "it is not aligned");
        assert_eq!(part.copy_in(64, &[]), Some(()));
        let (memory, _) = Memory::create("test", 4096).unwrap();
        assert!(DeviceMemory::within(memory, 0..4097).is_none());
    }

    #[test]
    fn bytes_are_copied_in_and_out() {
        let part = part();
        part.copy_in(3, b"hello").unwrap();
        let mut bytes = [0; 7];
        part.copy_out(2, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0hello\0");
    }
}
