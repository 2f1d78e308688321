//! Why a disk did not do what was asked of it.

use std::fmt;
use underpass::device::DeviceError;
use underpass_nvme::BlockError;

/// Why a disk did not do what was asked of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum VirtioError {
    /// The device as such failed. *Remedy:* see [`DeviceError`]. After
    /// [`Late`](DeviceError::Late) the disk takes no more requests until it is
    /// [reset](crate::VirtioDisk::reset).
    Device(DeviceError),
    /// It is no disk that this driver can drive, for this reason.
    Unusable(&'static str),
    /// The disk ended the request with this status: 1 for an error, 2 for a request that it lacks.
    Status(u8),
    /// The disk was reset while the request was under way. It may have been done, or not.
    Reset,
    /// An earlier request was late, so the disk takes no more. *Remedy:* reset the disk.
    Stopped,
    /// The bytes are not whole sectors of 512 bytes, or lie beyond the end of the disk.
    OutOfBounds,
}

impl fmt::Display for VirtioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(e) => e.fmt(f),
            Self::Unusable(why) => write!(f, "this is no virtio disk that can be driven: {why}"),
            Self::Status(status) => write!(f, "the disk ended the request with status {status}"),
            Self::Reset => f.write_str("the disk was reset while the request was under way; repeat it"),
            Self::Stopped => f.write_str("an earlier request was late; reset the disk"),
            Self::OutOfBounds => {
                f.write_str("the bytes are not whole sectors, or lie beyond the end of the disk")
            }
        }
    }
}

impl std::error::Error for VirtioError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device(e) => Some(e),
            _ => None,
        }
    }
}

impl From<DeviceError> for VirtioError {
    fn from(e: DeviceError) -> Self {
        Self::Device(e)
    }
}

impl From<VirtioError> for BlockError {
    fn from(e: VirtioError) -> Self {
        match e {
            VirtioError::OutOfBounds => Self::OutOfBounds,
            VirtioError::Reset | VirtioError::Stopped => Self::Restarted,
            e => Self::Failed(e.to_string()),
        }
    }
}
