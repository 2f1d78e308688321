//! Unix sockets: one that stands for an exported name, and connections between two domains.

use crate::Directory;
use crate::clock::timespec;
use crate::fork::Vital;
use crate::sockets::activation::ManagerFile;
use crate::sockets::control_message::{self, ALL, Message, SENDER};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, chmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, connect, listen, sendmsg, shutdown, socket_with, socketpair,
    sockopt::{socket_domain, socket_type},
};
use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The most files that a message of an honest domain carries.
pub const MOST_FILES: usize = 65;

/// A name that clients can connect to. Dropping it removes the name, unless a service manager has
/// passed its socket.
#[derive(Debug)]
pub struct Listening {
    fd: Vital,
    standing: Standing,
    mode: u32,
    /// The service manager's file, if one has passed the socket. It keeps the name.
    passed: Option<ManagerFile>,
}

impl Listening {
    /// Puts `name` into `directory`, for the users that `mode` of the socket lets write (0o600:
    /// this user).
    ///
    /// A socket without a listener is replaced.
    ///
    /// # Errors
    /// `AddrInUse` if a living domain has the name. `AlreadyExists` if a file that is no socket has
    /// it. Otherwise the kernel's errors.
    pub fn bind(directory: &Directory, name: &str, mode: u32) -> io::Result<Self> {
        let dir = directory.lock()?;
        let path = directory.join(name);
        match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
            Ok(found) if !found.file_type().is_socket() => {
                return Err(no_socket());
            }
            Ok(_) => match Socket::connect(directory, name) {
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(&path)?,
                // A full backlog also shows that the domain lives.
                Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::AddrInUse.into());
                }
                Err(e) => return Err(e),
            },
        }
        let (fd, stamp) = listen_at(&path, &dir, mode)?;
        Ok(Self { fd: Vital::new(fd), standing: Standing { path, stamp }, mode, passed: None })
    }

    /// A socket that a service manager has made at `path`.
    pub(super) fn of_manager(fd: OwnedFd, path: PathBuf, stamp: Stamp, mode: u32, file: ManagerFile) -> Self {
        Self { fd: Vital::new(fd), standing: Standing { path, stamp }, mode, passed: Some(file) }
    }

    /// As [`bind`](Self::bind), but takes the name over if a living domain has it. Later clients
    /// connect to this domain. At every moment one of the two listens. The other domain's socket
    /// loses its name.
    ///
    /// The other domain accepts one more connection, which ends without a message once the name is
    /// taken over. That is a hint to check its name.
    ///
    /// # Errors
    /// The errors of `bind`, except `AddrInUse`.
    pub fn replace(directory: &Directory, name: &str, mode: u32) -> io::Result<Self> {
        let dir = directory.lock()?;
        let path = directory.join(name);
        match fs::symlink_metadata(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            Ok(found) if !found.file_type().is_socket() => return Err(no_socket()),
            _ => {}
        }
        let fresh = directory.join(&format!(".{}-{name}", std::process::id()));
        // A process with the same number may have been killed in the middle of this, and may have
        // left this file.
        let _ = fs::remove_file(&fresh);
        // From now on no path leads to the other domain. A domain that cannot be reached finds out
        // by itself.
        let hint = Socket::connect(directory, name);
        let (fd, stamp) = listen_at(&fresh, &dir, mode)?;
        fs::rename(&fresh, &path).inspect_err(|_| drop(fs::remove_file(&fresh)))?;
        drop(hint);
        Ok(Self { fd: Vital::new(fd), standing: Standing { path, stamp }, mode, passed: None })
    }

    /// Stops accepting. Later connections are refused, and those that wait to be accepted are
    /// closed. If a service manager has passed the socket, they wait for the next server.
    pub fn hang_up(&self) {
        // It would end the manager's socket too.
        if self.passed.is_none() {
            hang_up(&self.fd);
        }
    }

    /// The permissions of the name.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// The place of the name.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Removes `name` from `directory` if it is a socket without a listener, which a killed domain
    /// leaves. Returns whether it was removed.
    ///
    /// # Errors
    /// The kernel's errors.
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

    /// Accepts the next waiting client.
    ///
    /// # Errors
    /// `WouldBlock` if no client waits, or too many files are open.
    pub fn accept(&self) -> io::Result<Socket> {
        let fd = accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        Ok(Socket::own(Vital::new(fd)))
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if self.passed.is_some() {
            return;
        }
        // The lock keeps other domains from taking the name over between the check and the removal.
        // It is missing only if files have run out.
        let _held = self.standing.path.parent().and_then(|directory| Directory::at(directory).lock().ok());
        if self.standing.stamp().ok() == Some(self.standing.stamp) {
            // If the file is gone already, that is fine too.
            let _ = fs::remove_file(&self.standing.path);
        }
    }
}

/// A name, and the identity of the socket that stands for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    path: PathBuf,
    stamp: Stamp,
}

