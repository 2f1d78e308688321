//! The source of bytes to decode, and of the files and interfaces beside them.

use crate::DecodeError;
use std::any::Any;
use std::os::fd::OwnedFd;

/// Supplies bytes that an untrusted peer wrote, each of them once.
///
/// Bytes that were taken are private: the peer cannot change them any more.
pub trait Source {
    /// The number of bytes that are left.
    fn remaining(&self) -> usize;

    /// Fills `out` with the next bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left. The source is unusable then.
    fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError>;

    /// Takes the next `len` bytes. Nothing is allocated unless they are there.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left. The source is unusable then.
    #[inline]
    fn take_vec(&mut self, len: usize) -> Result<Vec<u8>, DecodeError> {
        if len > self.remaining() {
            return Err(DecodeError::Truncated);
        }
        let mut out = vec![0; len];
        self.take(&mut out)?;
        Ok(out)
    }

    /// Takes the next file that came beside the bytes. Its sender may hold it too.
    ///
    /// # Errors
    /// [`DecodeError::NoFile`] if there is none. Most sources have none.
    #[inline]
    fn take_file(&mut self) -> Result<OwnedFd, DecodeError> {
        Err(DecodeError::NoFile)
    }

    /// Takes the next interface that came beside the bytes, as its stub wants it.
    ///
    /// # Errors
    /// [`DecodeError::NoInterface`] if there is none. Most sources have none.
    #[inline]
    fn take_interface(&mut self) -> Result<Box<dyn Any>, DecodeError> {
        Err(DecodeError::NoInterface)
    }
}

impl Source for &[u8] {
    #[inline]
    fn remaining(&self) -> usize {
        self.len()
    }

    #[inline]
    fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
        let (now, later) = self.split_at_checked(out.len()).ok_or(DecodeError::Truncated)?;
        out.copy_from_slice(now);
        *self = later;
        Ok(())
    }

    #[inline]
    fn take_vec(&mut self, len: usize) -> Result<Vec<u8>, DecodeError> {
        let (now, later) = self.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        *self = later;
        Ok(now.to_vec())
    }
}

impl<S: Source + ?Sized> Source for &mut S {
    #[inline]
    fn remaining(&self) -> usize {
        (**self).remaining()
    }

    #[inline]
    fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
        (**self).take(out)
    }

    #[inline]
    fn take_vec(&mut self, len: usize) -> Result<Vec<u8>, DecodeError> {
        (**self).take_vec(len)
    }

    #[inline]
    fn take_file(&mut self) -> Result<OwnedFd, DecodeError> {
        (**self).take_file()
    }

    #[inline]
    fn take_interface(&mut self) -> Result<Box<dyn Any>, DecodeError> {
        (**self).take_interface()
    }
}
