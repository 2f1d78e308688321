//! The meeting place of two domains: a Unix socket that stands for a name, and the pair that it hands out.

use crate::Directory;
use crate::clock::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, chmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recvmsg, sendmsg, shutdown, socket_with, socketpair,
    sockopt::{socket_domain, socket_type},
};
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The most files that one message carries.
const MOST_FILES: usize = 4;

/// A name that clients can connect to; dropping it removes the name.
#[derive(Debug)]
pub struct Listening {
    fd: OwnedFd,
    path: PathBuf,
}

impl Listening {
    /// Puts `name` into `directory`, for users that `mode` of the socket lets write (0o600: this user).
    ///
    /// A socket that nobody listens on any more is replaced.
    ///
    /// # Errors
    /// `AddrInUse` if a living domain has the name; `AlreadyExists` if something that is no socket has it; what the
    /// kernel says otherwise.
    pub fn bind(directory: &Directory, name: &str, mode: u32) -> io::Result<Self> {
        let dir = directory.lock()?;
        let path = directory.join(name);
        match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
            Ok(found) if !std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "something that is no socket stands there",
                ));
            }
            Ok(_) => match Socket::connect(directory, name) {
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(&path)?,
                // A full backlog is a sign of life too.
                Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::AddrInUse.into());
                }
                Err(e) => return Err(e),
            },
        }
        let fd = open()?;
        bind(&fd, &address(&path, &dir)?)?;
        let listening = Self { fd, path };
        chmod(&listening.path, Mode::from_raw_mode(mode))?;
        listen(&listening.fd, 1024)?;
        Ok(listening)
    }

    /// Removes `name` from `directory` if it is a socket that nobody listens on any more: what a domain leaves that was killed. Says whether it was.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove_dead(directory: &Directory, name: &str) -> io::Result<bool> {
        let _dir = directory.lock()?;
        match Socket::connect(directory, name) {
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(directory.join(name)).map(|()| true)
            }
            Err(e) if !matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::WouldBlock) => Err(e),
            _ => Ok(false),
        }
    }

    /// The next client that waits.
    ///
    /// # Errors
    /// `WouldBlock` if none does; too many open files.
    pub fn accept(&self) -> io::Result<Socket> {
        Ok(Socket { fd: accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)? })
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = fs::remove_file(&self.path);
    }
}

/// One end of a connection between two domains. Messages keep their bounds; no operation blocks.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

/// What came with one message.
#[derive(Debug)]
pub struct Received {
    /// Bytes in the buffer; 0 when the peer is gone.
    pub len: usize,
    /// Files that came along.
    pub files: Vec<OwnedFd>,
}

impl Socket {
    /// Connects to `name` in `directory`.
    ///
    /// # Errors
    /// `NotFound`: no such name; `ConnectionRefused`: its server is dead; `PermissionDenied`: not for this user;
    /// `WouldBlock`: more clients wait there than it takes.
    pub fn connect(directory: &Directory, name: &str) -> io::Result<Self> {
        let fd = open()?;
        let path = directory.join(name);
        // Only a path too long for an address goes through the open directory.
        let address = match SocketAddrUnix::new(&path) {
            Ok(address) => address,
            Err(_) => return Ok(Self { fd: connect_through(directory, &path, fd)? }),
        };
        connect(&fd, &address)?;
        Ok(Self { fd })
    }