/// The identity of a file: device and inode.
pub(super) type Stamp = (u64, u64);

impl Standing {
    /// Whether another socket stands at the path by now.
    pub fn is_replaced(&self) -> bool {
        self.stamp().is_ok_and(|now| now != self.stamp)
    }

    fn stamp(&self) -> io::Result<Stamp> {
        stamp(&self.path)
    }
}

pub(super) fn stamp(path: &Path) -> io::Result<Stamp> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

pub(super) fn no_socket() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "something that is no socket stands there")
}

/// Makes a listening socket at `path`, where no file is.
fn listen_at(path: &Path, dir: &fs::File, mode: u32) -> io::Result<(OwnedFd, Stamp)> {
    let fd = open()?;
    bind(&fd, &address(path, dir)?)?;
    crate::failpoint!("export-bound");
    let ready = || {
        chmod(path, Mode::from_raw_mode(mode))?;
        // Accepted connections inherit this. It holds until the peer is known and its files are
        // wanted.
        crate::peer::admit_files(&fd, false);
        listen(&fd, 1024)?;
        crate::failpoint!("export-listening");
        stamp(path)
    };
    match ready() {
        Ok(stamp) => Ok((fd, stamp)),
        Err(e) => {
            let _ = fs::remove_file(path);
            Err(e)
        }
    }
}

/// One end of a connection between two domains. Message boundaries are kept. No operation blocks.
#[derive(Debug)]
pub struct Socket {
    fd: Vital,
    /// The kernel names the sender beside each message.
    names_senders: AtomicBool,
}

/// What came with one message.
#[derive(Debug)]
pub struct Received {
    /// Bytes in the buffer. 0 if the peer is gone.
    pub len: usize,
    /// Files that came along.
    pub files: Vec<OwnedFd>,
    /// More files were sent: the kernel closed them, for want of room in this process.
    pub lost_files: bool,
    /// The message was longer than the buffer.
    pub cut: bool,
}

impl Socket {
    /// Connects to `name` in `directory`.
    ///
    /// # Errors
    /// `NotFound`: there is no such name. `ConnectionRefused`: its server is dead.
    /// `PermissionDenied`: this user may not connect. `WouldBlock`: the server's backlog is full.
    pub fn connect(directory: &Directory, name: &str) -> io::Result<Self> {
        let fd = Vital::new(open()?);
        let path = directory.join(name);
        // Only a path that is too long for an address goes through the open directory.
        let address = match SocketAddrUnix::new(&path) {
            Ok(address) => address,
            Err(_) => return Ok(Self::own(connect_through(directory, &path, fd)?)),
        };
        connect(&fd, &address)?;
        Ok(Self::own(fd))
    }

    /// Wraps an end that no other process has.
    fn own(fd: Vital) -> Self {
        Self { fd, names_senders: AtomicBool::new(false) }
    }

    /// Makes the two ends of a connection without a name: one to keep, one to pass on.
    ///
    /// # Errors
    /// Too many open files.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self::own(Vital::new(ours)), theirs))
    }

    /// Adopts the other end of a [`pair`](Self::pair) that this process or a trusted process made.
    /// (An end that a peer has made is a [`SendingEnd`](crate::foreign::SendingEnd).)
    ///
    /// # Errors
    /// `InvalidData` if `fd` is not such an end.
    pub fn adopt(fd: OwnedFd) -> io::Result<Self> {
        match Self::is_one(&fd) {
            true => Ok(Self::own(Vital::new(fd))),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "what came is no connection")),
        }
    }

    /// Whether `fd` is such an end.
    pub fn is_one(fd: &OwnedFd) -> bool {
        // Only the kernel's own sockets answer this. Any other file reports that it is no socket.
        let kind = socket_domain(fd).and_then(|domain| Ok((domain, socket_type(fd)?)));
        matches!(kind, Ok((AddressFamily::UNIX, SocketType::SEQPACKET)))
    }

    /// Sends one message, with files. It never waits.
    ///
    /// # Errors
    /// `WouldBlock` if the peer does not read. `BrokenPipe` if it is gone.
    pub fn send(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        send(&self.fd, bytes, files)
    }

    /// Takes the next message, and the files that came along, into this process.
    ///
    /// Use this only for messages of this process or of a trusted one: the maker of a file decides
    /// how long closing it takes. For other messages see [`receive_plain`](Self::receive_plain).
    ///
    /// # Errors
    /// `WouldBlock` if there is no message. `InvalidData` if it is longer than `buffer`.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let received = self.receive_any(buffer)?;
        match received.cut {
            false => Ok(received),
            true => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the peer sent a message that is too long"))
            }
        }
    }

    /// As [`receive`](Self::receive), for a message of any length.
    ///
    /// # Errors
    /// `WouldBlock` if there is no message.
    pub fn receive_any(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let message = self.take(buffer, ALL, 0)?;
        Ok(Received { len: message.len, files: message.files, lost_files: message.lost, cut: message.cut })
    }

    /// Takes the next message, after a [`look`](Self::look) has shown that it brings no files.
    ///
    /// # Errors
    /// `WouldBlock` if there is no message.
    pub fn receive_plain(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let message = self.take(buffer, self.room_for_sender(), 0)?;
        Ok(Received { len: message.len, files: message.files, lost_files: message.lost, cut: message.cut })
    }

    /// Words that the sender's credentials take beside a message, if the kernel names the sender. A
    /// file does not fit there.
    pub(crate) fn room_for_sender(&self) -> usize {
        // Relaxed: the reader is the thread that asked for senders, or runs after it.
        if self.names_senders.load(Ordering::Relaxed) { SENDER } else { 0 }
    }

    /// Notes that the kernel names senders from now on.
    pub(crate) fn sets_names_senders(&self) {
        self.names_senders.store(true, Ordering::Relaxed);
    }

    /// Takes the next message, and `room` words of control messages beside it.
    pub(crate) fn take(&self, buffer: &mut [u8], room: usize, flags: libc::c_int) -> io::Result<Message> {
        let message = control_message::receive(self.as_fd(), buffer, room, flags)?;
        if message.unknown {
            // An unknown control message comes of an option that no honest domain sets. Each
            // further one might leave a descriptor open.
            self.hang_up();
        }
        Ok(message)
    }

    /// Ends the connection in both directions.
    pub fn hang_up(&self) {
        hang_up(&self.fd);
    }

    /// Lets the peer send no more. Its earlier messages stay in the queue, and messages can still
    /// be sent to it.
    pub fn receive_no_more(&self) {
        // If the connection is gone already, that is fine too.
        let _ = shutdown(&self.fd, Shutdown::Read);
    }

    /// Waits until a message has come or the peer is gone. Returns `false` if `deadline_ns` passes
    /// first.
    ///
    /// # Errors
    /// The errors of `poll`.
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

