//! TCP streams and listeners.

use super::names::each;
use super::{Shutdown, SocketAddr, ToSocketAddrs};
use crate::Async;
use crate::direction::Direction;
use crate::event_source::WaitOptions;
use std::io;
use std::iter::FusedIterator;
use std::net;
use std::time::Duration;
use underpass_os::{clock, descriptor};

/// As [`std::net::TcpStream`].
///
/// # Examples
/// ```
/// use std::io::{Read, Write};
/// use underpass::io::net::{TcpListener, TcpStream};
/// use underpass::thread;
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let client = thread::spawn(move || {
///     let mut stream = TcpStream::connect(address)?;
///     stream.write_all(b"hello")
/// });
/// let (mut stream, _from) = listener.accept()?;
/// let mut words = String::new();
/// stream.read_to_string(&mut words)?;
/// assert_eq!(words, "hello");
/// client.join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TcpStream(Async<net::TcpStream>);

endpoint!(TcpStream, net::TcpStream);
timeouts!(TcpStream, net::TcpStream);
stream!(TcpStream);

impl TcpStream {
    /// Connects to the first of the addresses that answers.
    ///
    /// # Errors
    /// The error of the last address; [cancelled](crate::is_cancelled).
    pub fn connect(to: impl ToSocketAddrs) -> io::Result<Self> {
        each(to, |address| Self::connect_to(address, WaitOptions::ENDLESS))
    }

    /// Connects to `to`, within `span`.
    ///
    /// # Errors
    /// `TimedOut`; `InvalidInput` if `span` is zero; an error of the address;
    /// [cancelled](crate::is_cancelled).
    pub fn connect_timeout(to: &SocketAddr, span: Duration) -> io::Result<Self> {
        if span.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a timeout of zero; no connection is that fast",
            ));
        }
        Self::connect_to(*to, WaitOptions::until(Some(clock::deadline_ns(span))))
    }

    fn connect_to(to: SocketAddr, options: WaitOptions) -> io::Result<Self> {
        let stream = Self(Async::new_nonblocking(descriptor::begin_tcp(to)?.into()));
        loop {
            stream.0.wait(Direction::Write, options)?;
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
            // If the socket were reported writable by mistake, it would be neither connected nor
            // refused.
            match stream.peer_addr() {
                Err(e) if e.kind() == io::ErrorKind::NotConnected => {}
                Err(e) => return Err(e),
                Ok(_) => return Ok(stream),
            }
        }
    }

    /// Another handle to the same socket.
    ///
    /// # Errors
    /// Too many open files.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(Async::new_nonblocking(self.0.get_ref().try_clone()?)))
    }

    /// Waits for bytes and copies them. The next read returns them again.
    ///
    /// # Errors
    /// As for reading.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.receiving(|socket| socket.peek(buf))
    }

    as_std! {
        /// The address of the other end.
        fn peer_addr(&self) -> SocketAddr;
        /// The address of this end.
        fn local_addr(&self) -> SocketAddr;
        /// Ends reading, writing or both. Threads that wait for it go on.
        fn shutdown(&self, how: Shutdown) -> ();
        /// Whether small segments are sent at once.
        fn set_nodelay(&self, nodelay: bool) -> ();
        /// Whether small segments are sent at once.
        fn nodelay(&self) -> bool;
        /// The most hops of a packet.
        fn set_ttl(&self, ttl: u32) -> ();
        /// The most hops of a packet.
        fn ttl(&self) -> u32;
        /// Takes the pending error.
        fn take_error(&self) -> Option<io::Error>;
    }
}

/// As [`std::net::TcpListener`]. Several threads may [`accept`](Self::accept) at the same time.
#[derive(Debug)]
pub struct TcpListener(Async<net::TcpListener>);

endpoint!(TcpListener, net::TcpListener);

impl TcpListener {
    /// Listens on the first of the addresses that is available. Port 0 stands for any free port.
    ///
    /// # Errors
    /// `AddrInUse`, `PermissionDenied`, or another error of the last address.
    pub fn bind(to: impl ToSocketAddrs) -> io::Result<Self> {
        each(to, net::TcpListener::bind).and_then(Self::new)
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// Too many open files; an error of a peer that has gone again: accept another one.
    /// [Cancelled](crate::is_cancelled).
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, from) = self.0.read_with(net::TcpListener::accept)?;
        Ok((TcpStream::new(stream)?, from))
    }

    /// Connections, one after the other, without end.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Another handle to the same socket.
    ///
    /// # Errors
    /// Too many open files.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(Async::new_nonblocking(self.0.get_ref().try_clone()?)))
    }

    as_std! {
        /// The address listened on.
        fn local_addr(&self) -> SocketAddr;
        /// The most hops of a packet.
        fn set_ttl(&self, ttl: u32) -> ();
        /// The most hops of a packet.
        fn ttl(&self) -> u32;
        /// Takes the pending error.
        fn take_error(&self) -> Option<io::Error>;
    }
}

/// The connections of a [`TcpListener`]. It never ends: leave the loop when
/// [`is_cancelled`](crate::is_cancelled) is true of an error.
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for Incoming<'_> {}
