//! Unix datagram sockets.

use super::Shutdown;
use crate::Async;
use crate::timer::rest;
use std::io;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::time::Duration;
use underpass_os::clock;

/// How long a sender waits before it tries a full receiver again.
const PAUSE: Duration = Duration::from_millis(1);

/// As [`std::os::unix::net::UnixDatagram`]. Several threads may receive at the same time: each
/// datagram goes to one of them.
#[derive(Debug)]
pub struct UnixDatagram(Async<net::UnixDatagram>);

endpoint!(UnixDatagram, net::UnixDatagram);
timeouts!(UnixDatagram, net::UnixDatagram);

impl UnixDatagram {
    /// A socket at `path`, where no file may exist yet.
    ///
    /// # Errors
    /// `AddrInUse`: a file exists there; `NotFound`: no such directory; `PermissionDenied`.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        net::UnixDatagram::bind(path).and_then(Self::new)
    }

    /// A socket at `to`, a path or an abstract name.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_addr(to: &SocketAddr) -> io::Result<Self> {
        net::UnixDatagram::bind_addr(to).and_then(Self::new)
    }

    /// A socket without an address.
    ///
    /// # Errors
    /// Too many open files.
    pub fn unbound() -> io::Result<Self> {
        net::UnixDatagram::unbound().and_then(Self::new)
    }

    /// Two sockets that are connected to each other.
    ///
    /// # Errors
    /// Too many open files.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = net::UnixDatagram::pair()?;
        Ok((Self::new(a)?, Self::new(b)?))
    }

    /// Sets the peer of [`send`](Self::send).
    ///
    /// # Errors
    /// `NotFound`: there is no such socket; `ConnectionRefused`: no process has it open;
    /// `PermissionDenied`.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.0.get_ref().connect(path)
    }

    /// Waits for a datagram. Returns its length and its sender. Bytes for which `buf` has no room
    /// are lost.
    ///
    /// # Errors
    /// `TimedOut`; [cancelled](crate::is_cancelled).
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.receiving(|socket| socket.recv_from(buf))
    }

    /// Waits for a datagram. Returns its length.
    ///
    /// # Errors
    /// `TimedOut`; [cancelled](crate::is_cancelled).
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.receiving(|socket| socket.recv(buf))
    }

    /// Sends a datagram to the socket at `path`. Waits while its queue is full.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); `TimedOut`; [cancelled](crate::is_cancelled).
    pub fn send_to(&self, buf: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        self.send_to_addr(buf, &SocketAddr::from_pathname(path)?)
    }

    /// Sends a datagram to `to`, a path or an abstract name. Waits while its queue is full.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to).
    pub fn send_to_addr(&self, buf: &[u8], to: &SocketAddr) -> io::Result<usize> {
        let socket = self.0.get_ref();
        let mut limit = None;
        loop {
            match socket.send_to_addr(buf, to) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => return other,
            }
            // Linux reports this socket as writable however full the other one is, so there is no
            // event to wait for.
            let limit = match limit {
                Some(limit) => limit,
                None => *limit.insert(socket.write_timeout()?.map(clock::deadline_ns)),
            };
            if limit.is_some_and(|limit| limit <= clock::now_ns()) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let pause = clock::deadline_ns(PAUSE);
            rest(Some(limit.map_or(pause, |limit| limit.min(pause))))?;
        }
    }

    /// Sends a datagram to the peer. Waits while its queue is full.
    ///
    /// # Errors
    /// `TimedOut`; `ConnectionRefused`: the peer is gone; [cancelled](crate::is_cancelled).
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.sending(|socket| socket.send(buf))
    }

    /// Another handle to the same socket.
    ///
    /// # Errors
    /// Too many open files.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(Async::new_nonblocking(self.0.get_ref().try_clone()?)))
    }

    as_std! {
        /// Sets the peer of [`send`](Self::send), a path or an abstract name.
        fn connect_addr(&self, to: &SocketAddr) -> ();
        /// The address of the peer.
        fn peer_addr(&self) -> SocketAddr;
        /// The address of this socket.
        fn local_addr(&self) -> SocketAddr;
        /// Ends receiving, sending or both. Threads that wait for it go on.
        fn shutdown(&self, how: Shutdown) -> ();
        /// Takes the pending error.
        fn take_error(&self) -> Option<io::Error>;
    }
}
