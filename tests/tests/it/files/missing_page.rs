//! Pages that do not come before they are released. A system call that touches one hangs in the
//! kernel.

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::fs::File;
use std::io::{Error, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn ioctl(file: c_int, request: c_ulong, ...) -> c_int;
    fn mmap(at: *mut c_void, len: usize, may: c_int, flags: c_int, file: c_int, from: i64) -> *mut c_void;
}

#[cfg(target_arch = "x86_64")]
const USERFAULTFD: c_long = 323;
#[cfg(not(target_arch = "x86_64"))]
const USERFAULTFD: c_long = 282;
/// `O_CLOEXEC`.
const CLOEXEC: c_int = 0o2_000_000;
/// From the kernel's `userfaultfd.h`: requests with the sizes of their arguments, and the version.
const API: (c_ulong, u64) = (0xc018_aa3f, 0xaa);
const REGISTER: c_ulong = 0xc020_aa00;
const ZEROPAGE: c_ulong = 0xc020_aa04;
/// The mode that reports missing pages.
const MISSING: u64 = 1;
const PAGE: usize = 4096;

/// A missing page of this process.
pub trait MissingPage: Send {
    /// Its address, which is valid for as long as this process lives.
    fn address(&self) -> usize;

    /// Waits until a system call has touched the page.
    fn until_touched(&mut self);

    /// Lets the page come, or lets the system call fail.
    fn release(&mut self);
}

/// A private readable and writable page: the first one of `file`, or a fresh one.
pub fn map(file: Option<BorrowedFd<'_>>) -> usize {
    // `MAP_PRIVATE`, with `MAP_ANONYMOUS` if there is no file.
    let (flags, number) = file.map_or((0x22, -1), |file| (2, file.as_raw_fd()));
    // SAFETY: it takes the place of no other.
    let page = unsafe { mmap(std::ptr::null_mut(), PAGE, 3, flags, number, 0) } as usize;
    assert_ne!(page, usize::MAX, "{}", Error::last_os_error());
    page
}

/// A page whose faults this process handles (`userfaultfd`).
pub struct Userfault {
    faults: File,
    page: usize,
}

impl Userfault {
    /// The error says why this process may not handle the faults of system calls.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: it makes a descriptor, or fails.
        let number = unsafe { syscall(USERFAULTFD, CLOEXEC) };
        if number < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: it was opened just now.
        let faults = File::from(unsafe { OwnedFd::from_raw_fd(number as c_int) });
        let mut version = [API.1, 0, 0];
        // SAFETY: as many words as the request says.
        assert_eq!(unsafe { ioctl(faults.as_raw_fd(), API.0, version.as_mut_ptr()) }, 0);
        let page = map(None);
        let mut range = [page as u64, PAGE as u64, MISSING, 0];
        // SAFETY: as above.
        assert_eq!(unsafe { ioctl(faults.as_raw_fd(), REGISTER, range.as_mut_ptr()) }, 0);
        Ok(Self { faults, page })
    }
}

impl MissingPage for Userfault {
    fn address(&self) -> usize {
        self.page
    }

    fn until_touched(&mut self) {
        assert_eq!(self.faults.read(&mut [0; 32]).unwrap(), 32);
    }

    fn release(&mut self) {
        let mut range = [self.page as u64, PAGE as u64, 0, 0];
        // SAFETY: the pointer leads to as many words as the request takes. The page was registered
        // there.
        assert_eq!(unsafe { ioctl(self.faults.as_raw_fd(), ZEROPAGE, range.as_mut_ptr()) }, 0);
    }
}
