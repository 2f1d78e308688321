//! System calls that hold a kernel lock for as long as their caller wants: they touch a page that
//! does not come.

use crate::files::missing_page::MissingPage;
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::thread::JoinHandle;

unsafe extern "C" {
    fn read(file: c_int, into: *mut c_void, len: usize) -> isize;
    fn write(file: c_int, from: *const c_void, len: usize) -> isize;
    fn pwrite(file: c_int, from: *const c_void, len: usize, at: i64) -> isize;
    fn recv(socket: c_int, into: *mut c_void, len: usize, flags: c_int) -> isize;
    fn epoll_create1(flags: c_int) -> c_int;
    fn epoll_ctl(epoll: c_int, operation: c_int, file: c_int, event: *const c_void) -> c_int;
    fn epoll_wait(epoll: c_int, events: *mut c_void, most: c_int, timeout: c_int) -> c_int;
}

/// `O_CLOEXEC`.
const CLOEXEC: c_int = 0o2_000_000;

/// A kernel thread of this process that hangs in the kernel while it holds locks.
pub struct Snare {
    page: Box<dyn MissingPage>,
    stuck: Option<JoinHandle<()>>,
}

impl Snare {
    /// A thread that hangs in `call`, which touches the given page.
    fn new(mut page: Box<dyn MissingPage>, call: impl FnOnce(*mut c_void) + Send + 'static) -> Self {
        let address = page.address();
        let stuck = std::thread::spawn(move || call(address as *mut c_void));
        page.until_touched();
        Self { page, stuck: Some(stuck) }
    }

    /// Holds the lock of the pipe whose end is `writer`.
    pub fn of_pipe(page: Box<dyn MissingPage>, writer: OwnedFd) -> Self {
        Self::new(page, move |page| {
            // SAFETY: the page is there for as long as this process.
            unsafe { write(writer.as_raw_fd(), page, 8) };
        })
    }

    /// Holds the lock of an epoll that watches `file`. The file is ready for `events`.
    pub fn of_epoll(page: Box<dyn MissingPage>, file: BorrowedFd<'_>, events: u32) -> Self {
        // SAFETY: it makes a descriptor.
        let number = unsafe { epoll_create1(CLOEXEC) };
        // SAFETY: it was opened just now.
        let epoll = unsafe { OwnedFd::from_raw_fd(number) };
        let event = [events, 0, 0];
        // SAFETY: an event has 12 bytes, or 16 of which the last 4 are not read.
        let added = unsafe { epoll_ctl(epoll.as_raw_fd(), 1, file.as_raw_fd(), (&raw const event).cast()) };
        assert_eq!(added, 0);
        Self::new(page, move |page| {
            // SAFETY: the page exists for as long as this process, and has room for one event.
            unsafe { epoll_wait(epoll.as_raw_fd(), page, 1, -1) };
        })
    }

    /// Holds the lock of the inode of `memory`.
    pub fn of_memory(page: Box<dyn MissingPage>, memory: OwnedFd) -> Self {
        Self::new(page, move |page| {
            // SAFETY: as for a pipe.
            unsafe { pwrite(memory.as_raw_fd(), page, 8, 0) };
        })
    }

    /// Holds the lock that a receipt from `socket` takes. A message is waiting there.
    pub fn of_socket(page: Box<dyn MissingPage>, socket: OwnedFd) -> Self {
        Self::new(page, move |page| {
            // SAFETY: as for an epoll.
            unsafe { recv(socket.as_raw_fd(), page, 8, 0) };
        })
    }

    /// Holds the lock of the offset of an open file. `file` is not its only descriptor: the kernel
    /// takes this lock only for shared ones.
    pub fn of_offset(page: Box<dyn MissingPage>, file: OwnedFd) -> Self {
        Self::new(page, move |page| {
            // SAFETY: as for an epoll.
            unsafe { read(file.as_raw_fd(), page, 8) };
        })
    }
}

impl Drop for Snare {
    fn drop(&mut self) {
        self.page.release();
        self.stuck.take().expect("once").join().unwrap();
    }
}