    /// The two ends of a connection that stands for no name: one to keep, one to pass on.
    ///
    /// # Errors
    /// Too many open files.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self { fd: ours }, theirs))
    }

    /// The end of a connection that somebody has passed on. Whoever it was may hold it still, and change its flags: no operation here depends on them.
    ///
    /// # Errors
    /// `InvalidData` if it is no such thing.
    pub fn adopt(fd: OwnedFd) -> io::Result<Self> {
        // Asked of the kernel's sockets alone: any other file answers that it is none.
        let kind = socket_domain(&fd).and_then(|domain| Ok((domain, socket_type(&fd)?)));
        match kind {
            Ok((AddressFamily::UNIX, SocketType::SEQPACKET)) => Ok(Self { fd }),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the peer passed a file that is no connection",
            )),
        }
    }

    /// Sends one message, with files.
    ///
    /// # Errors
    /// `WouldBlock` if the peer doesn't read; `BrokenPipe` if it is gone.
    pub fn send(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many files for one message"));
        }
        sendmsg(&self.fd, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Takes the next message.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; `InvalidData` if it is longer than `buffer`.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = recvmsg(&self.fd, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
        let files = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(files) => Some(files),
                _ => None,
            })
            .flatten()
            .collect();
        if got.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the peer sent a message that is too long",
            ));
        }
        Ok(Received { len: got.bytes, files })
    }

    /// Ends the connection in both directions.
    pub fn hang_up(&self) {
        // A connection that is gone already is as good.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    /// Waits until a message or the peer's end has come; `false` if `deadline_ns` passes first.
    ///
    /// # Errors
    /// What `poll` says.
    pub fn wait(&self, deadline_ns: u64) -> io::Result<bool> {
        loop {
            let left = deadline_ns.saturating_sub(crate::clock::now_ns());
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            match poll(&mut fds, Some(&timespec(left))) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

fn address(path: &Path, dir: &fs::File) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(path).or_else(|_| SocketAddrUnix::new(short(path, dir)))?)
}

/// An address holds 107 bytes; through the open directory any path fits.
fn short(path: &Path, dir: &fs::File) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    Path::new(&format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name)
}

fn connect_through(directory: &Directory, path: &Path, fd: OwnedFd) -> io::Result<OwnedFd> {
    let dir = fs::File::open(directory.path())?;
    connect(&fd, &SocketAddrUnix::new(short(path, &dir))?)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn directory() -> Directory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("underpass-os-{}-{n}", std::process::id()));
        let directory = Directory::at(path);
        directory.ensure().unwrap();
        directory
    }

    #[test]
    fn a_message_carries_bytes_and_files() {
        let directory = directory();
        let listening = Listening::bind(&directory, "a", 0o600).unwrap();
        let client = Socket::connect(&directory, "a").unwrap();
        let server = listening.accept().unwrap();
        assert_eq!(server.peer().unwrap().pid, std::process::id() as i32);
        client.send(b"hello", &[client.as_fd()]).unwrap();
        let mut buffer = [0; 16];
        let got = server.receive(&mut buffer).unwrap();
        assert_eq!((&buffer[..got.len], got.files.len()), (&b"hello"[..], 1));
        drop((client, got));
        assert!(server.wait(u64::MAX / 2).unwrap());
        assert_eq!(server.receive(&mut buffer).unwrap().len, 0);
        drop(listening);
        fs::remove_dir(directory.path()).unwrap();
    }

    #[test]
    fn a_pair_needs_no_name_and_nothing_else_is_adopted() {
        let (ours, theirs) = Socket::pair().unwrap();
        let theirs = Socket::adopt(theirs).unwrap();
        theirs.send(b"hello", &[]).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(ours.receive(&mut buffer).unwrap().len, 5);
        drop(theirs);
        assert_eq!(ours.receive(&mut buffer).unwrap().len, 0);
        let file = fs::File::open("/dev/null").unwrap();
        assert_eq!(Socket::adopt(file.into()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let (stream, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(Socket::adopt(stream.into()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_living_name_is_refused_and_a_dead_one_replaced() {
        let directory = directory();
        let living = Listening::bind(&directory, "a", 0o600).unwrap();
        assert_eq!(Listening::bind(&directory, "a", 0o600).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let Listening { ref path, .. } = living;
        let kept = path.with_extension("kept");
        fs::rename(path, &kept).unwrap();
        drop(living);
        // A socket file that nobody listens on: what `kill -9` leaves.
        fs::rename(&kept, directory.join("a")).unwrap();
        let again = Listening::bind(&directory, "a", 0o600).unwrap();
        drop(again);
        assert_eq!(Socket::connect(&directory, "a").unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::remove_dir(directory.path()).unwrap();
    }

    #[test]
    fn a_long_path_works() {
        let directory = directory();
        let long = Directory::at(directory.path().join("d".repeat(120)));
        long.ensure().unwrap();
        let listening = Listening::bind(&long, "a", 0o600).unwrap();
        Socket::connect(&long, "a").unwrap();
        drop(listening);
        fs::remove_dir_all(directory.path()).unwrap();
    }
}
