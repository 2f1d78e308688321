//! The region of a channel: memory that a hostile peer may be writing while this side reads it.
//!
//! Except for atomics, no reference or slice into it is ever made. Bytes cross by opaque copies
//! (`opaque_copy.rs`), and only the copy is examined.

use crate::copy_counts;
use crate::layout::{self, LINE, LINE_WORDS};
use crate::opaque_copy::copy;
use crate::ring_memory::{CacheLine, RingMemory};
use std::any::Any;
use std::arch::asm;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use underpass_os::Memory;
use underpass_seam::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use underpass_wire::{DecodeError, Sink, Source};

/// Bytes at the beginning of a message in an A-stack whose lines are prefetched together, for
/// writing: the reader of the message writes there next.
const PREFETCHED: usize = 8 * LINE;

/// A mapped region, laid out as [`layout`] says.
#[derive(Debug)]
pub struct Region {
    memory: Memory,
    /// How many bytes an A-stack has.
    stack: usize,
}

impl Region {
    /// A fresh region whose A-stacks have `stack` bytes each, and the file to pass to the client.
    ///
    /// # Errors
    /// As [`Memory::create`].
    ///
    /// # Panics
    /// If `stack` is not a result of [`layout::stack_of`].
    pub fn create(stack: usize) -> io::Result<(Self, OwnedFd)> {
        assert_eq!(stack, layout::stack_of(stack));
        let (memory, file) = Memory::create("underpass-binding", layout::region(stack))?;
        // Every page of the rings must be there before the binding is: a post must reach the other
        // side.
        memory.fill(layout::STACKS)?;
        Ok((Self { memory, stack }, file))
    }

    /// The region in `file`, which a server handed out, with A-stacks of `stack` bytes each.
    ///
    /// # Errors
    /// As [`Memory::adopt`].
    ///
    /// # Panics
    /// As [`create`](Self::create).
    pub fn adopt(file: BorrowedFd<'_>, stack: usize) -> io::Result<Self> {
        assert_eq!(stack, layout::stack_of(stack));
        Ok(Self { memory: Memory::adopt(file, layout::region(stack))?, stack })
    }

    /// How many bytes an A-stack has.
    #[inline]
    pub fn stack_size(&self) -> usize {
        self.stack
    }

    /// The attention word at byte `offset`.
    ///
    /// # Panics
    /// If the region ends before it.
    #[inline]
    pub fn attention(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.memory.len());
        // SAFETY: in bounds as asserted.
        let word = unsafe { self.memory.base().add(offset) };
        // SAFETY: aligned as asserted (the mapping is page-aligned), mapped as long as `self`
        // lives, and accessed by atomics alone, on both sides.
        unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
    }

    /// Writes into the A-stack of `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn stack_sink(&self, slot: u16) -> RegionSink<'_> {
        RegionSink { to: self.stack(slot), left: self.stack, overflowed: false, memory: &self.memory }
    }

    /// Reads `len` bytes from the A-stack of `slot`.
    ///
    /// # Errors
    /// The A-stack has fewer bytes. No honest peer announces that.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn stack_source(&self, slot: u16, len: usize) -> Result<RegionSource<'_>, DecodeError> {
        if len > self.stack {
            return Err(DecodeError::Truncated);
        }
        let from = self.stack(slot);
        for offset in (0..len.min(PREFETCHED)).step_by(LINE) {
            prefetch_for_write(from.wrapping_add(offset));
        }
        Ok(RegionSource { from, left: len, memory: &self.memory })
    }

    /// Moves the first `len` bytes of the A-stack of `slot` to the cache that all processors share,
    /// where another processor finds them sooner: a hint.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn demote_stack(&self, slot: u16, len: usize) {
        let begin = self.stack(slot);
        for offset in (0..len.min(self.stack)).step_by(LINE) {
            demote(begin.wrapping_add(offset));
        }
    }

    fn stack(&self, slot: u16) -> *mut u8 {
        assert!(u32::from(slot) < layout::SLOTS, "there is no slot {slot}");
        let offset = layout::STACKS + usize::from(slot) * self.stack;
        // SAFETY: the A-stack of every slot below `SLOTS` lies in the region, which was made for
        // A-stacks of this size and is mapped whole.
        unsafe { self.memory.base().as_ptr().add(offset) }
    }
}

