//! Prepares a descriptor so that a thread can wait for it without blocking its kernel thread.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddr;

/// Sets whether operations on the open file behind `fd` return `WouldBlock` instead of blocking.
/// This holds for every descriptor of that open file, in other processes too.
///
/// # Errors
/// The errors of `ioctl`. Hardly any file refuses.
pub fn set_nonblocking(fd: impl AsFd, nonblocking: bool) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, nonblocking)?)
}

/// Returns a nonblocking TCP socket that has begun to connect to `to`. It becomes writable when it
/// has connected, or has failed to.
///
/// # Errors
/// The errors of `socket` and `connect`, except "in progress".
pub fn begin_tcp(to: SocketAddr) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&fd, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(e) => Err(e.into()),
    }
}

/// Returns a nonblocking Unix stream socket, connected to `to`.
///
/// # Errors
/// The errors of `socket` and `connect`. `WouldBlock` if the listener's backlog is full: no
/// nonblocking wait exists for that.
pub fn unix_stream(to: &UnixAddr) -> io::Result<OwnedFd> {
    let address = match (to.as_pathname(), to.as_abstract_name()) {
        (Some(path), _) => SocketAddrUnix::new(path)?,
        (None, Some(name)) => SocketAddrUnix::new_abstract_name(name)?,
        (None, None) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "a socket without a name")),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&fd, &address)?;
    Ok(fd)
}

/// Returns a descriptor that becomes readable once the process `pid` has ended. It surely means the
/// intended process only while nobody can have waited for that process. Its parent knows that.
///
/// # Errors
/// There is no such process, or too many files are open.
pub fn of_process(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_descriptor_says_that_it_would_block() {
        let (mut a, _b) = UnixStream::pair().unwrap();
        set_nonblocking(&a, true).unwrap();
        assert_eq!(a.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn connecting_is_begun_and_a_refusal_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::from(begin_tcp(listener.local_addr().unwrap()).unwrap());
        let (_accepted, from) = listener.accept().unwrap();
        assert_eq!(stream.local_addr().unwrap(), from);
    }

    #[test]
    fn abstract_names_are_connected_to() {
        let name = format!("underpass-os-descriptor-{}", std::process::id());
        let address = UnixAddr::from_abstract_name(name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        unix_stream(&address).unwrap();
        let none = UnixAddr::from_pathname("/nonexistent/underpass").unwrap();
        assert_eq!(unix_stream(&none).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_process_has_a_descriptor() {
        assert!(of_process(std::process::id()).is_ok());
        assert_eq!(of_process(0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
