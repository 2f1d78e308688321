//! Finds the kind of a file that a peer has passed. It asks this kernel alone: an ordinary `fstat`
//! can reach the server behind the file, for example a FUSE server, which may never answer.

use rustix::fs::{AtFlags, FileType, StatxFlags, fcntl_get_seals, statx};
use std::os::fd::AsFd;

/// The kind of a file. It cannot be found in a sandbox that forbids the question.
enum Kind {
    Pipe,
    Socket,
    /// A file with bytes, or a directory.
    Stored,
    /// `/dev/null` and similar devices.
    Null,
    Other,
}

impl Kind {
    fn of(file: impl AsFd) -> Option<Self> {
        /// The driver number of these devices.
        const MEMORY: u32 = 1;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = statx(file, "", flags, StatxFlags::TYPE).ok()?;
        Some(match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::Fifo => Self::Pipe,
            FileType::Socket => Self::Socket,
            FileType::RegularFile | FileType::Directory => Self::Stored,
            FileType::CharacterDevice if found.stx_rdev_major == MEMORY => Self::Null,
            _ => Self::Other,
        })
    }
}

/// Whether a file may keep other files open that its maker had. A socket does: they lie in its
/// queue. An `io_uring` did, if they were registered with it before Linux 6.8, and it is a file of
/// no kind. A device's driver may keep any. Regular files, directories, pipes and `/dev/null` keep
/// none.
///
/// Where the kind cannot be found, every file may, except memory.
pub fn may_keep_others(file: impl AsFd) -> bool {
    match Kind::of(&file) {
        Some(kind) => matches!(kind, Kind::Socket | Kind::Other),
        None => !is_memory(file),
    }
}

/// Whether closing a copy never waits while there is another copy. A file system may ask its server
/// at each closing (`flush`), and so may a device's driver.
pub fn copies_close_at_once(file: impl AsFd) -> bool {
    is_memory(&file) || matches!(Kind::of(&file), Some(Kind::Pipe | Kind::Socket | Kind::Null))
}

/// Whether a file is memory. Only memory has seals.
pub fn is_memory(file: impl AsFd) -> bool {
    fcntl_get_seals(file).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PayloadFile, Socket, descriptor};
    use rustix::event::epoll;
    use std::fs::File;
    use std::net::TcpListener;

    #[test]
    fn files_with_bytes_keep_no_other_files_open() {
        let (reader, writer) = std::io::pipe().unwrap();
        let memory = PayloadFile::create("test").unwrap();
        assert!(![reader.as_fd(), writer.as_fd(), memory.as_fd()].iter().any(may_keep_others));
        let null = File::open("/dev/null").unwrap();
        assert!(!may_keep_others(&null) && copies_close_at_once(null));
        assert!(!may_keep_others(File::open("/").unwrap()));
        assert!(!may_keep_others(File::open(std::env::current_exe().unwrap()).unwrap()));
        assert!(copies_close_at_once(memory.as_fd()) && copies_close_at_once(&reader));
        assert!(is_memory(memory.as_fd()) && !is_memory(reader));
    }

    #[test]
    fn sockets_and_what_is_of_no_kind_may_keep_others() {
        let (ours, theirs) = Socket::pair().unwrap();
        assert!(may_keep_others(&ours) && may_keep_others(theirs) && copies_close_at_once(&ours));
        assert!(!copies_close_at_once(File::open("/").unwrap()));
        assert!(!copies_close_at_once(File::open("/dev/ptmx").unwrap()));
        assert!(may_keep_others(TcpListener::bind("127.0.0.1:0").unwrap()));
        assert!(may_keep_others(File::open("/dev/ptmx").unwrap()));
        // An `anon_inode`.
        assert!(may_keep_others(epoll::create(epoll::CreateFlags::CLOEXEC).unwrap()));
        assert!(!is_memory(descriptor::of_process(std::process::id()).unwrap()));
    }
}
