//! Sockets with the names and shapes of [`std::net`] and [`std::os::unix::net`]. Their operations
//! block the calling thread and nothing else.
//!
//! What differs from `std`:
//!
//! * A timeout ends an operation with [`TimedOut`](std::io::ErrorKind::TimedOut), not `WouldBlock`.
//! * A thread that is cancelled while it waits gets an error that
//!   [`is_cancelled`](crate::is_cancelled) recognizes.
//! * Any number of threads may use one socket at the same time. No wake-up is lost.
//! * The sockets are nonblocking underneath, so there is no `set_nonblocking`. `TryFrom` turns
//!   those of `std` into these and back. The mode belongs to the open file, and so to all its
//!   clones.
//! * `as_async` gives the [`Async`](crate::Async) underneath: for deadlines, and for operations
//!   that are missing here.

/// What all sockets have: the `Async` underneath, conversions, the descriptor.
macro_rules! endpoint {
    ($ours:ident, $std:ty) => {
        impl $ours {
            /// The `Async` underneath, for deadlines and for operations that are missing here.
            pub fn as_async(&self) -> &$crate::Async<$std> {
                &self.0
            }

            fn new(socket: $std) -> std::io::Result<Self> {
                $crate::Async::new(socket).map(Self)
            }
        }

        impl From<$crate::Async<$std>> for $ours {
            fn from(io: $crate::Async<$std>) -> Self {
                Self(io)
            }
        }

        impl From<$ours> for $crate::Async<$std> {
            fn from(ours: $ours) -> Self {
                ours.0
            }
        }

        /// Makes the socket nonblocking, and its clones with it.
        impl TryFrom<$std> for $ours {
            type Error = std::io::Error;

            fn try_from(socket: $std) -> std::io::Result<Self> {
                Self::new(socket)
            }
        }

        /// Makes the socket blocking again, and its clones with it.
        impl TryFrom<$ours> for $std {
            type Error = std::io::Error;

            fn try_from(ours: $ours) -> std::io::Result<Self> {
                let socket = ours.0.into_inner()?;
                underpass_os::descriptor::set_nonblocking(&socket, false)?;
                Ok(socket)
            }
        }

        impl std::os::fd::AsFd for $ours {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        impl std::os::fd::AsRawFd for $ours {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsRawFd::as_raw_fd(&self.0)
            }
        }
    };
}

/// `Read` or `Write` of `$ours` and `&$ours`, by `$through(&self, direction's Async operation)`.
macro_rules! stream {
    ($ours:ident) => {
        impl std::io::Read for &$ours {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.receiving(|mut socket| socket.read(buf))
            }

            fn read_vectored(&mut self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                self.receiving(|mut socket| socket.read_vectored(bufs))
            }
        }

        impl std::io::Write for &$ours {
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                self.sending(|mut socket| socket.write(buf))
            }

            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                self.sending(|mut socket| socket.write_vectored(bufs))
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        impl std::io::Read for $ours {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                (&*self).read(buf)
            }

            fn read_vectored(&mut self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                (&*self).read_vectored(bufs)
            }
        }

        impl std::io::Write for $ours {
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                (&*self).write(buf)
            }

            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                (&*self).write_vectored(bufs)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                (&*self).flush()
            }
        }
    };
}

/// The two timeouts, and the operations that obey them. The kernel keeps the timeouts with the
/// socket, so clones share them.
macro_rules! timeouts {
    ($ours:ident, $std:ty) => {
        impl $ours {
            /// Ends each receiving operation with `TimedOut` after `span`. `None`: never.
            ///
            /// # Errors
            /// `InvalidInput` if `span` is zero.
            pub fn set_read_timeout(&self, span: Option<std::time::Duration>) -> std::io::Result<()> {
                self.0.get_ref().set_read_timeout(span)
            }

            /// Ends each sending operation with `TimedOut` after `span`. `None`: never.
            ///
            /// # Errors
            /// `InvalidInput` if `span` is zero.
            pub fn set_write_timeout(&self, span: Option<std::time::Duration>) -> std::io::Result<()> {
                self.0.get_ref().set_write_timeout(span)
            }

            /// The timeout of receiving operations, as the kernel rounds it.
            ///
            /// # Errors
            /// Those of `getsockopt`.
            pub fn read_timeout(&self) -> std::io::Result<Option<std::time::Duration>> {
                self.0.get_ref().read_timeout()
            }

            /// The timeout of sending operations, as the kernel rounds it.
            ///
            /// # Errors
            /// Those of `getsockopt`.
            pub fn write_timeout(&self) -> std::io::Result<Option<std::time::Duration>> {
                self.0.get_ref().write_timeout()
            }

            fn receiving<R>(&self, operation: impl FnMut(&$std) -> std::io::Result<R>) -> std::io::Result<R> {
                let limit = |socket: &$std| Ok(socket.read_timeout()?.map(underpass_os::clock::deadline_ns));
                self.0.attempt($crate::direction::Direction::Read, limit, operation)
            }

            fn sending<R>(&self, operation: impl FnMut(&$std) -> std::io::Result<R>) -> std::io::Result<R> {
                let limit = |socket: &$std| Ok(socket.write_timeout()?.map(underpass_os::clock::deadline_ns));
                self.0.attempt($crate::direction::Direction::Write, limit, operation)
            }
        }
    };
}

/// Methods that only call those of `std`.
macro_rules! as_std {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $result:ty;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            /// As `std`'s method of this name.
            pub fn $name(&self $(, $arg: $type)*) -> std::io::Result<$result> {
                self.0.get_ref().$name($($arg),*)
            }
        )*
    };
}

mod names;
mod tcp;
mod udp;
mod unix;
mod unix_datagram;

pub use names::ToSocketAddrs;
pub use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixIncoming, UnixListener, UnixStream};
pub use unix_datagram::UnixDatagram;
