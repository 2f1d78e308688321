//! Why something that a driver asked of its device failed.

use std::fmt;
use std::io;

/// Why a device did not do what was asked of it.
///
/// Whatever a device does, its driver gets one of these, and nothing worse.
#[derive(Debug)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device is gone: its process has ended, it was unplugged, or it was given up after
    /// [`Late`](Self::Late) or [`Malformed`](Self::Malformed). *Remedy:* open it again.
    Gone,
    /// The device did not do it in time. *Remedy:* reset the device, or give it up.
    Late(&'static str),
    /// The device broke the rules of its protocol, and is given up. *Remedy:* none here; the device
    /// is broken or hostile.
    Malformed(&'static str),
    /// The device refused it, with this number of an error of the system.
    Refused(&'static str, i32),
    /// The access does not lie in the registers or the memory, or is not aligned. *Remedy:* check
    /// what the device says before using it as a position.
    OutOfBounds {
        /// Where it begins.
        offset: u64,
        /// How many bytes it has.
        len: u64,
        /// How many bytes there are.
        of: u64,
    },
    /// A handler of interrupts asked for something that waits. *Remedy:* record the event, and let
    /// a thread do it.
    InHandler(&'static str),
    /// A handler of interrupts has panicked, so its vector is off. *Remedy:* the message of the
    /// panic is in the process's error output; register a new handler.
    HandlerPanicked,
    /// The thread that waited was cancelled.
    Cancelled,
    /// This device, or what it is opened through, lacks it.
    Unsupported(&'static str),
    /// The system refused it.
    System(io::Error),
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the device is gone; open it again"),
            Self::Late(what) => {
                write!(f, "the device did not answer in time: {what}; reset it or give it up")
            }
            Self::Malformed(what) => write!(f, "the device broke its protocol: {what}"),
            Self::Refused(what, error) => {
                write!(f, "the device refused to {what}: {}", io::Error::from_raw_os_error(*error))
            }
            Self::OutOfBounds { offset, len, of } => {
                write!(f, "{len} bytes at {offset} are not aligned, or not within the {of} that there are")
            }
            Self::InHandler(what) => {
                write!(f, "a handler of interrupts may not {what}, which waits; let a thread do it")
            }
            Self::HandlerPanicked => {
                f.write_str("the handler of this interrupt has panicked; register a new one")
            }
            Self::Cancelled => f.write_str("the thread that waited was cancelled"),
            Self::Unsupported(what) => write!(f, "this device has no {what}"),
            Self::System(e) => write!(f, "the system refused it: {e}"),
        }
    }
}

impl std::error::Error for DeviceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(e) => Some(e),
            _ => None,
        }
    }
}

impl From<io::Error> for DeviceError {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected => {
                Self::Gone
            }
            _ => Self::System(e),
        }
    }
}
