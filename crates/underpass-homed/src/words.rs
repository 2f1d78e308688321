//! The memory of an object, and that of a requester and a home. The peer may write any byte of it
//! at any moment.
//!
//! Words are accessed by atomics, and data by opaque copies. No reference or slice into the data is
//! ever made.

use std::mem::MaybeUninit;
use underpass_seam::atomic::AtomicU64;

/// Memory of words.
pub(crate) trait Words {
    /// One word.
    fn word(&self, index: usize) -> &AtomicU64;
}

/// Memory in which an object lies.
pub(crate) trait ReadableWords: Words {
    /// Copies data out, from word `index` on, and returns them. Loads before it stay before it, and
    /// loads behind a fence stay behind it.
    fn read<'a>(&self, index: usize, to: &'a mut [MaybeUninit<u8>]) -> &'a [u8];
}

/// Such memory, for its home.
pub(crate) trait WritableWords: ReadableWords {
    /// Copies data in, from word `index` on. Stores before it stay before it, and stores behind it
    /// stay behind it.
    fn write(&self, index: usize, from: &[u8]);
}

#[cfg(not(underpass_loom))]
pub(crate) use mapped::{AreaWords, HomeWords, ReaderWords};

#[cfg(not(underpass_loom))]
mod mapped {
    use super::{AtomicU64, ReadableWords, Words, WritableWords};
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::ptr::NonNull;
    use underpass_channel::opaque_copy;
    use underpass_os::Memory;
    use underpass_os::published::{ReadOnlyMemory, create};

    /// One copy takes at most this many bytes. Longer ones use string instructions. The loads and
    /// stores of these have no order among each other (Intel SDM, volume 3, "Memory Ordering").
    const ORDERED: usize = 4032;

    /// Memory of whole words, mapped by an `M`.
    #[derive(Debug)]
    pub(crate) struct MappedWords<M> {
        memory: M,
    }

    /// The memory of an object, for its home.
    pub(crate) type HomeWords = MappedWords<Memory>;
    /// The memory of an object, for a reader, which can't write there.
    pub(crate) type ReaderWords = MappedWords<ReadOnlyMemory>;
    /// A request area or a locked object, for either side.
    pub(crate) type AreaWords = MappedWords<Memory>;

    /// A mapping.
    pub(crate) trait Mapped {
        /// The address of its first byte, which begins a page, and the number of bytes.
        fn bytes(&self) -> (NonNull<u8>, usize);
    }

    impl Mapped for Memory {
        #[inline]
        fn bytes(&self) -> (NonNull<u8>, usize) {
            (self.base(), self.len())
        }
    }

    impl Mapped for ReadOnlyMemory {
        #[inline]
        fn bytes(&self) -> (NonNull<u8>, usize) {
            (self.base(), self.len())
        }
    }

    impl<M: Mapped> MappedWords<M> {
        /// Where `bytes` bytes from word `index` on lie.
        #[inline]
        fn place(&self, index: usize, bytes: usize) -> NonNull<u8> {
            let (base, len) = self.memory.bytes();
            let at = index.checked_mul(8).filter(|at| *at <= len && bytes <= len - at);
            let at = at.unwrap_or_else(|| panic!("the memory ends before word {index} and {bytes} bytes"));
            // SAFETY: in bounds, or at the end of the mapping, as checked.
            unsafe { base.add(at) }
        }
    }

    impl<M: Mapped> Words for MappedWords<M> {
        #[inline]
        fn word(&self, index: usize) -> &AtomicU64 {
            let at = self.place(index, 8);
            // SAFETY: aligned (the mapping is page-aligned), mapped as long as `self` lives, and
            // accessed by atomics alone: data are other words. In a mapping for reading the word is
            // only loaded.
            unsafe { AtomicU64::from_ptr(at.as_ptr().cast()) }
        }
    }

