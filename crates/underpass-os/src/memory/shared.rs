//! Memory that two domains share: a sealed `memfd`.

use crate::memory::refused_pages::MappingEntry;
use rustix::buffer::spare_capacity;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create,
};
use rustix::io::{Errno, pread};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// These seals fix the size of a peer's file, and the set of its seals. So an access to a mapping
/// of the file never lies beyond its end. A hole still faults where the system has no page for it:
/// see [`Memory::is_damaged`].
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The type of the file system that holds memory files: `TMPFS_MAGIC` of the kernel's `magic.h`.
pub(crate) const TMPFS: u64 = 0x0102_1994;

/// How memory is mapped that this domain writes.
const WRITABLE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// A mapped, sealed `memfd`. The peer may write any byte of it at any moment.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    len: usize,
    entry: &'static MappingEntry,
}

// SAFETY: no thread owns the mapping. The contract of `base` says how its bytes may be accessed.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Makes, seals and maps `len` zero bytes. Returns the mapping, and the file to pass on.
    ///
    /// # Errors
    /// `Unsupported` if this kernel has no `memfd` or no seals. Otherwise there is no memory, or
    /// too many files are open.
    pub fn create(name: &str, len: usize) -> io::Result<(Self, OwnedFd)> {
        let (memory, file) = Self::create_to_seal(name, len)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((memory, file))
    }

    /// Makes and maps `len` zero bytes, which the caller seals.
    pub(crate) fn create_to_seal(name: &str, len: usize) -> io::Result<(Self, OwnedFd)> {
        let file = create(name, MemfdFlags::ALLOW_SEALING)?;
        fits(len as u64)?;
        ftruncate(&file, len as u64)?;
        Ok((Self::map(&file, WRITABLE, 0, len)?, file))
    }

    /// Maps a `memfd` that came from a peer, after checking that the peer can neither shrink it nor
    /// change its seals.
    ///
    /// # Errors
    /// `InvalidData` if the file is not sealed or its size is not `len`. Otherwise the errors of
    /// `mmap`.
    pub fn adopt(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        let seals = fcntl_get_seals(file).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "the peer passed a file that is no memory file")
        })?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the peer's memory is not sealed against shrinking",
            ));
        }
        // A later seal against writing would prevent us from giving pages back.
        if !seals.contains(SealFlags::SEAL) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the peer's memory may be sealed further",
            ));
        }
        Self::check_ordinary(file, len)?;
        Self::map(file, WRITABLE, 0, len)
    }

    /// Checks that a peer's file is ordinary memory of `len` bytes.
    pub(crate) fn check_ordinary(file: BorrowedFd<'_>, len: usize) -> io::Result<()> {
        // Huge pages are a limited pool. Memory in huge pages may fault even if its size is sealed.
        if fstatfs(file)?.f_type as u64 != TMPFS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the peer's memory is no ordinary memory",
            ));
        }
        if Self::length_of(file)? != len as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the peer's memory has another size than announced",
            ));
        }
        Ok(())
    }

    /// Maps `len` bytes of the registers of a device, from `offset` of its file on. If the device
    /// refuses an access, the page is replaced: see [`is_damaged`](Self::is_damaged).
    ///
    /// # Errors
    /// The errors of `mmap`.
    pub fn of_device(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Self> {
        Self::map(file, WRITABLE, offset, len)
    }

    /// The current size of `file` in bytes.
    ///
    /// # Errors
    /// The errors of `fstat`.
    pub fn length_of(file: BorrowedFd<'_>) -> io::Result<u64> {
        Ok(fstat(file)?.st_size as u64)
    }

    /// Maps `len` bytes for these accesses. Nothing else is allowed to the caller.
    pub(crate) fn map(file: impl AsFd, access: ProtFlags, offset: u64, len: usize) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping at an address of the kernel's choice overlaps nothing of
        // ours. The seal against shrinking means that no page lies beyond the end. For a hole that
        // cannot be filled see `is_damaged`.
        let base = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, offset) }?;
        let base: NonNull<u8> = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let entry = MappingEntry::take(base.as_ptr() as usize, len).inspect_err(|_| {
            // SAFETY: the mapping is ours, and nobody has used it.
            let _ = unsafe { munmap(base.as_ptr().cast(), len) };
        })?;
        let memory = Self { base, len, entry };
        // Without this, a forked child would write into memory that its parent shares with the
        // peer. SAFETY: the mapping is ours, and is not changed here.
        unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxDontFork) }?;
        Ok(memory)
    }

    /// Makes the system fill the pages of the first `len` bytes, so that lack of memory for them is
    /// an error now. Linux before 5.14 cannot do this; there, each page is filled at its first
    /// access.
    ///
    /// # Errors
    /// `OutOfMemory`, or the errors of `madvise`.
    ///
    /// # Panics
    /// If the memory has fewer bytes.
    pub fn fill(&self, len: usize) -> io::Result<()> {
        self.populate(len, libc::MADV_POPULATE_WRITE)
    }

    /// As [`fill`](Self::fill), by this kind of access.
    pub(crate) fn populate(&self, len: usize, access: libc::c_int) -> io::Result<()> {
        assert!(len <= self.len, "{len} of {} bytes", self.len);
        // SAFETY: the whole mapping is ours, and no byte of it changes.
        let filled = unsafe { libc::madvise(self.base.as_ptr().cast(), len, access) };
        match io::Error::last_os_error() {
            _ if filled == 0 => Ok(()),
            e if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            // The system refuses a page. An access to it would raise `SIGBUS`.
            e if e.raw_os_error() == Some(libc::EFAULT) => Err(io::ErrorKind::OutOfMemory.into()),
            e => Err(e),
        }
    }

    /// Gives all pages back to the system. A later read finds zeros.
    pub fn give_back(&self) {
        // SAFETY: the whole mapping is ours. The bytes of shared memory may change at any moment,
        // so nothing relies on them.
        let given = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxRemove) };
        // If the system cannot do this, the pages stay.
        let _ = given;
    }

    /// Bytes of its pages that are in memory, whichever side has touched them. A page that was
    /// swapped out does not count.
    ///
    /// # Errors
    /// The errors of `mincore`.
    pub fn resident(&self) -> io::Result<usize> {
        // SAFETY: it has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).map_err(io::Error::other)?;
        let mut pages = vec![0u8; self.len.div_ceil(page)];
        // SAFETY: the whole mapping is ours, and there is a byte for each of its pages.
        let told = unsafe { libc::mincore(self.base.as_ptr().cast(), self.len, pages.as_mut_ptr()) };
        if told != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(pages.iter().filter(|&&page| page & 1 != 0).count() * page)
    }

    /// The address of the first byte. It is valid for `len` bytes while `self` lives. Access the
    /// bytes by atomics and opaque copies only, since the peer writes at any moment.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The memory as words of 8 bytes. The peer may change each of them at any moment.
    ///
    /// # Examples
    /// ```
    /// use std::sync::atomic::Ordering;
    /// let (memory, _file) = underpass_os::Memory::create("example", 4096)?;
    /// memory.words()[3].store(7, Ordering::Release);
    /// assert_eq!((memory.words().len(), memory.words()[3].load(Ordering::Acquire)), (512, 7));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page, holds as many words, and lives while `self` does.
        // Both sides access the words by atomics alone.
        unsafe { slice::from_raw_parts(self.base.as_ptr().cast(), self.len / 8) }
    }

    /// The lower half of the word of this number, to sleep on.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn futex(&self, word: usize) -> &AtomicU32 {
        let word: *const AtomicU64 = &self.words()[word];
        // SAFETY: it lies in the word, which lives as long, and is aligned. The kernel compares it,
        // and wakes its sleepers.
        unsafe { &*word.cast() }
    }

    /// Maps another file at the same addresses, for reading and writing. Its size was checked.
    /// Nobody finds the addresses unmapped meanwhile.
    pub(crate) fn replace(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        let at = self.base.as_ptr().cast();
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
        // SAFETY: the range is our mapping. Its words are accessed by atomics alone.
        unsafe { mmap(at, self.len, WRITABLE, flags, file, 0) }?;
        // SAFETY: the mapping is ours, and is not changed here.
        Ok(unsafe { madvise(at, self.len, Advice::LinuxDontFork) }?)
    }

    /// Whether the system has refused a page that this domain has touched (`SIGBUS`). Other memory
    /// is then in the place of that page. What is written there does not reach the peer, and what
    /// is read there can be any bytes, as from a lying peer.
    ///
    /// Once true, this stays true.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.entry.is_damaged()
    }

    /// The number of bytes that are mapped.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is mapped. This is never the case, since the kernel refuses such a mapping.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Done before another mapping can get the address.
        self.entry.give_back();
        // SAFETY: the mapping is ours, and borrows of `base` end with `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A `memfd` that is written and read, never mapped: an argument too large for an A-stack.
