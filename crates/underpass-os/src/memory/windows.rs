//! Memory of many other domains, each at a place of its own, which come and go while others read.
//!
//! The addresses of all places stay mapped for as long as the value lives. A place without a domain
//! shows zeros. To show another file is one `mmap` over the old mapping, so a reader finds the old
//! bytes or the new ones, and never faults. So readers need no lock, and nothing waits for them.

use crate::memory::published;
use crate::memory::shared::Memory;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The mappings, for reading, of memory that other domains publish. All are of one size.
#[derive(Debug)]
pub struct MemoryWindows {
    /// The mapping of all places. Dropping it unmaps what is shown there.
    all: Memory,
    /// What places without a domain show.
    blank: OwnedFd,
    /// The bytes of one place.
    len: usize,
}

impl MemoryWindows {
    /// So many places of `len` bytes each, which show zeros. `len` is a multiple of the page size.
    ///
    /// # Errors
    /// The errors of [`published::create`].
    ///
    /// # Examples
    /// ```
    /// use std::os::fd::AsFd;
    /// use std::sync::atomic::Ordering;
    /// use underpass_os::{MemoryWindows, published};
    ///
    /// let windows = MemoryWindows::new(8, 4096)?;
    /// let (other, file) = published::create("example", 4096)?;
    /// other.words()[3].store(7, Ordering::Release);
    /// windows.show(5, file.as_fd())?;
    /// assert_eq!((windows.load(5, 3), windows.load(4, 3)), (7, 0));
    /// windows.hide(5)?;
    /// assert_eq!(windows.load(5, 3), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(places: usize, len: usize) -> io::Result<Self> {
        let (_, blank) = published::create("underpass-blank", len)?;
        let (_, room) = published::create("underpass-windows", places * len)?;
        let all = Memory::map(&room, ProtFlags::READ, 0, places * len)?;
        let windows = Self { all, blank, len };
        (0..places).try_for_each(|place| windows.hide(place))?;
        Ok(windows)
    }

    /// Shows the memory of a domain at `place`, after checking that nobody can change its size.
    ///
    /// # Errors
    /// The errors of [`ReadOnlyMemory::adopt`](published::ReadOnlyMemory::adopt).
    ///
    /// # Panics
    /// If there is no such place.
    pub fn show(&self, place: usize, file: BorrowedFd<'_>) -> io::Result<()> {
        published::check(file, self.len)?;
        self.map(place, file)
    }

    /// Shows zeros at `place`.
    ///
    /// # Errors
    /// The errors of `mmap`.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn hide(&self, place: usize) -> io::Result<()> {
        self.map(place, self.blank.as_fd())
    }

    fn map(&self, place: usize, file: BorrowedFd<'_>) -> io::Result<()> {
        assert!((place + 1) * self.len <= self.all.len(), "there is no place {place}");
        let at = self.all.base().as_ptr().wrapping_add(place * self.len);
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
        // SAFETY: the range is part of our mapping, which is only read, and by atomics.
        unsafe { mmap(at.cast(), self.len, ProtFlags::READ, flags, file, 0) }?;
        Ok(())
    }

    /// The word of this number at `place`. The domain there may change it at any moment.
    ///
    /// # Panics
    /// If there is no such place or word.
    #[inline]
    pub fn load(&self, place: usize, word: usize) -> u64 {
        // SYNC with the release stores of the domain that writes it.
        self.word(place, word).load(Ordering::Acquire)
    }

    /// The lower half of the word of this number at `place`, to sleep on.
    ///
    /// # Panics
    /// As [`load`](Self::load).
    pub fn futex(&self, place: usize, word: usize) -> &AtomicU32 {
        assert!(word < self.len / 8, "there is no word {word}");
        self.all.futex(place * (self.len / 8) + word)
    }

    #[inline]
    fn word(&self, place: usize, word: usize) -> &AtomicU64 {
        assert!(word < self.len / 8, "there is no word {word}");
        &self.all.words()[place * (self.len / 8) + word]
    }

    /// How many places there are.
    pub fn places(&self) -> usize {
        self.all.len() / self.len
    }
}

/// As [`MemoryWindows`], one place that this domain writes, together with a peer. Without a peer,
/// what is written there is lost.
#[derive(Debug)]
pub struct WritableWindow {
    memory: Memory,
    /// What it shows without a peer.
    blank: OwnedFd,
}

impl WritableWindow {
    /// A place of `len` bytes.
    ///
    /// # Errors
    /// The errors of [`published::create_for_two`].
    ///
    /// # Examples
    /// ```
    /// use std::os::fd::AsFd;
    /// use std::sync::atomic::Ordering;
    /// use underpass_os::{WritableWindow, published};
    ///
    /// let window = WritableWindow::new(4096)?;
    /// let (peer, file) = published::create_for_two("example", 4096)?;
    /// window.show(file.as_fd())?;
    /// window.words()[3].store(7, Ordering::Release);
    /// assert_eq!(peer.words()[3].load(Ordering::Acquire), 7);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(len: usize) -> io::Result<Self> {
        let (memory, blank) = published::create_for_two("underpass-blank", len)?;
        Ok(Self { memory, blank })
    }

    /// Shows what a peer has made by [`published::create_for_two`].
    ///
    /// # Errors
    /// The errors of [`published::adopt_to_write`].
    pub fn show(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        published::check_size(file, self.memory.len())?;
        self.memory.replace(file)
    }

    /// Shows memory of no peer.
    ///
    /// # Errors
    /// The errors of `mmap`.
    pub fn hide(&self) -> io::Result<()> {
        self.memory.replace(self.blank.as_fd())
    }

    /// The words. A peer may change each of them at any moment.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        self.memory.words()
    }

    /// The lower half of a word, to sleep on.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn futex(&self, word: usize) -> &AtomicU32 {
        self.memory.futex(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_reader_finds_the_old_bytes_or_the_new_ones() {
        let windows = MemoryWindows::new(2, 4096).unwrap();
        let (one, file) = published::create("test", 4096).unwrap();
        one.words().iter().for_each(|word| word.store(7, Ordering::Release));
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while windows.load(0, 0) == 0 {
                    let found = windows.load(1, 511);
                    assert!(found == 0 || found == 7);
                }
            });
            for _ in 0..2000 {
                windows.show(1, file.as_fd()).unwrap();
                windows.hide(1).unwrap();
            }
            windows.show(0, file.as_fd()).unwrap();
            reader.join().unwrap();
        });
    }

    #[test]
    fn memory_of_another_size_or_without_seals_is_not_shown() {
        let windows = MemoryWindows::new(2, 4096).unwrap();
        let (_memory, file) = published::create("test", 8192).unwrap();
        assert_eq!(windows.show(0, file.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let (_memory, file) = published::create_for_two("test", 4096).unwrap();
        assert_eq!(windows.show(0, file.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(windows.load(0, 0), 0);
        assert_eq!(windows.places(), 2);
    }
}
