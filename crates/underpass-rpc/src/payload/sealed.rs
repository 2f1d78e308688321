//! Bytes that travel without a copy.

use std::fmt;
use std::io::{self, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use underpass_os::{SealedMemory, Unsealed};
use underpass_wire::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types};

/// Bytes that nobody can change any more, and that are passed to another domain without a copy.
/// Passing them takes the same time whatever their number.
///
/// They lie in a memory file, which is sealed when all bytes are written. As an argument or a
/// result the file travels. The receiver checks its seals, maps it and reads the bytes in place, as
/// a `&[u8]`. It needs no copy to protect itself from later changes (LRPC, section 3.5), since
/// there are none.
///
/// Use it for large values of which the receiver reads a part, or that go to several receivers.
/// Making one takes fresh memory from the kernel. So if bytes travel once and are read whole, a
/// `Vec<u8>` is as fast.
///
/// A clone is the same memory. Each clone holds one open file, and counts as one in a call. The
/// memory is freed with the last clone, in whichever domain that is.
///
/// # Examples
/// ```
/// use std::io::Write;
/// use underpass::Sealed;
///
/// let bytes = Sealed::new(b"all at once")?;
/// assert_eq!(&bytes[4..6], b"at");
///
/// let mut writer = Sealed::writer()?;
/// for part in 0..10_000u32 {
///     writer.write_all(&part.to_le_bytes())?;
/// }
/// let bytes = writer.seal()?;
/// assert_eq!(bytes.len(), 40_000);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Sealed {
    memory: Arc<SealedMemory>,
}

/// Writes the bytes of a [`Sealed`], one portion after the other.
///
/// Small portions are buffered. Dropping it frees what was written.
#[derive(Debug)]
pub struct SealedWriter {
    to: io::BufWriter<Unsealed>,
}

impl Sealed {
    /// A copy of `bytes`.
    ///
    /// # Errors
    /// No memory, or too many open files: see `free` and `ulimit -n`.
    pub fn new(bytes: &[u8]) -> io::Result<Self> {
        let mut to = Unsealed::create("underpass-sealed")?;
        to.write_all(bytes)?;
        Ok(Self { memory: Arc::new(to.seal()?) })
    }

    /// Takes the bytes portion by portion, so that they need not lie anywhere else as a whole.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn writer() -> io::Result<SealedWriter> {
        Ok(SealedWriter {
            to: io::BufWriter::with_capacity(64 * 1024, Unsealed::create("underpass-sealed")?),
        })
    }
}

impl SealedWriter {
    /// Ends the writing, and seals the memory.
    ///
    /// # Errors
    /// As [`Sealed::new`].
    pub fn seal(self) -> io::Result<Sealed> {
        let unsealed = self.to.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Sealed { memory: Arc::new(unsealed.seal()?) })
    }
}

impl Write for SealedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Deref for Sealed {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory
    }
}

impl AsRef<[u8]> for Sealed {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsFd for Sealed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

/// Sealed memory from elsewhere: a `memfd` with the seals `F_SEAL_WRITE` and `F_SEAL_SHRINK`, of
/// ordinary pages that are all resident.
///
/// # Examples
/// ```
/// use std::os::fd::{AsFd, OwnedFd};
/// use underpass::Sealed;
///
/// let file: OwnedFd = Sealed::new(b"hello")?.as_fd().try_clone_to_owned()?;
/// assert_eq!(&*Sealed::try_from(file)?, b"hello");
/// assert!(Sealed::try_from(OwnedFd::from(std::fs::File::open("/dev/null")?)).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
impl TryFrom<OwnedFd> for Sealed {
    type Error = io::Error;

    fn try_from(file: OwnedFd) -> io::Result<Self> {
        Ok(Self { memory: Arc::new(SealedMemory::adopt(file)?) })
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Encode for Sealed {
    const FIXED: Option<usize> = Some(0);

    fn size(&self) -> usize {
        0
    }

    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        to.put_file(self.as_fd());
    }
}

impl Decode for Sealed {
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        Self::try_from(from.take_file()?).map_err(|_| DecodeError::BadValue { of: "Sealed" })
    }
}

impl Schema for Sealed {
    type Itself = Self;

    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("Sealed")
    }
}