pub(crate) fn send(socket: impl AsFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many files for one message"));
    }
    sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

pub(crate) fn hang_up(socket: impl AsFd) {
    // If the connection is gone already, that is fine too.
    let _ = shutdown(socket, Shutdown::Both);
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> Self {
        socket.fd.into()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub(super) fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

pub(super) fn address(path: &Path, dir: &fs::File) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(path).or_else(|_| SocketAddrUnix::new(short(path, dir)))?)
}

/// An address holds 107 bytes. Through the open directory any path fits.
fn short(path: &Path, dir: &fs::File) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    Path::new(&format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name)
}

fn connect_through(directory: &Directory, path: &Path, fd: Vital) -> io::Result<Vital> {
    let dir = fs::File::open(directory.path())?;
    connect(&fd, &SocketAddrUnix::new(short(path, &dir))?)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Connected;
    use std::sync::atomic::AtomicU32;

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
        if let Err(e) = client.send(b"hello", &[client.as_fd()]) {
            assert_eq!(e.raw_os_error(), Some(1), "refused, since Linux 6.16");
        } else {
            server.receive(&mut [0; 16]).unwrap();
        }
        server.admit_files(true);
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
        let path = &living.standing.path;
        let kept = path.with_extension("kept");
        fs::rename(path, &kept).unwrap();
        assert!(!living.standing().is_replaced(), "it is gone");
        drop(living);
        // A socket file without a listener, as `kill -9` leaves it.
        fs::rename(&kept, directory.join("a")).unwrap();
        let again = Listening::bind(&directory, "a", 0o600).unwrap();
        drop(again);
        assert_eq!(Socket::connect(&directory, "a").unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::remove_dir(directory.path()).unwrap();
    }

    #[test]
    fn a_living_name_is_taken_over_and_stays() {
        let directory = directory();
        let old = Listening::bind(&directory, "a", 0o600).unwrap();
        let before = Socket::connect(&directory, "a").unwrap();
        let new = Listening::replace(&directory, "a", 0o600).unwrap();
        assert!(old.standing().is_replaced() && !new.standing().is_replaced());
        let after = Socket::connect(&directory, "a").unwrap();
        assert!(old.accept().is_ok(), "the one from before");
        let hint = old.accept().unwrap();
        assert_eq!(hint.receive(&mut [0; 8]).unwrap().len, 0, "it has ended without a message");
        assert!(old.accept().is_err(), "nobody else comes here");
        drop(old);
        assert!(new.accept().is_ok() && Socket::connect(&directory, "a").is_ok(), "the name stays");
        drop((before, after, new));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        // Where no domain had the name, this is an export like any other. A file that is no socket
        // stays.
        drop(Listening::replace(&directory, "a", 0o600).unwrap());
        fs::write(directory.join("a"), b"").unwrap();
        let refused = Listening::replace(&directory, "a", 0o600).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        fs::remove_dir_all(directory.path()).unwrap();
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
