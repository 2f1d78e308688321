//! Pipes.

use crate::Async;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Stdio;
use underpass_os::descriptor;

/// Opens a pipe. As [`std::io::pipe`].
///
/// # Errors
/// Too many open files.
///
/// # Examples
/// ```
/// use std::io::{Read, Write};
/// use underpass::thread;
///
/// let (mut reader, mut writer) = underpass::io::pipe()?;
/// let all = thread::spawn(move || {
///     let mut words = String::new();
///     reader.read_to_string(&mut words).map(|_| words)
/// });
/// writer.write_all(b"hello")?;
/// drop(writer);
/// assert_eq!(all.join().unwrap()?, "hello");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    Ok((PipeReader(Async::new(reader)?), PipeWriter(Async::new(writer)?)))
}

/// The methods and conversions of both ends of a pipe.
macro_rules! end {
    ($ours:ident, $std:ty) => {
        impl $ours {
            /// The `Async` underneath, for deadlines.
            pub fn as_async(&self) -> &Async<$std> {
                &self.0
            }

            /// Another handle to the same end.
            ///
            /// # Errors
            /// Too many open files.
            pub fn try_clone(&self) -> io::Result<Self> {
                Ok(Self(Async::new_nonblocking(self.0.get_ref().try_clone()?)))
            }
        }

        /// Makes the end nonblocking, and its clones with it.
        impl TryFrom<$std> for $ours {
            type Error = io::Error;

            fn try_from(end: $std) -> io::Result<Self> {
                Async::new(end).map(Self)
            }
        }

        /// Makes the end blocking again, and its clones with it.
        impl TryFrom<$ours> for $std {
            type Error = io::Error;

            fn try_from(ours: $ours) -> io::Result<Self> {
                let end = ours.0.into_inner()?;
                descriptor::set_nonblocking(&end, false)?;
                Ok(end)
            }
        }

        /// Makes the end blocking again, as a child expects, and its clones with it.
        impl TryFrom<$ours> for Stdio {
            type Error = io::Error;

            fn try_from(ours: $ours) -> io::Result<Self> {
                <$std>::try_from(ours).map(Self::from)
            }
        }

        impl AsFd for $ours {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.as_fd()
            }
        }
    };
}

/// The end to read from. As [`std::io::PipeReader`].
#[derive(Debug)]
pub struct PipeReader(Async<io::PipeReader>);

end!(PipeReader, io::PipeReader);

/// The end to write to. As [`std::io::PipeWriter`].
#[derive(Debug)]
pub struct PipeWriter(Async<io::PipeWriter>);

end!(PipeWriter, io::PipeWriter);

impl Read for &PipeReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&self.0).read_vectored(bufs)
    }
}

impl Read for PipeReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

impl Write for &PipeWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&self.0).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.0).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for PipeWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