    impl<M: Mapped> ReadableWords for MappedWords<M> {
        #[inline]
        fn read<'a>(&self, index: usize, to: &'a mut [MaybeUninit<u8>]) -> &'a [u8] {
            let from = self.place(index, to.len());
            for (part, to) in to.chunks_mut(ORDERED).enumerate() {
                // SAFETY: in bounds, as checked for the whole.
                let from = unsafe { from.add(part * ORDERED) };
                // SAFETY: `to.len()` bytes are mapped there, as checked; `to` is private memory.
                unsafe { opaque_copy(from.as_ptr(), to.as_mut_ptr().cast(), to.len()) };
            }
            // SAFETY: the loop has written all of them.
            unsafe { to.assume_init_ref() }
        }
    }

    impl WritableWords for MappedWords<Memory> {
        fn write(&self, index: usize, from: &[u8]) {
            let to = self.place(index, from.len());
            for (part, from) in from.chunks(ORDERED).enumerate() {
                // SAFETY: in bounds, as checked for the whole.
                let to = unsafe { to.add(part * ORDERED) };
                // SAFETY: as many bytes are mapped there for writing, as checked; `from` is
                // private memory.
                unsafe { opaque_copy(from.as_ptr(), to.as_ptr(), from.len()) };
            }
        }
    }

    impl MappedWords<Memory> {
        /// Where `bytes` bytes from word `index` on lie. The address is valid as long as `self`.
        pub(crate) fn address(&self, index: usize, bytes: usize) -> *mut u8 {
            self.place(index, bytes).as_ptr()
        }

        /// Fresh memory of `words` words, all of them 0, and the file for readers.
        pub(crate) fn publish(words: usize) -> io::Result<(Self, OwnedFd)> {
            let (memory, file) = create("underpass-object", words * 8)?;
            Ok((Self { memory }, file))
        }

        /// Fresh memory of `words` words that both sides write, all of them 0, and the file for
        /// the other side. `name` is for people.
        pub(crate) fn create(name: &str, words: usize) -> io::Result<(Self, OwnedFd)> {
            let (memory, file) = Memory::create(name, words * 8)?;
            memory.fill(words * 8)?;
            Ok((Self { memory }, file))
        }

        /// Such memory in `file`, which the other side passed.
        pub(crate) fn adopt(file: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
            let memory = Memory::adopt(file, words * 8)?;
            memory.fill(words * 8)?;
            Ok(Self { memory })
        }
    }

    impl MappedWords<ReadOnlyMemory> {
        /// The memory of an object in `file`, which a home handed out.
        pub(crate) fn adopt(file: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
            Ok(Self { memory: ReadOnlyMemory::adopt(file, words * 8)? })
        }

        /// Whether the system has refused a page of it.
        #[inline]
        pub(crate) fn is_damaged(&self) -> bool {
            self.memory.is_damaged()
        }
    }
}

/// Words on the heap, for models and fuzz targets. A clone is the same memory.
#[cfg(any(underpass_loom, fuzzing))]
#[derive(Clone, Debug)]
pub(crate) struct ModelWords(std::sync::Arc<Vec<AtomicU64>>);

#[cfg(any(underpass_loom, fuzzing))]
impl ModelWords {
    /// How many there are.
    #[cfg(fuzzing)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn new(words: usize) -> Self {
        Self((0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().into())
    }
}

#[cfg(any(underpass_loom, fuzzing))]
impl Words for ModelWords {
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.0[index]
    }
}

#[cfg(any(underpass_loom, fuzzing))]
impl ReadableWords for ModelWords {
    fn read<'a>(&self, index: usize, to: &'a mut [MaybeUninit<u8>]) -> &'a [u8] {
        let words = self.0[index..].iter().take(to.len() / 8);
        // Relaxed: an opaque copy orders nothing.
        let bytes: Vec<u8> = words
            .flat_map(|word| word.load(underpass_seam::atomic::Ordering::Relaxed).to_ne_bytes())
            .collect();
        to.write_copy_of_slice(&bytes)
    }
}

#[cfg(any(underpass_loom, fuzzing))]
impl WritableWords for ModelWords {
    fn write(&self, index: usize, from: &[u8]) {
        for (at, from) in from.chunks_exact(8).enumerate() {
            let word = u64::from_ne_bytes(from.try_into().expect("eight bytes"));
            // Relaxed: as in `read`.
            self.0[index + at].store(word, underpass_seam::atomic::Ordering::Relaxed);
        }
    }
}
