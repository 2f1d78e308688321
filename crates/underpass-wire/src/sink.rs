//! The destination of encoded bytes, and of the files and interfaces beside them.

use std::any::Any;
use std::os::fd::BorrowedFd;

/// Takes the bytes of values, one after the other.
///
/// Putting cannot fail. The maker of a sink asks [`Encode::size`](crate::Encode::size) first, and
/// makes the sink large enough.
///
/// # Examples
/// ```
/// use underpass_wire::{Encode, Sink};
///
/// /// Counts bytes and drops them.
/// struct Count(usize);
///
/// impl Sink for Count {
///     fn put(&mut self, bytes: &[u8]) {
///         self.0 += bytes.len();
///     }
/// }
///
/// let mut count = Count(0);
/// (7u32, "seven").encode(&mut count);
/// assert_eq!(count.0, (7u32, "seven").size());
/// ```
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Sends `file` beside the bytes, after the files that were put before. Most sinks take no
    /// files: the value then decodes to [`DecodeError::NoFile`](crate::DecodeError::NoFile).
    #[inline]
    fn put_file(&mut self, file: BorrowedFd<'_>) {
        let _ = file;
    }

    /// Sends a stream beside the bytes: `files` lead to it, and the bytes that were put last
    /// describe it. For most sinks these are files as others are.
    #[inline]
    fn put_stream(&mut self, files: [BorrowedFd<'_>; 3]) {
        files.into_iter().for_each(|file| self.put_file(file));
    }

    /// Sends an interface beside the bytes, after those that were put before. `interface` is what
    /// the stub has for that. Most sinks take none: the stub then decodes to
    /// [`DecodeError::NoInterface`](crate::DecodeError::NoInterface).
    #[inline]
    fn put_interface(&mut self, interface: &dyn Any) {
        let _ = interface;
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        (**self).put(bytes);
    }

    #[inline]
    fn put_file(&mut self, file: BorrowedFd<'_>) {
        (**self).put_file(file);
    }

    #[inline]
    fn put_stream(&mut self, files: [BorrowedFd<'_>; 3]) {
        (**self).put_stream(files);
    }

    #[inline]
    fn put_interface(&mut self, interface: &dyn Any) {
        (**self).put_interface(interface);
    }
}

/// Writes into a slice, from its beginning.
///
/// # Examples
/// ```
/// use underpass_wire::{Encode, SliceSink};
///
/// let mut cell = [0; 16];
/// let mut sink = SliceSink::new(&mut cell);
/// (1u16, 2u32).encode(&mut sink);
/// assert_eq!(sink.left(), 10);
/// assert_eq!(cell[..6], [1, 0, 2, 0, 0, 0]);
/// ```
#[derive(Debug)]
pub struct SliceSink<'a> {
    rest: &'a mut [u8],
    overflowed: bool,
}

impl<'a> SliceSink<'a> {
    /// Writes into `bytes`.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { rest: bytes, overflowed: false }
    }

    /// The number of bytes that there is still room for.
    #[inline]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Whether more was put than there was room for: a file, an interface, or bytes of an `Encode`
    /// with a `size` that was too small. The surplus is not written.
    #[inline]
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }
}

impl Sink for SliceSink<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        match std::mem::take(&mut self.rest).split_at_mut_checked(bytes.len()) {
            Some((now, later)) => {
                now.copy_from_slice(bytes);
                self.rest = later;
            }
            None => self.overflowed = true,
        }
    }

    #[inline]
    fn put_file(&mut self, _: BorrowedFd<'_>) {
        self.overflowed = true;
    }

    #[inline]
    fn put_interface(&mut self, _: &dyn Any) {
        self.overflowed = true;
    }
}
