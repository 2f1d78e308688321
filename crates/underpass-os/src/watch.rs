//! Waiting for a name to appear in a directory.

use crate::clock::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Tells when something in a directory is made, moved there or changes its mode.
#[derive(Debug)]
pub struct Watch {
    fd: OwnedFd,
}

impl Watch {
    /// Watches `directory` from now on.
    ///
    /// # Errors
    /// `NotFound`; too many watches (`fs.inotify.max_user_watches`).
    pub fn new(directory: &Path) -> io::Result<Self> {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let what = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ATTRIB;
        inotify::add_watch(&fd, directory, what)?;
        Ok(Self { fd })
    }

    /// Sleeps until something happened there since the last look, for at most `timeout_ns`.
    pub fn wait(&self, timeout_ns: u64) {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        // An interruption or an error ends the wait early; the caller looks again in any case.
        let _ = poll(&mut fds, Some(&timespec(timeout_ns)));
        let mut events = [0u8; 4096];
        while rustix::io::read(&self.fd, &mut events).is_ok_and(|n| n > 0) {}
    }
}
