//! Memory that two domains share: a sealed `memfd`.

use crate::damage::Slot;
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

/// What keeps a mapping of a peer's file from faulting for lying beyond its end: its size is fixed,
/// and so are its seals. A hole faults where the system has no page for it; see
/// [`Memory::is_damaged`].
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The type of the file system in which memory files are, `TMPFS_MAGIC` of the kernel's `magic.h`.
pub(crate) const TMPFS: u64 = 0x0102_1994;

/// A mapped, sealed `memfd`. The peer may write any byte of it at any moment.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    len: usize,
    slot: &'static Slot,
}

// SAFETY: the mapping has no owner thread; how its bytes may be accessed is `base`'s contract.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Makes, seals and maps `len` zero bytes; gives the mapping and the file to pass on.
    ///
    /// # Errors
    /// `Unsupported` if this kernel has no `memfd` or no seals; else no memory, or too many open
    /// files.
    pub fn create(name: &str, len: usize) -> io::Result<(Self, OwnedFd)> {
        let file = create(name, MemfdFlags::ALLOW_SEALING)?;
        fits(len as u64)?;
        ftruncate(&file, len as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((Self::map(&file, len)?, file))
    }

    /// Maps a `memfd` that came from a peer, after checking that the peer can't shrink it under us,
    /// or change its seals.
    ///
    /// # Errors
    /// `InvalidData` if the file isn't sealed or its size isn't `len`; else what `mmap` says.
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
        // A later seal against new writing would keep us from giving pages back.
        if !seals.contains(SealFlags::SEAL) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the peer's memory may be sealed further",
            ));
        }
        // Memory in huge pages, of which there are so many and no more, may fault all the same.
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
        Self::map(file, len)
    }

    /// Bytes in `file` at this moment.
    ///
    /// # Errors
    /// What `fstat` says.
    pub fn length_of(file: BorrowedFd<'_>) -> io::Result<u64> {
        Ok(fstat(file)?.st_size as u64)
    }

    fn map(file: impl AsFd, len: usize) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping at an address of the kernel's choice overlaps nothing of
        // ours. The seal against shrinking means that no page lies beyond the end; of a hole that
        // can't be filled see `is_damaged`.
        let base = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)
        }?;
        let base: NonNull<u8> = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let slot = Slot::take(base.as_ptr() as usize, len).inspect_err(|_| {
            // SAFETY: the mapping is ours, and nobody has used it.
            let _ = unsafe { munmap(base.as_ptr().cast(), len) };
        })?;
        let memory = Self { base, len, slot };
        // A process that is forked off would write what its parent shares with the peer.
        // SAFETY: the mapping is ours, and stays as it is here.
        unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxDontFork) }?;
        Ok(memory)
    }

    /// Has the system fill the pages of the first `len` bytes, so that want of memory for them is
    /// an error now. A system that can't (before Linux 5.14) leaves them for who touches them.
    ///
    /// # Errors
    /// `OutOfMemory`, or what `madvise` says.
    ///
    /// # Panics
    /// If it has fewer bytes.
    pub fn fill(&self, len: usize) -> io::Result<()> {
        assert!(len <= self.len, "{len} of {} bytes", self.len);
        // SAFETY: the mapping is ours whole, and no byte of it changes.
        let filled = unsafe { libc::madvise(self.base.as_ptr().cast(), len, libc::MADV_POPULATE_WRITE) };
        match io::Error::last_os_error() {
            _ if filled == 0 => Ok(()),
            e if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            // A page that the system refuses, as a fault would (`SIGBUS`).
            e if e.raw_os_error() == Some(libc::EFAULT) => Err(io::ErrorKind::OutOfMemory.into()),
            e => Err(e),
        }
    }

    /// Gives all pages back to the system: what is read afterwards is zeros.
    pub fn give_back(&self) {
        // SAFETY: the mapping is ours whole. The bytes of shared memory may change at any moment,
        // so nobody relies on them.
        let given = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxRemove) };
        // It fails where the system can't: then they stay.
        let _ = given;
    }

    /// Bytes of its pages that are in memory, touched by whichever side. A page that was swapped
    /// out is not.
    ///
    /// # Errors
    /// What `mincore` says.
    pub fn resident(&self) -> io::Result<usize> {
        // SAFETY: it has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).map_err(io::Error::other)?;
        let mut pages = vec![0u8; self.len.div_ceil(page)];
        // SAFETY: the mapping is ours whole, and there is a byte for each of its pages.
        let told = unsafe { libc::mincore(self.base.as_ptr().cast(), self.len, pages.as_mut_ptr()) };
        if told != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(pages.iter().filter(|&&page| page & 1 != 0).count() * page)
    }

    /// The first byte. Valid for `len` bytes while `self` lives; to be accessed by atomics and
    /// opaque copies only, since the peer writes at will.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Whether the system has refused a page of it, which this domain has touched (`SIGBUS`). From
    /// then on other memory is in the place of that page: what is written there doesn't come to
    /// the peer, and what is read there are any bytes, as of a peer that lies.
    ///
    /// It stays so.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.slot.is_damaged()
    }

    /// Bytes mapped.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is mapped (never: the kernel refuses).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Before another mapping can have the address.
        self.slot.give_back();
        // SAFETY: the mapping is ours, and borrows of `base` end with `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A `memfd` that is written and read, never mapped: an argument too large for an A-stack.
