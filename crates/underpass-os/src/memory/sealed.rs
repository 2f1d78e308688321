//! Memory that nobody can change any more. Processes pass it to each other without a copy, and read
//! it in place.

use crate::calls::numbers::SYS_cachestat;
use crate::memory::shared::{TMPFS, create, fits};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;

/// The seals that make memory unchangeable, for its maker too. `WRITE` is refused while any process
/// maps the file writable, and forbids such mappings from then on.
const SEALS: SealFlags =
    SealFlags::WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::SEAL);

/// A `memfd` that is being written and will be sealed.
#[derive(Debug)]
pub struct Unsealed {
    file: File,
    written: u64,
}

impl Unsealed {
    /// Makes an empty file.
    ///
    /// # Errors
    /// `Unsupported` if this kernel has no `memfd`, or too many files are open.
    pub fn create(name: &str) -> io::Result<Self> {
        Ok(Self { file: create(name, MemfdFlags::ALLOW_SEALING)?.into(), written: 0 })
    }

    /// Seals the written bytes.
    ///
    /// # Errors
    /// There is no memory, or there are too many mappings.
    pub fn seal(self) -> io::Result<SealedMemory> {
        let file = OwnedFd::from(self.file);
        fcntl_add_seals(&file, SEALS)?;
        SealedMemory::adopt(file)
    }
}

impl Write for Unsealed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        fits(self.written.saturating_add(bytes.len() as u64))?;
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether all pages of a file are in memory or swapped out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pages {
    AllThere,
    Missing,
    /// The kernel does not say: it is older than Linux 6.5, or a sandbox forbids the question.
    Unknown,
}

impl Pages {
    /// Counts the pages of the first `len` bytes of `file`: all pages of the file, less those
    /// beyond `len`. So in a file that ends at `len` no page is counted singly, however large it
    /// is.
    ///
    /// The kernel answers this without the inode's lock. `SEEK_HOLE` takes that lock. A peer's
    /// `pwrite` may hold the lock for ever while it waits for the page that it writes from, also
    /// when the file is sealed.
    fn of(file: &OwnedFd, len: usize) -> io::Result<Self> {
        // SAFETY: it has no preconditions.
        let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(1).max(1);
        let len = (len as u64).next_multiple_of(page);
        // The pages beyond `len` are counted last, so that pages which its maker adds meanwhile
        // count against the maker.
        let bytes = (fstat(file)?.st_blocks as u64).saturating_mul(512);
        if bytes < len {
            return Ok(Self::Missing);
        }
        Ok(match pages_from(file, len) {
            None => Self::Unknown,
            Some(beyond) if bytes.saturating_sub(beyond.saturating_mul(page)) < len => Self::Missing,
            Some(_) => Self::AllThere,
        })
    }
}

/// The number of pages of `file` from byte `begin` on that are in memory or swapped out
/// (`cachestat`).
fn pages_from(file: &OwnedFd, begin: u64) -> Option<u64> {
    // `struct cachestat_range`: the beginning, and the length, where 0 means all.
    let range = [begin, 0];
    // `struct cachestat`: cached, dirty, written back, evicted, and lately evicted.
    let mut told = [0u64; 5];
    // SAFETY: both structs are as long as the kernel's, and outlive the call.
    let done =
        unsafe { libc::syscall(SYS_cachestat, file.as_raw_fd(), range.as_ptr(), told.as_mut_ptr(), 0) };
    (done == 0).then(|| told[0] + told[3])
}

/// A sealed `memfd`, mapped to be read.
///
/// Its bytes are an ordinary slice, though another process may have made them and mapped them too.
/// Nobody can write or unmap what is behind them:
/// * The kernel refuses `F_SEAL_WRITE` while a writable mapping or a write in progress exists. The
///   seal forbids writing, writable mappings and holes made later. No seal can be taken back.
/// * `F_SEAL_SHRINK` keeps every page within the file, so that no access faults beyond its end
///   (`SIGBUS`).
/// * Its pages are ordinary ones, because huge pages can run out under a reader, which then faults.
///   All pages were there when the file was mapped. A hole costs its maker nothing, but would cost
///   its reader memory, and kills the reader where memory is short (`vm.overcommit_memory` of 2).
///   Where the kernel does not say which pages are there, it fills the holes as the file is mapped
///   ([decision 0055](../../../../doc/decisions/0055-holes-in-sealed-memory-are-refused.md)).
#[derive(Debug)]
pub struct SealedMemory {
    base: NonNull<u8>,
    len: usize,
    file: OwnedFd,
}

