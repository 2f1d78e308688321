//! Memory that one domain writes and others can only read.

use crate::memory::shared::Memory;
use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals};
use rustix::mm::ProtFlags;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// With these seals nobody can change the size, write the file, map it for writing or make a hole
/// in it. Mappings for writing that exist already stay.
const SEALS: SealFlags =
    SealFlags::FUTURE_WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::SEAL);

/// These of the seals fix the size.
const FIXED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Maps `len` zero bytes for writing, and seals their file. A process that gets the file can read
/// it, and can do nothing else with it: the returned mapping is the only one through which it is
/// written.
///
/// All pages are there.
///
/// # Errors
/// `Unsupported` or `InvalidInput` if this kernel lacks `memfd` or `F_SEAL_FUTURE_WRITE` (Linux
/// 5.1). Otherwise there is no memory, or too many files are open.
///
/// # Examples
/// ```
/// use std::os::fd::AsFd;
/// use underpass_os::published::{ReadOnlyMemory, create};
///
/// let (ours, file) = create("example", 4096)?;
/// let theirs = ReadOnlyMemory::adopt(file.as_fd(), 4096)?;
/// assert_eq!((ours.len(), theirs.len()), (4096, 4096));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn create(name: &str, len: usize) -> io::Result<(Memory, OwnedFd)> {
    let (memory, file) = Memory::create_to_seal(name, len)?;
    memory.fill(len)?;
    fcntl_add_seals(&file, SEALS)?;
    Ok((memory, file))
}

/// Maps `len` zero bytes that this domain and one more will write. That one maps the file by
/// [`adopt_to_write`]. Then this domain calls [`close_to_writers`], and passes the file on to
/// others, which can only read it.
///
/// # Errors
/// The errors of [`create`].
///
/// # Examples
/// ```
/// use std::os::fd::AsFd;
/// use underpass_os::published::{self, ReadOnlyMemory};
///
/// let (ours, file) = published::create_for_two("example", 4096)?;
/// let theirs = published::adopt_to_write(file.as_fd(), 4096)?;
/// published::close_to_writers(file.as_fd())?;
/// assert!(published::adopt_to_write(file.as_fd(), 4096).is_err());
/// let others = ReadOnlyMemory::adopt(file.as_fd(), 4096)?;
/// assert_eq!((ours.len(), theirs.len(), others.len()), (4096, 4096, 4096));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn create_for_two(name: &str, len: usize) -> io::Result<(Memory, OwnedFd)> {
    let (memory, file) = Memory::create_to_seal(name, len)?;
    memory.fill(len)?;
    fcntl_add_seals(&file, FIXED)?;
    Ok((memory, file))
}

/// Maps, for writing, what a peer has made by [`create_for_two`].
///
/// # Errors
/// `InvalidData` if its size is not `len` or can change. `PermissionDenied` after
/// [`close_to_writers`]. Otherwise the errors of `mmap`.
pub fn adopt_to_write(file: BorrowedFd<'_>, len: usize) -> io::Result<Memory> {
    check_size(file, len)?;
    let memory = Memory::map(file, ProtFlags::READ.union(ProtFlags::WRITE), 0, len)?;
    memory.fill(len)?;
    Ok(memory)
}

/// Checks that a peer's file is as [`create_for_two`] makes it.
pub(crate) fn check_size(file: BorrowedFd<'_>, len: usize) -> io::Result<()> {
    let refused = |why| io::Error::new(io::ErrorKind::InvalidData, why);
    let seals =
        fcntl_get_seals(file).map_err(|_| refused("the peer passed a file that is no memory file"))?;
    if !seals.contains(FIXED) {
        return Err(refused("the peer's memory may change its size"));
    }
    Memory::check_ordinary(file, len)
}

/// Lets nobody map the file for writing any more. The mappings that exist stay.
///
/// # Errors
/// The errors of `fcntl`.
pub fn close_to_writers(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fcntl_add_seals(file, SEALS)?)
}

