//! A system call that holds a kernel lock for as long as one likes: it faults on a page that does not
//! come before it is released (`userfaultfd`).

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::thread::JoinHandle;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn ioctl(file: c_int, request: c_ulong, ...) -> c_int;
    fn mmap(at: *mut c_void, len: usize, may: c_int, flags: c_int, file: c_int, from: i64) -> *mut c_void;
    fn write(file: c_int, from: *const c_void, len: usize) -> isize;
    fn pwrite(file: c_int, from: *const c_void, len: usize, at: i64) -> isize;
    fn recv(socket: c_int, into: *mut c_void, len: usize, flags: c_int) -> isize;
    fn epoll_create1(flags: c_int) -> c_int;
    fn epoll_ctl(epoll: c_int, operation: c_int, file: c_int, event: *const c_void) -> c_int;
    fn epoll_wait(epoll: c_int, events: *mut c_void, most: c_int, timeout: c_int) -> c_int;
}

#[cfg(target_arch = "x86_64")]
const USERFAULTFD: c_long = 323;
#[cfg(not(target_arch = "x86_64"))]
const USERFAULTFD: c_long = 282;
/// `O_CLOEXEC`.
const CLOEXEC: c_int = 0o2_000_000;
/// Of the kernel's `userfaultfd.h`: requests with the sizes of what they take, and the version.
const API: (c_ulong, u64) = (0xc018_aa3f, 0xaa);
const REGISTER: c_ulong = 0xc020_aa00;
const ZEROPAGE: c_ulong = 0xc020_aa04;
/// A page is missing.
const MISSING: u64 = 1;
const PAGE: usize = 4096;

/// A kernel thread of this process that hangs in the kernel, with the locks that it has taken.
pub struct Snare {
    faults: File,
    page: usize,
    stuck: Option<JoinHandle<()>>,
}

impl Snare {
    /// One that hangs in `call`, which faults on the page that it gets; nothing, and why, where this
    /// process may not do that.
    fn new(call: impl FnOnce(*mut c_void) + Send + 'static) -> Result<Self, std::io::Error> {
        // SAFETY: it makes a descriptor, or fails.
        let number = unsafe { syscall(USERFAULTFD, CLOEXEC) };
        if number < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: it was opened just now.
        let mut faults = File::from(unsafe { OwnedFd::from_raw_fd(number as c_int) });
        let mut version = [API.1, 0, 0];
        // SAFETY: as many words as the request says.
        assert_eq!(unsafe { ioctl(faults.as_raw_fd(), API.0, version.as_mut_ptr()) }, 0);
        // SAFETY: a fresh private page, to be read and written.
        let page = unsafe { mmap(std::ptr::null_mut(), PAGE, 3, 0x22, -1, 0) } as usize;
        let mut range = [page as u64, PAGE as u64, MISSING, 0];
        // SAFETY: as above.
        assert_eq!(unsafe { ioctl(faults.as_raw_fd(), REGISTER, range.as_mut_ptr()) }, 0);
        let stuck = std::thread::spawn(move || call(page as *mut c_void));
        // Of a fault, from within the call.
        assert_eq!(faults.read(&mut [0; 32])?, 32);
        Ok(Self { faults, page, stuck: Some(stuck) })
    }

    /// Holds the lock of the pipe of which `writer` is an end.
    pub fn of_pipe(writer: OwnedFd) -> Result<Self, std::io::Error> {
        Self::new(move |page| {
            // SAFETY: the page is there for as long as this process.
            unsafe { write(writer.as_raw_fd(), page, 8) };
        })
    }

    /// Holds the lock of an epoll that watches `file`, which is ready for `events`.
    pub fn of_epoll(file: BorrowedFd<'_>, events: u32) -> Result<Self, std::io::Error> {
        // SAFETY: it makes a descriptor.
        let number = unsafe { epoll_create1(CLOEXEC) };
        // SAFETY: it was opened just now.
        let epoll = unsafe { OwnedFd::from_raw_fd(number) };
        let event = [events, 0, 0];
        // SAFETY: an event has 12 bytes, or 16 of which the others are not read.
        let added = unsafe { epoll_ctl(epoll.as_raw_fd(), 1, file.as_raw_fd(), (&raw const event).cast()) };
        assert_eq!(added, 0);
        Self::new(move |page| {
            // SAFETY: the page is there for as long as this process, and has room for one event.
            unsafe { epoll_wait(epoll.as_raw_fd(), page, 1, -1) };
        })
    }

    /// Holds the lock of the inode of `memory`.
    pub fn of_memory(memory: OwnedFd) -> Result<Self, std::io::Error> {
        Self::new(move |page| {
            // SAFETY: as for a pipe.
            unsafe { pwrite(memory.as_raw_fd(), page, 8, 0) };
        })
    }

    /// Holds the lock that a receipt from `socket` takes, in which a message lies.
    pub fn of_socket(socket: OwnedFd) -> Result<Self, std::io::Error> {
        Self::new(move |page| {
            // SAFETY: as for an epoll.
            unsafe { recv(socket.as_raw_fd(), page, 8, 0) };
        })
    }
}

impl Drop for Snare {
    fn drop(&mut self) {
        let mut range = [self.page as u64, PAGE as u64, 0, 0];
        // SAFETY: as many words as the request says, of a page that was registered there.
        assert_eq!(unsafe { ioctl(self.faults.as_raw_fd(), ZEROPAGE, range.as_mut_ptr()) }, 0);
        self.stuck.take().expect("once").join().unwrap();
    }
}