// SAFETY: the bytes never change, and no thread owns the mapping.
unsafe impl Send for SealedMemory {}
// SAFETY: as above.
unsafe impl Sync for SealedMemory {}

impl SealedMemory {
    /// Maps a file from any source, after checking that it is such memory.
    ///
    /// # Errors
    /// `InvalidData` if it is not. Otherwise the errors of `mmap`.
    pub fn adopt(file: OwnedFd) -> io::Result<Self> {
        let refused = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let seals = fcntl_get_seals(&file).map_err(|_| refused("a file that is no memory"))?;
        if !seals.contains(SealFlags::WRITE.union(SealFlags::SHRINK)) {
            return Err(refused("memory that is not sealed against writing and shrinking"));
        }
        if fstatfs(&file)?.f_type as u64 != TMPFS {
            return Err(refused("memory of huge pages"));
        }
        let found = fstat(&file)?;
        let len = usize::try_from(found.st_size).ok().filter(|&len| len <= isize::MAX as usize);
        let len = len.ok_or_else(|| refused("memory larger than an address space"))?;
        let pages = Pages::of(&file, len)?;
        if pages == Pages::Missing {
            return Err(refused("memory that is not all there"));
        }
        if len == 0 {
            return Ok(Self { base: NonNull::dangling(), len, file });
        }
        // Private, since kernels before 6.7 do not map a sealed file shared. Nobody writes, so the
        // pages are the file's all the same. SAFETY: a fresh mapping at an address of the kernel's
        // choice overlaps nothing of ours.
        let base = unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, &file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapped = Self { base, len, file };
        if pages == Pages::Unknown {
            mapped.fill()?;
        }
        Ok(mapped)
    }

    /// Makes the kernel fill the holes, if there are any. Lack of memory is then an error here, and
    /// no fault (`SIGBUS`) of the reader. The time grows with the size.
    fn fill(&self) -> io::Result<()> {
        // SAFETY: the mapping is ours, and its bytes do not change: a hole is read as zeros.
        let filled = unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, libc::MADV_POPULATE_READ) };
        match io::Error::last_os_error() {
            _ if filled == 0 => Ok(()),
            // Linux before 5.14 cannot do this.
            e if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            // The system refuses a page. An access to it would raise `SIGBUS`.
            e if e.raw_os_error() == Some(libc::EFAULT) => Err(io::ErrorKind::OutOfMemory.into()),
            e => Err(e),
        }
    }

    /// Returns a descriptor of the file.
    ///
    /// # Errors
    /// Too many open files.
    pub fn file(&self) -> io::Result<OwnedFd> {
        self.file.try_clone()
    }
}

impl Deref for SealedMemory {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped while `self` lives, or there are none. They are
        // initialized, nobody can change them, and reading them cannot fault, as the type's
        // description shows.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl AsFd for SealedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SealedMemory {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping is ours, and borrows of its bytes end with `self`.
            let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
            debug_assert!(unmapped.is_ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FallocateFlags, fallocate};
    use std::os::unix::fs::FileExt;