impl RingMemory for Region {
    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < layout::STACKS / 8);
        // SAFETY: in bounds as asserted.
        let word = unsafe { self.memory.base().cast::<u64>().add(index) };
        // SAFETY: aligned (the mapping is page-aligned), mapped as long as `self` lives, and
        // accessed by atomics alone, on both sides.
        unsafe { AtomicU64::from_ptr(word.as_ptr()) }
    }

    fn lines(&self, index: usize, lines: usize) -> &[CacheLine] {
        const WORDS: usize = layout::STACKS / 8;
        assert!(index <= WORDS && lines <= (WORDS - index) / LINE_WORDS);
        // SAFETY: in bounds as asserted.
        let first = unsafe { self.memory.base().cast::<u64>().add(index) };
        // SAFETY: all words of the lines are in bounds as asserted; the rest as in `word`.
        unsafe { NonNull::slice_from_raw_parts(first.cast(), lines).as_ref() }
    }

    #[inline]
    fn prefetch_for_write(line: &CacheLine) {
        prefetch_for_write(line.as_ptr().cast());
    }

    #[inline]
    fn prefetch_for_read(line: &CacheLine) {
        prefetch_for_read(line.as_ptr().cast());
    }

    #[inline]
    fn demote(line: &CacheLine) {
        demote(line.as_ptr().cast());
    }
}

/// Prefetches the line of `address`: a hint.
#[inline]
pub(crate) fn prefetch_for_read(address: *const u8) {
    // SAFETY: a prefetch touches no memory, whatever the address.
    unsafe { asm!("prefetcht0 [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) }
}

/// Prefetches the line of `address` for writing: a hint.
#[inline]
pub(crate) fn prefetch_for_write(address: *const u8) {
    // In assembly, because the compiler emits a prefetch for reading where the target may lack this
    // one. On a processor that lacks it, it does nothing.
    //
    // SAFETY: a prefetch touches no memory, whatever the address.
    unsafe { asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) }
}

/// Moves the line of `address` from this processor's cache to the one that all processors share. It
/// is a hint, on which nothing relies (decision 0037).
#[inline]
fn demote(address: *const u8) {
    // SAFETY: it changes no memory, whatever the address. A processor without the instruction does
    // nothing.
    unsafe { asm!("cldemote [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) }
}

/// Writes bytes into an A-stack or an overflow buffer.
#[derive(Debug)]
pub struct RegionSink<'a> {
    to: *mut u8,
    left: usize,
    overflowed: bool,
    memory: &'a Memory,
}

impl<'a> RegionSink<'a> {
    /// Writes into all of `memory`.
    pub(crate) fn over(memory: &'a Memory) -> Self {
        Self { to: memory.base().as_ptr(), left: memory.len(), overflowed: false, memory }
    }

    /// Whether more bytes were put than there is room for, which means that the `size` of an
    /// `Encode` was too small; or a file, which this memory can't hold.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Whether the kernel had a page for all that was put, and for all before it. If not, the peer
    /// may not see the bytes.
    ///
    /// # Errors
    /// `OutOfMemory` if the kernel had none. It stays so for this memory.
    pub fn is_written(&self) -> io::Result<()> {
        if self.memory.is_damaged() {
            let why = "the system has refused a page of the memory that both sides share; where the machine has memory \
                left, see `vm.overcommit_memory`, and import the binding again";
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, why));
        }
        Ok(())
    }
}

impl Sink for RegionSink<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if bytes.len() > self.left {
            self.overflowed = true;
            return;
        }
        copy_counts::into_region(bytes.len());
        // SAFETY: the target has room as checked and stays mapped for `'a`; the source is a slice
        // of ours.
        unsafe { copy(bytes.as_ptr(), self.to, bytes.len()) };
        // SAFETY: at most one past the end of the A-stack.
        self.to = unsafe { self.to.add(bytes.len()) };
        self.left -= bytes.len();
    }

    #[inline]
    fn put_file(&mut self, _: BorrowedFd<'_>) {
        self.overflowed = true;
    }

    #[inline]
    fn put_interface(&mut self, _: &dyn Any) {
        self.overflowed = true;
    }
}

