//! The memory of a region. Any member may write any byte of it at any moment.
//!
//! Words are accessed by atomics, and data by opaque copies. No reference or slice into the data is
//! ever made.

use underpass_seam::atomic::{AtomicU32, AtomicU64};

#[cfg(not(underpass_loom))]
pub(crate) use mapped::RegionWords;

#[cfg(not(underpass_loom))]
mod mapped {
    use super::{AtomicU32, AtomicU64};
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::ptr::NonNull;
    use underpass_channel::opaque_copy;
    use underpass_os::Memory;

    /// A mapped region.
    #[derive(Debug)]
    pub(crate) struct RegionWords {
        memory: Memory,
        words: usize,
    }

    impl RegionWords {
        /// Fresh memory of `words` words, all of them 0, and the file to pass to members. All pages
        /// are there, so that no member faults.
        pub(crate) fn create(words: usize) -> io::Result<(Self, OwnedFd)> {
            let (memory, file) = Memory::create("underpass-shared", words * 8)?;
            memory.fill(words * 8)?;
            Ok((Self { memory, words }, file))
        }

        /// The memory in `file`, which an exporter handed out.
        pub(crate) fn adopt(file: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
            let memory = Memory::adopt(file, words * 8)?;
            memory.fill(words * 8)?;
            Ok(Self { memory, words })
        }

        /// How many words there are.
        pub(crate) fn len(&self) -> usize {
            self.words
        }

        fn at(&self, index: usize) -> NonNull<u64> {
            assert!(index < self.words, "the region ends before word {index}");
            // SAFETY: in bounds as asserted.
            unsafe { self.memory.base().cast::<u64>().add(index) }
        }

        /// One word.
        #[inline]
        pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
            // SAFETY: aligned (the mapping is page-aligned), mapped as long as `self` lives, and
            // accessed by atomics alone. The data of objects are other words.
            unsafe { AtomicU64::from_ptr(self.at(index).as_ptr()) }
        }

        /// The lower half of a word, for a futex. Nobody uses that word as a whole.
        #[inline]
        pub(crate) fn half(&self, index: usize) -> &AtomicU32 {
            // SAFETY: as in `word`. x86-64 is little-endian.
            unsafe { AtomicU32::from_ptr(self.at(index).as_ptr().cast()) }
        }

        fn check(&self, index: usize, bytes: usize) {
            assert!(
                index <= self.words && bytes <= (self.words - index) * 8,
                "the region ends before word {index} and {bytes} bytes"
            );
        }

        /// Copies data out, from word `index` on, and returns them.
        pub(crate) fn read<'a>(&self, index: usize, to: &'a mut [MaybeUninit<u8>]) -> &'a [u8] {
            self.check(index, to.len());
            // SAFETY: in bounds, or at the end of the mapping.
            let from = unsafe { self.memory.base().cast::<u64>().add(index) };
            // SAFETY: `to.len()` bytes are mapped there, as checked; `to` is private memory.
            unsafe { opaque_copy(from.as_ptr().cast(), to.as_mut_ptr().cast(), to.len()) };
            // SAFETY: the copy has written all of them.
            unsafe { to.assume_init_ref() }
        }

        /// Copies data in, from word `index` on.
        pub(crate) fn write(&self, index: usize, from: &[u8]) {
            self.check(index, from.len());
            // SAFETY: as in `read`.
            let to = unsafe { self.memory.base().cast::<u64>().add(index) };
            // SAFETY: as in `read`.
            unsafe { opaque_copy(from.as_ptr(), to.as_ptr().cast(), from.len()) };
        }

        /// The address of word `index`, for those who take over the duties of this file.
        pub(crate) fn address(&self, index: usize, bytes: usize) -> *mut u8 {
            self.check(index, bytes);
            // SAFETY: as in `read`.
            unsafe { self.memory.base().cast::<u64>().add(index) }.as_ptr().cast()
        }
    }
}

/// Words that loom watches. A clone is the same memory.
#[cfg(underpass_loom)]
#[derive(Clone, Debug)]
pub(crate) struct RegionWords {
    words: std::sync::Arc<Vec<AtomicU64>>,
    halves: std::sync::Arc<Vec<AtomicU32>>,
}

#[cfg(underpass_loom)]
impl RegionWords {
    pub(crate) fn new(words: usize) -> Self {
        let halves = (0..words).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
        let words = (0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        Self { words: words.into(), halves: halves.into() }
    }

    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        &self.words[index]
    }

    pub(crate) fn half(&self, index: usize) -> &AtomicU32 {
        &self.halves[index]
    }
}
