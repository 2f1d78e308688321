//! A counter in the kernel that one side adds to, and that another takes.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An `eventfd`: one side (such as a device) adds to its count, and the other (its driver) takes
/// the count. No operation blocks.
#[derive(Debug)]
pub struct EventFd {
    fd: OwnedFd,
}

impl EventFd {
    /// A counter that is zero.
    ///
    /// # Errors
    /// Too many open files.
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Wraps a descriptor that another process has passed. If it is no `eventfd`, its operations
    /// fail or do nothing. It has to be nonblocking, which the other process can change.
    pub fn adopt(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Adds one. If the count is at its maximum, it stays there.
    pub fn signal(&self) {
        // The only other error is that the descriptor is no eventfd. Then nobody waits for it.
        let _ = write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Takes the count, which is zero afterwards.
    ///
    /// # Errors
    /// The descriptor is no `eventfd`.
    pub fn take(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        match read(&self.fd, &mut count) {
            Ok(_) => Ok(u64::from_ne_bytes(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(e) => Err(e.into()),
        }
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_taken_once() {
        let events = EventFd::new().unwrap();
        assert_eq!(events.take().unwrap(), 0);
        events.signal();
        events.signal();
        assert_eq!((events.take().unwrap(), events.take().unwrap()), (2, 0));
    }

    #[test]
    fn what_is_no_eventfd_is_an_error() {
        let file = std::fs::File::open("/proc/self").unwrap();
        let events = EventFd::adopt(file.into());
        events.signal();
        assert!(events.take().is_err());
    }
}