/// Checks that a peer's file is as [`create`] makes it.
pub(crate) fn check(file: BorrowedFd<'_>, len: usize) -> io::Result<()> {
    let refused = |why| io::Error::new(io::ErrorKind::InvalidData, why);
    let seals =
        fcntl_get_seals(file).map_err(|_| refused("the peer passed a file that is no memory file"))?;
    if !seals.contains(SEALS) {
        return Err(refused("the peer's memory is not sealed against changes by others"));
    }
    Memory::check_ordinary(file, len)?;
    Ok(())
}

/// A mapping, for reading, of memory that another domain writes at any moment.
#[derive(Debug)]
pub struct ReadOnlyMemory(Memory);

impl ReadOnlyMemory {
    /// Maps a `memfd` that came from a peer, after checking that nobody can change its size or
    /// make holes in it. All pages are mapped now, so that no read faults later. Linux before 5.14
    /// cannot do that.
    ///
    /// # Errors
    /// `InvalidData` if the file is not sealed as [`create`] seals it, or its size is not `len`.
    /// Otherwise the errors of `mmap`.
    pub fn adopt(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        check(file, len)?;
        let memory = Memory::map(file, ProtFlags::READ, 0, len)?;
        memory.populate(len, libc::MADV_POPULATE_READ)?;
        Ok(Self(memory))
    }

    /// The address of the first byte. It is valid for reads of `len` bytes while `self` lives.
    /// Read the bytes by atomics and opaque copies only, since the peer writes at any moment.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.0.base()
    }

    /// As [`Memory::is_damaged`].
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.0.is_damaged()
    }

    /// As [`Memory::len`].
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// As [`Memory::is_empty`].
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FallocateFlags, fallocate, ftruncate};
    use rustix::io::{Errno, pwrite};
    use rustix::mm::{MapFlags, mmap};
    use std::os::fd::AsFd;

    #[test]
    fn what_the_maker_writes_is_read() {
        let (ours, file) = create("test", 8192).unwrap();
        let theirs = ReadOnlyMemory::adopt(file.as_fd(), 8192).unwrap();
        // SAFETY: in bounds.
        let at = unsafe { ours.base().add(5000) };
        // SAFETY: mapped for writing.
        unsafe { at.as_ptr().write_volatile(7) };
        // SAFETY: in bounds.
        let at = unsafe { theirs.base().add(5000) };
        // SAFETY: mapped for reading.
        assert_eq!(unsafe { at.as_ptr().read_volatile() }, 7);
        assert!(!theirs.is_damaged());
    }

    #[test]
    fn nobody_who_gets_the_file_can_change_it() {
        let (_ours, file) = create("test", 8192).unwrap();
        let map = |protection| {
            // SAFETY: a fresh mapping at an address of the kernel's choice, which is never used.
            unsafe { mmap(std::ptr::null_mut(), 8192, protection, MapFlags::SHARED, &file, 0) }
        };
        assert_eq!(map(ProtFlags::READ | ProtFlags::WRITE).err(), Some(Errno::PERM));
        let readable = map(ProtFlags::READ).unwrap();
        let change = rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE;
        // SAFETY: the mapping is of this test alone, and nothing refers to it.
        let changed = unsafe { rustix::mm::mprotect(readable, 8192, change) };
        assert_eq!(changed, Err(Errno::ACCESS));
        assert_eq!(pwrite(&file, &[1], 0), Err(Errno::PERM));
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert_eq!(fallocate(&file, hole, 0, 4096), Err(Errno::PERM));
        assert_eq!(ftruncate(&file, 0), Err(Errno::PERM));
        assert_eq!(ftruncate(&file, 1 << 20), Err(Errno::PERM));
        assert_eq!(fcntl_add_seals(&file, SealFlags::WRITE), Err(Errno::PERM));
    }

    #[test]
    fn memory_that_others_could_change_is_refused() {
        let (_memory, file) = Memory::create("test", 8192).unwrap();
        let refused = ReadOnlyMemory::adopt(file.as_fd(), 8192).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        let (_memory, file) = create("test", 8192).unwrap();
        let refused = ReadOnlyMemory::adopt(file.as_fd(), 4096).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        let null = std::fs::File::open("/dev/null").unwrap();
        let refused = ReadOnlyMemory::adopt(null.as_fd(), 8192).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }
}
