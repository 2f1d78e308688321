//! Resolving host names to addresses, without holding up a kernel thread.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::vec::IntoIter;
use underpass_threads::blocking;

/// Something that can be resolved to socket addresses: what [`std::net::ToSocketAddrs`] takes.
///
/// Host names are looked up on a spare kernel thread. Only the calling thread waits.
///
/// # Examples
/// ```
/// use underpass::io::net::ToSocketAddrs;
///
/// let mut found = "127.0.0.1:7".to_socket_addrs()?;
/// assert_eq!(found.next(), Some(([127, 0, 0, 1], 7).into()));
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait ToSocketAddrs {
    /// The addresses.
    type Iter: Iterator<Item = SocketAddr>;

    /// Resolves it.
    ///
    /// # Errors
    /// `InvalidInput` if it is not an address; the resolver's errors for names.
    fn to_socket_addrs(&self) -> io::Result<Self::Iter>;
}

/// Tries `operation` with each address until one succeeds.
pub(crate) fn each<T>(
    names: impl ToSocketAddrs,
    mut operation: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for address in names.to_socket_addrs()? {
        match operation(address) {
            // A cancelled thread must not go on to the next address.
            Err(e) if crate::is_cancelled(&e) => return Err(e),
            Err(e) => last = Some(e),
            done => return done,
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the name has no address")))
}

/// Types without a host name resolve as in `std`.
macro_rules! at_once {
    ($($type:ty),*) => {
        $(impl ToSocketAddrs for $type {
            type Iter = std::option::IntoIter<SocketAddr>;

            fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
                std::net::ToSocketAddrs::to_socket_addrs(self)
            }
        })*
    };
}

at_once!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

impl ToSocketAddrs for (&str, u16) {
    type Iter = IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        let (host, port) = *self;
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)].into_iter());
        }
        let host = host.to_owned();
        blocking(move || std::net::ToSocketAddrs::to_socket_addrs(&(&*host, port)))
    }
}

impl ToSocketAddrs for (String, u16) {
    type Iter = IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (&*self.0, self.1).to_socket_addrs()
    }
}

impl ToSocketAddrs for str {
    type Iter = IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        if let Ok(address) = self.parse::<SocketAddr>() {
            return Ok(vec![address].into_iter());
        }
        let name = self.to_owned();
        blocking(move || std::net::ToSocketAddrs::to_socket_addrs(&*name))
    }
}

impl ToSocketAddrs for String {
    type Iter = IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (**self).to_socket_addrs()
    }
}

impl<'a> ToSocketAddrs for &'a [SocketAddr] {
    type Iter = std::iter::Cloned<std::slice::Iter<'a, SocketAddr>>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        Ok(self.iter().cloned())
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    type Iter = T::Iter;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (**self).to_socket_addrs()
    }
}
