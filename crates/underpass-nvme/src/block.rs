//! The interface by which clients in other domains use a disk.

use std::fmt;
use underpass::{CallError, Wire};

/// What a disk is.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
pub struct BlockInfo {
    /// Bytes of a block.
    pub block: u32,
    /// Bytes of the disk.
    pub size: u64,
    /// The most bytes of one read or write.
    pub most: u32,
    /// As the disk says.
    pub model: String,
}

/// Why a disk did not do what a client asked for.
#[derive(Clone, Debug, PartialEq, Wire)]
pub enum BlockError {
    /// The bytes are not whole blocks, lie beyond the end of the disk, or are too many.
    OutOfBounds,
    /// The disk failed, as the text says. A write may have been done in part.
    Failed(String),
    /// The driver has started the disk again while this was under way. A write may have been done
    /// in part. Repeat it.
    Restarted,
    /// The call failed: most likely the driver's process has ended.
    Call(CallError),
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds => {
                f.write_str("the bytes are not whole blocks, lie beyond the end of the disk, or are too many")
            }
            Self::Failed(why) => f.write_str(why),
            Self::Restarted => f.write_str("the disk was started again; repeat the request"),
            Self::Call(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for BlockError {}

impl From<CallError> for BlockError {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

/// A disk.
#[underpass::interface(stateless)]
pub trait BlockDevice {
    /// What the disk is.
    ///
    /// # Errors
    /// The disk or the call failed.
    #[idempotent]
    fn info(&self) -> Result<BlockInfo, BlockError>;
    /// Reads `len` bytes, from the disk's byte `offset` on.
    ///
    /// # Errors
    /// See [`BlockError`].
    #[idempotent]
    fn read(&self, offset: u64, len: u32) -> Result<Vec<u8>, BlockError>;
    /// Writes bytes to the disk's byte `offset` and what follows. Writing the same again does no
    /// harm, unless another client writes there.
    ///
    /// # Errors
    /// See [`BlockError`].
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), BlockError>;
    /// Makes all writes that have returned last.
    ///
    /// # Errors
    /// See [`BlockError`].
    #[idempotent]
    fn flush(&self) -> Result<(), BlockError>;
}
