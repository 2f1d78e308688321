//! The ends of a child's pipes that its parent holds.

use crate::Async;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{self, Stdio};
use underpass_os::descriptor;

macro_rules! end {
    ($(#[$doc:meta])* $ours:ident, $std:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $ours(Async<$std>);

        impl $ours {
            /// The `Async` underneath, for deadlines.
            pub fn as_async(&self) -> &Async<$std> {
                &self.0
            }
        }

        impl TryFrom<$std> for $ours {
            type Error = io::Error;

            fn try_from(end: $std) -> io::Result<Self> {
                Async::new(end).map(Self)
            }
        }

        /// Makes the end blocking again, as another child expects.
        impl TryFrom<$ours> for Stdio {
            type Error = io::Error;

            fn try_from(ours: $ours) -> io::Result<Self> {
                let end = ours.0.into_inner()?;
                descriptor::set_nonblocking(&end, false)?;
                Ok(end.into())
            }
        }

        impl AsFd for $ours {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.as_fd()
            }
        }
    };
}

macro_rules! reader {
    ($ours:ident) => {
        impl Read for $ours {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.read(buf)
            }

            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.0.read_vectored(bufs)
            }
        }
    };
}

end!(
    /// Writes to the child's standard input. Dropping it ends that input. As
    /// [`std::process::ChildStdin`].
    ChildStdin,
    process::ChildStdin
);
end!(
    /// Reads the child's standard output. As [`std::process::ChildStdout`].
    ChildStdout,
    process::ChildStdout
);
end!(
    /// Reads the child's standard error output. As [`std::process::ChildStderr`].
    ChildStderr,
    process::ChildStderr
);
reader!(ChildStdout);
reader!(ChildStderr);

impl Write for ChildStdin {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