/// Reads bytes out of an A-stack or an overflow buffer, each of them once.
#[derive(Debug)]
pub struct RegionSource<'a> {
    from: *const u8,
    left: usize,
    memory: &'a Memory,
}

impl<'a> RegionSource<'a> {
    /// Reads `len` bytes of `memory`, beginning at `at`.
    ///
    /// # Errors
    /// The memory has fewer bytes.
    pub(crate) fn over(memory: &'a Memory, at: usize, len: usize) -> Result<Self, DecodeError> {
        if at.checked_add(len).is_none_or(|end| end > memory.len()) {
            return Err(DecodeError::Truncated);
        }
        // SAFETY: in bounds as checked.
        let from = unsafe { memory.base().as_ptr().add(at) };
        Ok(Self { from, left: len, memory })
    }
}

impl<'a> RegionSource<'a> {
    /// Whether the kernel has refused a page of the memory. If so, the bytes that were read may
    /// have any values.
    pub fn is_damaged(&self) -> bool {
        self.memory.is_damaged()
    }

    /// A view of the next `len` bytes, without a copy.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn view(&mut self, len: usize) -> Result<RegionView<'a>, DecodeError> {
        if len > self.left {
            return Err(DecodeError::Truncated);
        }
        let view = RegionView { from: self.from, len, region: PhantomData };
        // SAFETY: at most one past the end of the A-stack.
        self.from = unsafe { self.from.add(len) };
        self.left -= len;
        Ok(view)
    }
}

/// Bytes of an A-stack or an overflow buffer, without a copy. The peer may change them between any
/// two reads.
#[derive(Clone, Copy, Debug)]
pub struct RegionView<'a> {
    from: *const u8,
    len: usize,
    region: PhantomData<&'a Region>,
}

// SAFETY: it only reads, by atomics and opaque copies, memory that any thread may read as long as
// the region exists.
unsafe impl Send for RegionView<'_> {}
// SAFETY: as above.
unsafe impl Sync for RegionView<'_> {}

impl RegionView<'_> {
    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The present value of the byte at `at`.
    #[inline]
    pub fn get(&self, at: usize) -> Option<u8> {
        if at >= self.len {
            return None;
        }
        // SAFETY: in bounds as checked.
        let byte = unsafe { self.from.add(at) };
        // SAFETY: mapped for `'a` and writable, and accessed here by atomics and opaque copies
        // alone.
        let byte = unsafe { AtomicU8::from_ptr(byte.cast_mut()) };
        // Relaxed: the head that named the A-stack published the byte. Later changes are not
        // announced.
        Some(byte.load(Ordering::Relaxed))
    }

    /// Copies bytes into `out`, beginning at `at`, as many as there are and fit. Returns how many.
    pub fn copy_to(&self, at: usize, out: &mut [u8]) -> usize {
        let len = self.len.saturating_sub(at).min(out.len());
        if len > 0 {
            copy_counts::out_of_region(len);
            // SAFETY: in bounds, since there are bytes after `at`.
            let from = unsafe { self.from.add(at) };
            // SAFETY: the source has `len` bytes from `at` on and stays mapped for `'a`; the target
            // is a slice of ours.
            unsafe { copy(from, out.as_mut_ptr(), len) };
        }
        len
    }

    /// A part of the bytes.
    ///
    /// # Panics
    /// If `range` is not within the bytes.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
        // SAFETY: at most one past the end, as asserted.
        Self { from: unsafe { self.from.add(range.start) }, len: range.len(), region: PhantomData }
    }
}

