//! Memory that nobody can change any more: passed from process to process without a copy, and read in place.

use crate::memory::{TMPFS, create, fits};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;

/// What makes memory unchangeable, for its maker too. `WRITE` can't be had while anybody maps the file writable, and forbids that from then on.
const SEALS: SealFlags =
    SealFlags::WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::SEAL);

/// A `memfd` that is being written, to be sealed.
#[derive(Debug)]
pub struct Unsealed {
    file: File,
    written: u64,
}

impl Unsealed {
    /// An empty one.
    ///
    /// # Errors
    /// `Unsupported` if this kernel has no `memfd`; too many open files.
    pub fn create(name: &str) -> io::Result<Self> {
        Ok(Self { file: create(name, MemfdFlags::ALLOW_SEALING)?.into(), written: 0 })
    }

    /// Seals what was written.
    ///
    /// # Errors
    /// No memory; too many mappings.
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

/// A sealed `memfd`, mapped to be read.
///
/// Its bytes are an ordinary slice, though another process may have made them and have them mapped too, for nobody can write or unmap what is behind them:
/// * `F_SEAL_WRITE` is refused by the kernel while a writable mapping or a write under way exists, and forbids writing, writable mappings and holes made
///   later; no seal can be taken back.
/// * `F_SEAL_SHRINK` keeps every page within the file, so that none of them faults for lying beyond its end (`SIGBUS`).
/// * Its pages are ordinary ones, since those of huge pages can run out under a reader, who then faults. So many of them were there when it was mapped as it has bytes: a
///   file of holes, which costs its maker nothing, would cost its reader memory.
#[derive(Debug)]
pub struct SealedMemory {
    base: NonNull<u8>,
    len: usize,
    file: OwnedFd,
}

// SAFETY: the bytes never change, and the mapping has no owner thread.
unsafe impl Send for SealedMemory {}
// SAFETY: as above.
unsafe impl Sync for SealedMemory {}

impl SealedMemory {
    /// Maps a file, from wherever it came, after checking that it is such memory.
    ///
    /// # Errors
    /// `InvalidData` if it isn't; else what `mmap` says.
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
        if (found.st_blocks as u64).saturating_mul(512) < len as u64 {
            return Err(refused("memory that is not all there"));
        }
        if len == 0 {
            return Ok(Self { base: NonNull::dangling(), len, file });
        }
        // Private, since older kernels (before 6.7) map no sealed file shared. Nobody writes, so the pages are the file's all the same.
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing of ours.
        let base = unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, &file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len, file })
    }

    /// The file, to have it.
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
        // SAFETY: `len` bytes are mapped while `self` lives, or there are none; they are initialized, nobody can change them, and reading them can't fault, as
        // the type's description shows.
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
    fn what_is_sealed_is_read_and_not_written() {
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
    fn what_could_change_or_fault_is_refused() {
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
        // Where the kernel has no huge pages there is nothing to refuse.
        if let Ok(huge) = create("test", MemfdFlags::ALLOW_SEALING.union(MemfdFlags::HUGETLB)) {
            fcntl_add_seals(&huge, SEALS).unwrap();
            assert!(refused(huge).contains("huge"));
        }
    }

    #[test]
    fn a_writable_mapping_keeps_memory_from_being_sealed() {
        let (_mapped, file) = crate::Memory::create("test", 4096).unwrap();
        assert!(fcntl_add_seals(&file, SEALS).is_err());
        assert!(refused(file).contains("not sealed"));
    }
}