///
/// Without a mapping, no truncation by the peer can cause a fault, and no page is touched twice.
#[derive(Debug)]
pub struct PayloadFile {
    file: File,
}

impl PayloadFile {
    /// Makes an empty file.
    ///
    /// # Errors
    /// `Unsupported` if this kernel has no `memfd`, or too many files are open.
    pub fn create(name: &str) -> io::Result<Self> {
        Ok(Self { file: create(name, MemfdFlags::empty())?.into() })
    }

    /// Adopts a file that came from a peer.
    ///
    /// # Errors
    /// `InvalidData` if it is not memory: reading a pipe or a terminal could hang.
    pub fn adopt(file: OwnedFd) -> io::Result<Self> {
        // Only memory files have seals, so a question about seals tells them from others.
        fcntl_get_seals(&file).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "the peer passed something that is no memory")
        })?;
        Ok(Self { file: file.into() })
    }

    /// The bytes for which its maker has given memory, at this moment. The peer may change that.
    ///
    /// # Errors
    /// The errors of `fstat`.
    pub fn size(&self) -> io::Result<u64> {
        let found = fstat(&self.file)?;
        // A file of holes costs its maker nothing, but would cost us its whole size.
        Ok((found.st_size as u64).min(found.st_blocks as u64 * 512))
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// There is no memory. `FileTooLarge` beyond this process's limit.
    pub fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        fits(offset.saturating_add(bytes.len() as u64))?;
        self.file.write_all_at(bytes, offset)
    }

    /// Fills `out` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file has less.
    pub fn read(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    /// Appends the bytes from `offset` on to `bytes`, until `bytes` has `len` of them. The memory
    /// is not touched before it is filled.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file has less. `OutOfMemory` if there is no room for the bytes.
    pub fn append(&self, bytes: &mut Vec<u8>, len: usize, offset: u64) -> io::Result<()> {
        let begin = bytes.len();
        bytes.try_reserve_exact(len.saturating_sub(begin)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        while bytes.len() < len {
            let at = offset + (bytes.len() - begin) as u64;
            match pread(&self.file, spare_capacity(bytes), at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => bytes.truncate(len),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// The file to pass on.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Checks that a file may have `len` bytes. This is asked first, since the kernel ends a process
/// that goes beyond its limit (`SIGXFSZ`).
pub(crate) fn fits(len: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(most) if most < len => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!(
                "a file in memory of {len} bytes is more than the {most} that this process may write; raise `ulimit -f`"
            ),
        )),
        _ => Ok(()),
    }
}

pub(crate) fn create(name: &str, flags: MemfdFlags) -> io::Result<OwnedFd> {
    // NOEXEC_SEAL exists since Linux 6.3. Some systems demand it, and older kernels do not know it.
    let base = flags | MemfdFlags::CLOEXEC;
    Ok(memfd_create(name, base | MemfdFlags::NOEXEC_SEAL).or_else(|_| memfd_create(name, base))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsealed_file_is_refused() {
        let file = create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 4096).unwrap();
        let refused = Memory::adopt(file.as_fd(), 4096).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn memory_whose_pages_could_be_kept_from_us_is_refused() {
        // Whether this seal can be added while the memory is mapped.
        let shrink = SealFlags::SHRINK.union(SealFlags::GROW);
        let file = create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 4096).unwrap();
        fcntl_add_seals(&file, shrink).unwrap();
        assert!(Memory::adopt(file.as_fd(), 4096).unwrap_err().to_string().contains("sealed further"));
        let mapped = Memory::map(&file, WRITABLE, 0, 4096).unwrap();
        PayloadFile::adopt(file.try_clone().unwrap()).unwrap().write(&[7; 4096], 0).unwrap();
        fcntl_add_seals(&file, SealFlags::FUTURE_WRITE).unwrap();
        mapped.give_back();
        assert_eq!(mapped.resident().unwrap(), 4096, "it could not");
    }

    #[test]
    fn a_page_that_is_refused_is_exchanged_and_its_memory_damaged() {
        const LEN: usize = 4 * 4096;
        let file = create("test", MemfdFlags::empty()).unwrap();
        ftruncate(&file, LEN as u64).unwrap();
        let (cut, whole) =
            (Memory::map(&file, WRITABLE, 0, LEN).unwrap(), Memory::create("test", LEN).unwrap().0);
        // SAFETY: in bounds; nobody else has the memory.
        let byte = |memory: &Memory, at| unsafe { memory.base().add(at).as_ptr() };
        // SAFETY: mapped for writing.
        unsafe { byte(&cut, 4096).write_volatile(1) };
        // From here on its third page is missing, as if the system had refused it.
        ftruncate(&file, 2 * 4096).unwrap();
        assert!(!cut.is_damaged());
        // SAFETY: as above.
        unsafe { byte(&cut, 2 * 4096 + 7).write_volatile(2) };
        assert!(cut.is_damaged() && !whole.is_damaged());
        // SAFETY: as above.
        assert_eq!(unsafe { byte(&cut, 4096).read_volatile() }, 1, "the others stay");
        drop(cut);
        // A mapping that takes over its entry in the list is not damaged.
        assert!(!Memory::create("test", LEN).unwrap().0.is_damaged());
    }

    #[test]
    fn memory_in_huge_pages_is_refused() {
        // Where the system has no huge pages, none can be passed either.
        let Ok(file) = create("test", MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB) else { return };
        if ftruncate(&file, 2 << 20).is_err() || fcntl_add_seals(&file, SEALS).is_err() {
            return;
        }
        assert_eq!(Memory::adopt(file.as_fd(), 2 << 20).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn pages_that_were_given_back_are_zeros_on_both_sides() {
        let (ours, file) = Memory::create("test", 8192).unwrap();
        let payload_file = PayloadFile::adopt(file).unwrap();
        payload_file.write(&[7; 8192], 0).unwrap();
        assert_eq!(payload_file.size().unwrap(), 8192);
        assert_eq!(ours.resident().unwrap(), 8192);
        ours.give_back();
        assert_eq!((payload_file.size().unwrap(), ours.resident().unwrap()), (0, 0));
        let mut read = [1; 16];
        payload_file.read(&mut read, 4096).unwrap();
        assert_eq!(read, [0; 16]);
    }

    #[test]
    fn a_size_other_than_announced_is_refused() {
        let (_memory, file) = Memory::create("test", 8192).unwrap();
        assert_eq!(Memory::adopt(file.as_fd(), 4096).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(Memory::adopt(file.as_fd(), 8192).unwrap().len(), 8192);
    }

    #[test]
    fn a_payload_file_that_is_no_memory_is_refused() {
        let null = File::open("/dev/null").unwrap();
        assert_eq!(PayloadFile::adopt(null.into()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
