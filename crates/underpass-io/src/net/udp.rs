//! UDP sockets.

use super::names::each;
use super::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use crate::Async;
use std::io;
use std::net;

/// As [`std::net::UdpSocket`]. Several threads may receive at the same time: each datagram goes to
/// one of them.
///
/// # Examples
/// ```
/// use underpass::io::net::UdpSocket;
///
/// let (a, b) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
/// a.send_to(b"hello", b.local_addr()?)?;
/// let mut buffer = [0; 16];
/// assert_eq!(b.recv_from(&mut buffer)?, (5, a.local_addr()?));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct UdpSocket(Async<net::UdpSocket>);

endpoint!(UdpSocket, net::UdpSocket);
timeouts!(UdpSocket, net::UdpSocket);

impl UdpSocket {
    /// Binds the first of the addresses that is available. Port 0 stands for any free port.
    ///
    /// # Errors
    /// `AddrInUse`, `PermissionDenied`, or another error of the last address.
    pub fn bind(to: impl ToSocketAddrs) -> io::Result<Self> {
        each(to, net::UdpSocket::bind).and_then(Self::new)
    }

    /// Sets the peer of [`send`](Self::send) and [`recv`](Self::recv): the first of the addresses
    /// that works.
    ///
    /// # Errors
    /// The error of the last address.
    pub fn connect(&self, to: impl ToSocketAddrs) -> io::Result<()> {
        each(to, |address| self.0.get_ref().connect(address))
    }

    /// Waits for a datagram. Returns its length and its sender. Bytes for which `buf` has no room
    /// are lost.
    ///
    /// # Errors
    /// `TimedOut`; [cancelled](crate::is_cancelled).
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.receiving(|socket| socket.recv_from(buf))
    }

    /// As [`recv_from`](Self::recv_from), and leaves the datagram to be received again.
    ///
    /// # Errors
    /// As `recv_from`.
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.receiving(|socket| socket.peek_from(buf))
    }

    /// Waits for a datagram of the peer.
    ///
    /// # Errors
    /// `TimedOut`; `ConnectionRefused` if the peer refused an earlier datagram;
    /// [cancelled](crate::is_cancelled).
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.receiving(|socket| socket.recv(buf))
    }

    /// As [`recv`](Self::recv), and leaves the datagram to be received again.
    ///
    /// # Errors
    /// As `recv`.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.receiving(|socket| socket.peek(buf))
    }

    /// Sends a datagram to the first of the addresses.
    ///
    /// # Errors
    /// `InvalidInput` if there is no address; `TimedOut`; [cancelled](crate::is_cancelled); the
    /// kernel's errors for the datagram.
    pub fn send_to(&self, buf: &[u8], to: impl ToSocketAddrs) -> io::Result<usize> {
        let Some(address) = to.to_socket_addrs()?.next() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name has no address"));
        };
        self.sending(|socket| socket.send_to(buf, address))
    }

    /// Sends a datagram to the peer.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
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
        /// The address of the peer.
        fn peer_addr(&self) -> SocketAddr;
        /// The address of this socket.
        fn local_addr(&self) -> SocketAddr;
        /// Whether datagrams may be sent to broadcast addresses.
        fn set_broadcast(&self, broadcast: bool) -> ();
        /// Whether datagrams may be sent to broadcast addresses.
        fn broadcast(&self) -> bool;
        /// Whether this host receives its own IPv4 multicasts.
        fn set_multicast_loop_v4(&self, heard: bool) -> ();
        /// Whether this host receives its own IPv4 multicasts.
        fn multicast_loop_v4(&self) -> bool;
        /// The most hops of an IPv4 multicast.
        fn set_multicast_ttl_v4(&self, ttl: u32) -> ();
        /// The most hops of an IPv4 multicast.
        fn multicast_ttl_v4(&self) -> u32;
        /// Whether this host receives its own IPv6 multicasts.
        fn set_multicast_loop_v6(&self, heard: bool) -> ();
        /// Whether this host receives its own IPv6 multicasts.
        fn multicast_loop_v6(&self) -> bool;
        /// The most hops of a packet.
        fn set_ttl(&self, ttl: u32) -> ();
        /// The most hops of a packet.
        fn ttl(&self) -> u32;
        /// Joins the multicast group `group` on `interface`.
        fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
        /// Joins the multicast group `group` on the interface of this index (0: any).
        fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> ();
        /// Leaves the group.
        fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
        /// Leaves the group.
        fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> ();
        /// Takes the pending error.
        fn take_error(&self) -> Option<io::Error>;
    }
}
