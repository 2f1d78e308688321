//! Unix stream sockets.

use super::Shutdown;
use crate::Async;
use std::io;
use std::iter::FusedIterator;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use underpass_os::descriptor;
use underpass_threads::blocking;

/// As [`std::os::unix::net::UnixStream`].
#[derive(Debug)]
pub struct UnixStream(Async<net::UnixStream>);

endpoint!(UnixStream, net::UnixStream);
timeouts!(UnixStream, net::UnixStream);
stream!(UnixStream);

impl UnixStream {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// `NotFound`: there is no such socket; `ConnectionRefused`: nobody listens;
    /// `PermissionDenied`.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Connects to `to`, a path or an abstract name.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_addr(to: &SocketAddr) -> io::Result<Self> {
        match descriptor::unix_stream(to) {
            // The listener's backlog is full. The kernel reports no readiness for that, so only a
            // blocking connect can wait for it.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let to = to.clone();
                blocking(move || net::UnixStream::connect_addr(&to)).and_then(Self::new)
            }
            Err(e) => Err(e),
            Ok(fd) => Ok(Self(Async::new_nonblocking(fd.into()))),
        }
    }

    /// Two sockets that are connected to each other.
    ///
    /// # Errors
    /// Too many open files.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = net::UnixStream::pair()?;
        Ok((Self::new(a)?, Self::new(b)?))
    }

    /// Another handle to the same socket.
    ///
    /// # Errors
    /// Too many open files.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(Async::new_nonblocking(self.0.get_ref().try_clone()?)))
    }

    as_std! {
        /// The address of the other end.
        fn peer_addr(&self) -> SocketAddr;
        /// The address of this end.
        fn local_addr(&self) -> SocketAddr;
        /// Ends reading, writing or both. Threads that wait for it go on.
        fn shutdown(&self, how: Shutdown) -> ();
        /// Takes the pending error.
        fn take_error(&self) -> Option<io::Error>;
    }
}

/// As [`std::os::unix::net::UnixListener`]. Several threads may [`accept`](Self::accept) at the
/// same time.
#[derive(Debug)]
pub struct UnixListener(Async<net::UnixListener>);

endpoint!(UnixListener, net::UnixListener);

impl UnixListener {
    /// Listens at `path`, where no file may exist yet.
    ///
    /// # Errors
    /// `AddrInUse`: a file exists there; `NotFound`: no such directory; `PermissionDenied`.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        net::UnixListener::bind(path).and_then(Self::new)
    }

    /// Listens at `to`, a path or an abstract name.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_addr(to: &SocketAddr) -> io::Result<Self> {
        net::UnixListener::bind_addr(to).and_then(Self::new)
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// Too many open files; [cancelled](crate::is_cancelled).
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, from) = self.0.read_with(net::UnixListener::accept)?;
        Ok((UnixStream::new(stream)?, from))
    }

    /// Connections, one after the other, without end.
    pub fn incoming(&self) -> UnixIncoming<'_> {
        UnixIncoming { listener: self }
    }

    /// Another handle to the same socket.
    ///
    /// # Errors
    /// Too many open files.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(Async::new_nonblocking(self.0.get_ref().try_clone()?)))
    }

    as_std! {
        /// The address of the listener.
        fn local_addr(&self) -> SocketAddr;
        /// Takes the pending error.
        fn take_error(&self) -> Option<io::Error>;
    }
}

/// The connections of a [`UnixListener`]. It never ends: leave the loop when
/// [`is_cancelled`](crate::is_cancelled) is true of an error.
#[derive(Debug)]
pub struct UnixIncoming<'a> {
    listener: &'a UnixListener,
}

impl Iterator for UnixIncoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for UnixIncoming<'_> {}