impl Source for RegionSource<'_> {
    #[inline]
    fn remaining(&self) -> usize {
        self.left
    }

    #[inline]
    fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
        if out.len() > self.left {
            return Err(DecodeError::Truncated);
        }
        copy_counts::out_of_region(out.len());
        // SAFETY: the source has at least `len` bytes as checked and stays mapped for `'a`; the
        // target is a slice of ours.
        unsafe { copy(self.from, out.as_mut_ptr(), out.len()) };
        // SAFETY: at most one past the end of the A-stack.
        self.from = unsafe { self.from.add(out.len()) };
        self.left -= out.len();
        Ok(())
    }

    #[inline]
    fn take_vec(&mut self, len: usize) -> Result<Vec<u8>, DecodeError> {
        if len > self.left {
            return Err(DecodeError::Truncated);
        }
        copy_counts::out_of_region(len);
        let mut out = Vec::with_capacity(len);
        // SAFETY: as in `take`; the target is spare capacity of at least `len` bytes.
        unsafe { copy(self.from, out.as_mut_ptr(), len) };
        // SAFETY: the copy has initialized `len` bytes.
        unsafe { out.set_len(len) };
        // SAFETY: at most one past the end of the A-stack.
        self.from = unsafe { self.from.add(len) };
        self.left -= len;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use underpass_seam::atomic::Ordering;

    #[test]
    fn both_sides_see_the_same_bytes() {
        let (ours, file) = Region::create(layout::STACK).unwrap();
        let theirs = Region::adopt(file.as_fd(), layout::STACK).unwrap();
        ours.word(40).store(7, Ordering::Relaxed);
        assert_eq!(theirs.word(40).load(Ordering::Relaxed), 7);
        ours.stack_sink(63).put(b"hello");
        assert_eq!(theirs.stack_source(63, 5).unwrap().take_vec(5).unwrap(), b"hello");
        assert_eq!(theirs.stack_source(62, 5).unwrap().take_vec(5).unwrap(), [0; 5]);
    }

    #[test]
    fn a_stack_has_an_end() {
        let (region, _file) = Region::create(layout::STACK).unwrap();
        let mut sink = region.stack_sink(0);
        sink.put(&vec![1; layout::STACK]);
        assert!(!sink.overflowed());
        sink.put(&[2]);
        assert!(sink.overflowed());
        assert_eq!(region.stack_source(1, 1).unwrap().take_vec(1).unwrap(), [0]);
        assert!(region.stack_source(0, layout::STACK + 1).is_err());
        assert!(region.stack_source(0, 4).unwrap().take(&mut [0; 5]).is_err());
    }

    #[test]
    fn a_view_shows_what_is_there_now() {
        let (region, _file) = Region::create(layout::STACK).unwrap();
        region.stack_sink(3).put(b"before and after");
        let mut source = region.stack_source(3, 16).unwrap();
        assert!(source.view(17).is_err());
        let (first, rest) = (source.view(6).unwrap(), source.view(10).unwrap());
        assert_eq!((source.remaining(), first.len(), first.get(0), first.get(6)), (0, 6, Some(b'b'), None));
        region.stack_sink(3).put(b"BEFORE");
        let mut out = [0; 8];
        assert_eq!((first.copy_to(1, &mut out), &out), (5, b"EFORE\0\0\0"));
        assert_eq!((rest.part(5..10).copy_to(0, &mut out), &out[..5]), (5, &b"after"[..]));
        assert_eq!((rest.part(10..10).is_empty(), rest.copy_to(11, &mut out)), (true, 0));
        assert!(std::panic::catch_unwind(|| rest.part(9..11)).is_err());
    }

    #[test]
    fn small_a_stacks_lie_one_behind_the_other() {
        let stack = layout::stack_of(57);
        let (region, file) = Region::create(stack).unwrap();
        assert_eq!((stack, region.memory.len()), (64, layout::STACKS + 4096));
        for slot in 0..layout::SLOTS as u16 {
            region.stack_sink(slot).put(&[slot as u8; 64]);
        }
        for slot in 0..layout::SLOTS as u16 {
            assert_eq!(region.stack_source(slot, 64).unwrap().take_vec(64).unwrap(), [slot as u8; 64]);
        }
        assert!(region.stack_source(0, 65).is_err());
        assert!(Region::adopt(file.as_fd(), layout::STACK).is_err(), "the region has another size");
        // A-stacks of no bytes have no room.
        let (none, _file) = Region::create(0).unwrap();
        assert_eq!(none.memory.len(), layout::STACKS);
        assert!(none.stack_source(63, 1).is_err());
        let mut sink = none.stack_sink(63);
        sink.put(&[1]);
        assert!(sink.overflowed());
    }

    #[test]
    #[should_panic(expected = "no slot")]
    fn there_is_no_slot_past_the_last() {
        let (region, _file) = Region::create(layout::STACK).unwrap();
        region.stack_sink(layout::SLOTS as u16);
    }
}
