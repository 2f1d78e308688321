//! Why a disk did not do what was asked of it.

use crate::BlockError;
use std::fmt;
use underpass::device::DeviceError;

/// Why a disk did not do what was asked of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum NvmeError {
    /// The device as such failed. *Remedy:* see [`DeviceError`]. After
    /// [`Late`](DeviceError::Late) the disk takes no more commands until it is
    /// [reset](crate::NvmeDisk::reset).
    Device(DeviceError),
    /// The controller failed, or says what can't be. *Remedy:* reset the disk; if that does not
    /// help, the disk is broken.
    Controller(&'static str),
    /// A command ended with this status: its type, and its code. *Remedy:* the tables of the NVMe
    /// specification.
    Status(u8, u8),
    /// The disk was reset while the command was under way. It may have been done, or not.
    Reset,
    /// An earlier command was late, so the disk takes no more. *Remedy:* reset the disk.
    Stopped,
    /// The bytes are not whole blocks, or lie beyond the end of the disk.
    OutOfBounds,
}

impl fmt::Display for NvmeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(e) => e.fmt(f),
            Self::Controller(what) => write!(f, "the controller of the disk failed: {what}; reset the disk"),
            Self::Status(kind, code) => {
                write!(
                    f,
                    "the disk ended the command with status {kind:#x}/{code:#x} of the NVMe specification"
                )
            }
            Self::Reset => f.write_str("the disk was reset while the command was under way; repeat it"),
            Self::Stopped => f.write_str("an earlier command was late; reset the disk"),
            Self::OutOfBounds => {
                f.write_str("the bytes are not whole blocks, or lie beyond the end of the disk")
            }
        }
    }
}

impl std::error::Error for NvmeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device(e) => Some(e),
            _ => None,
        }
    }
}

impl From<DeviceError> for NvmeError {
    fn from(e: DeviceError) -> Self {
        Self::Device(e)
    }
}

impl From<NvmeError> for BlockError {
    fn from(e: NvmeError) -> Self {
        match e {
            NvmeError::OutOfBounds => Self::OutOfBounds,
            NvmeError::Reset | NvmeError::Stopped => Self::Restarted,
            e => Self::Failed(e.to_string()),
        }
    }
}