///
/// Without a mapping there is nothing that a peer's truncation could fault, and no page is touched
/// twice.
#[derive(Debug)]
pub struct PayloadFile {
    file: File,
}

impl PayloadFile {
    /// An empty one.
    ///
    /// # Errors
    /// `Unsupported` if this kernel has no `memfd`; too many open files.
    pub fn create(name: &str) -> io::Result<Self> {
        Ok(Self { file: create(name, MemfdFlags::empty())?.into() })
    }

    /// One that came from a peer.
    ///
    /// # Errors
    /// `InvalidData` if it is no regular memory: reading a pipe or a terminal could hang.
    pub fn adopt(file: OwnedFd) -> io::Result<Self> {
        // Only memory files have seals to ask for.
        fcntl_get_seals(&file).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "the peer passed something that is no memory")
        })?;
        Ok(Self { file: file.into() })
    }

    /// Bytes in it at this moment for which its maker has given memory; the peer may change that.
    ///
    /// # Errors
    /// What `fstat` says.
    pub fn size(&self) -> io::Result<u64> {
        let found = fstat(&self.file)?;
        // A file of nothing but holes costs its maker nothing, and would cost us its size.
        Ok((found.st_size as u64).min(found.st_blocks as u64 * 512))
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// No memory; `FileTooLarge` beyond this process' limit.
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

    /// Appends bytes from `offset` on to `bytes`, until that has `len`. Memory is not touched
    /// before it is filled.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file has less; `OutOfMemory` if there is no room for them.
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

/// That a file may have so many bytes. Asked before, since the kernel ends a process that goes
/// beyond its limit (`SIGXFSZ`).
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
    // NOEXEC_SEAL is Linux 6.3; some systems demand it, older kernels don't know it.
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
        // What adding this seal does to memory that is mapped already.
        let shrink = SealFlags::SHRINK.union(SealFlags::GROW);
        let file = create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 4096).unwrap();
        fcntl_add_seals(&file, shrink).unwrap();
        assert!(Memory::adopt(file.as_fd(), 4096).unwrap_err().to_string().contains("sealed further"));
        let mapped = Memory::map(&file, 4096).unwrap();
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
        let (cut, whole) = (Memory::map(&file, LEN).unwrap(), Memory::create("test", LEN).unwrap().0);
        // SAFETY: in bounds; nobody else has the memory.
        let byte = |memory: &Memory, at| unsafe { memory.base().add(at).as_ptr() };
        // SAFETY: mapped for writing.
        unsafe { byte(&cut, 4096).write_volatile(1) };
        // Its third page can't be had from here on, as if the system refused it.
        ftruncate(&file, 2 * 4096).unwrap();
        assert!(!cut.is_damaged());
        // SAFETY: as above.
        unsafe { byte(&cut, 2 * 4096 + 7).write_volatile(2) };
        assert!(cut.is_damaged() && !whole.is_damaged());
        // SAFETY: as above.
        assert_eq!(unsafe { byte(&cut, 4096).read_volatile() }, 1, "the others stay");
        drop(cut);
        // Whoever has its place in the list is not damaged.
        assert!(!Memory::create("test", LEN).unwrap().0.is_damaged());
    }

    #[test]
    fn memory_in_huge_pages_is_refused() {
        // Where the system has none, none can be passed either.
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