    fn refused(file: impl Into<OwnedFd>) -> String {
        let e = SealedMemory::adopt(file.into()).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::InvalidData);
        e.to_string()
    }

    fn memory(flags: MemfdFlags) -> File {
        create("test", flags).unwrap().into()
    }

    #[test]
    fn sealed_memory_is_read_and_not_written() {
        let mut unsealed = Unsealed::create("test").unwrap();
        unsealed.write_all(b"hello, ").unwrap();
        unsealed.write_all(&[7; 10_000]).unwrap();
        let sealed = unsealed.seal().unwrap();
        assert_eq!((&sealed[..7], sealed.len()), (&b"hello, "[..], 10_007));
        let file = File::from(sealed.file().unwrap());
        assert!(
            file.write_at(b"x", 0).is_err() && file.set_len(0).is_err() && file.set_len(1 << 20).is_err()
        );
        let again = SealedMemory::adopt(file.into()).unwrap();
        drop(sealed);
        assert_eq!(&again[..7], b"hello, ");
    }

    #[test]
    fn nothing_is_sealed_too() {
        assert!(Unsealed::create("test").unwrap().seal().unwrap().is_empty());
    }

    #[test]
    fn memory_that_could_change_or_fault_is_refused() {
        assert!(refused(File::open("/dev/null").unwrap()).contains("no memory"));
        assert!(refused(memory(MemfdFlags::empty())).contains("not sealed"));
        for seals in [SealFlags::WRITE, SealFlags::SHRINK, SealFlags::SHRINK.union(SealFlags::FUTURE_WRITE)] {
            let file = memory(MemfdFlags::ALLOW_SEALING);
            fcntl_add_seals(&file, seals).unwrap();
            assert!(refused(file).contains("not sealed"), "{seals:?}");
        }
        let holes = memory(MemfdFlags::ALLOW_SEALING);
        holes.set_len(1 << 40).unwrap();
        holes.write_at(b"x", 1 << 30).unwrap();
        fcntl_add_seals(&holes, SEALS).unwrap();
        assert!(refused(holes).contains("not all there"));
        // Where the kernel has no huge pages, there is nothing to refuse.
        if let Ok(huge) = create("test", MemfdFlags::ALLOW_SEALING.union(MemfdFlags::HUGETLB)) {
            fcntl_add_seals(&huge, SEALS).unwrap();
            assert!(refused(huge).contains("huge"));
        }
    }

    #[test]
    fn pages_beyond_the_end_do_not_stand_for_holes() {
        const LEN: usize = 1 << 20;
        let kept = memory(MemfdFlags::ALLOW_SEALING);
        kept.set_len(LEN as u64).unwrap();
        kept.write_at(b"x", 1 << 19).unwrap();
        fallocate(&kept, FallocateFlags::KEEP_SIZE, LEN as u64, LEN as u64).unwrap();
        assert!(fstat(&kept).unwrap().st_blocks as usize * 512 >= LEN, "their number alone tells nothing");
        fcntl_add_seals(&kept, SEALS).unwrap();
        let kept = OwnedFd::from(kept);
        match Pages::of(&kept, LEN).unwrap() {
            // Before Linux 6.5 the kernel does not say.
            Pages::Unknown => assert!(pages_from(&kept, 0).is_none()),
            _ => assert!(refused(kept).contains("not all there")),
        }
    }

    #[test]
    fn pages_beyond_the_end_do_no_harm_by_themselves() {
        let file = memory(MemfdFlags::ALLOW_SEALING);
        file.write_at(&[7; 10_000], 0).unwrap();
        fallocate(&file, FallocateFlags::KEEP_SIZE, 1 << 20, 1 << 20).unwrap();
        fcntl_add_seals(&file, SEALS).unwrap();
        assert_eq!(SealedMemory::adopt(file.into()).unwrap().len(), 10_000);
    }

    #[test]
    fn holes_that_nobody_tells_of_are_filled() {
        const LEN: usize = 1 << 20;
        let file = memory(MemfdFlags::ALLOW_SEALING);
        file.set_len(LEN as u64).unwrap();
        fcntl_add_seals(&file, SEALS).unwrap();
        let file = OwnedFd::from(file);
        let fd = file.try_clone().unwrap();
        assert_eq!(Pages::of(&fd, LEN).unwrap(), Pages::Missing);
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing of ours.
        let base = unsafe { mmap(ptr::null_mut(), LEN, ProtFlags::READ, MapFlags::PRIVATE, &file, 0) };
        let mapped = SealedMemory { base: NonNull::new(base.unwrap().cast()).unwrap(), len: LEN, file };
        mapped.fill().unwrap();
        // Before Linux 6.5 the kernel gives only the number of pages.
        assert_ne!(Pages::of(&fd, LEN).unwrap(), Pages::Missing);
        assert!(mapped.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn memory_that_is_all_there_is_taken_however_it_was_filled() {
        // Written pages, pages allocated in advance, and a size that ends within a page.
        for (given, len) in [(0, 1), (0, 4096), (0, 4097), (1 << 20, 1 << 20), (1 << 21, (1 << 21) - 7)] {
            let file = memory(MemfdFlags::ALLOW_SEALING);
            if given > 0 {
                fallocate(&file, FallocateFlags::empty(), 0, given).unwrap();
                file.set_len(len).unwrap();
            } else {
                file.write_at(&vec![7; len as usize], 0).unwrap();
            }
            fcntl_add_seals(&file, SEALS).unwrap();
            assert_eq!(SealedMemory::adopt(file.into()).unwrap().len(), len as usize);
        }
    }

    #[test]
    fn a_writable_mapping_keeps_memory_from_being_sealed() {
        let (_mapped, file) = crate::Memory::create("test", 4096).unwrap();
        assert!(fcntl_add_seals(&file, SEALS).is_err());
        assert!(refused(file).contains("not sealed"));
    }
}
