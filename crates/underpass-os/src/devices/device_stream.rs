//! A stream over a Unix socket that carries files beside its bytes: how a driver talks to a device
//! that is another process.

use crate::clock::{now_ns, timespec};
use crate::sockets::control_message::{ALL, receive};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, connect, sendmsg, shutdown, socket_with, socketpair,
};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// One end of a stream. No operation but [`wait`](Self::wait) blocks.
#[derive(Debug)]
pub struct DeviceStream {
    fd: OwnedFd,
}

/// What a thread waits for at a [`DeviceStream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// There are bytes to receive, or the peer is gone.
    Readable,
    /// There is room to send, or the peer is gone.
    Writable,
}

impl DeviceStream {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// `NotFound`, `ConnectionRefused`, `PermissionDenied`. `WouldBlock` if the backlog of the
    /// listener is full.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(Self { fd })
    }

    /// The two ends of a stream without a name.
    ///
    /// # Errors
    /// Too many open files.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Self { fd: one }, Self { fd: other }))
    }

    /// Wraps a connected end.
    ///
    /// # Errors
    /// `InvalidData` if `fd` is no Unix stream.
    pub fn adopt(fd: OwnedFd) -> io::Result<Self> {
        let kind = socket_domain(&fd).and_then(|domain| Ok((domain, socket_type(&fd)?)));
        match kind {
            Ok((AddressFamily::UNIX, SocketType::STREAM)) => Ok(Self { fd }),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the descriptor is no Unix stream")),
        }
    }

    /// Sends as many of `bytes` as there is room for, and returns how many. If there is room for
    /// one byte, all of `files` go along with it.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room. `BrokenPipe` if the peer is gone. `InvalidInput` if there
    /// are more than 16 files.
    pub fn send(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many files for one message"));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match sendmsg(&self.fd, &[IoSlice::new(bytes)], &mut control, flags) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }

    /// Receives bytes into `buffer`, and adds the files that came along to `files`. Returns the
    /// number of bytes. 0: the peer is gone.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has come. `InvalidData` if the kernel reports something beside the
    /// bytes that this crate does not know.
    pub fn receive(&self, buffer: &mut [u8], files: &mut Vec<OwnedFd>) -> io::Result<usize> {
        loop {
            match receive(self.fd.as_fd(), buffer, ALL, 0) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
                Ok(message) if message.unknown => {
                    self.hang_up();
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "an unknown control message came",
                    ));
                }
                Ok(mut message) => {
                    files.append(&mut message.files);
                    return Ok(message.len);
                }
            }
        }
    }

    /// Waits in the kernel for `event`. Returns `false` if `deadline_ns` passes first.
    ///
    /// # Errors
    /// The errors of `poll`.
    pub fn wait(&self, event: StreamEvent, deadline_ns: u64) -> io::Result<bool> {
        let flags = match event {
            StreamEvent::Readable => PollFlags::IN,
            StreamEvent::Writable => PollFlags::OUT,
        };
        loop {
            let left = timespec(deadline_ns.saturating_sub(now_ns()));
            match poll(&mut [PollFd::new(&self.fd, flags)], Some(&left)) {
                Err(Errno::INTR) => {}
                ready => return Ok(ready? != 0),
            }
        }
    }

    /// Ends the connection in both directions.
    pub fn hang_up(&self) {
        // If the connection is gone already, that is fine too.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }
}

impl AsFd for DeviceStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<DeviceStream> for OwnedFd {
    fn from(stream: DeviceStream) -> Self {
        stream.fd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_with_the_first_byte() {
        let (one, other) = DeviceStream::pair().unwrap();
        assert!(!other.wait(StreamEvent::Readable, 0).unwrap());
        assert_eq!(one.send(b"hello", &[one.as_fd()]).unwrap(), 5);
        let (mut buffer, mut files) = ([0; 3], Vec::new());
        assert_eq!(other.receive(&mut buffer, &mut files).unwrap(), 3);
        assert_eq!((&buffer, files.len()), (b"hel", 1));
        drop((one, files));
        assert_eq!(other.receive(&mut buffer, &mut Vec::new()).unwrap(), 2);
        assert!(other.wait(StreamEvent::Readable, 0).unwrap());
        assert_eq!(other.receive(&mut buffer, &mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn a_full_stream_is_an_error_and_not_a_wait() {
        let (one, _other) = DeviceStream::pair().unwrap();
        let full = loop {
            match one.send(&[0; 4096], &[]) {
                Ok(_) => {}
                Err(e) => break e,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(!one.wait(StreamEvent::Writable, 0).unwrap());
    }

    #[test]
    fn nothing_but_a_unix_stream_is_adopted() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(DeviceStream::adopt(file.into()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let (stream, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(DeviceStream::adopt(stream.into()).is_ok());
    }
}
