//! The interface by which drivers are loaded and unloaded.

use std::fmt;
use underpass::{CallError, Wire};

/// A program that drives a device. Its standard input is the socket to the device's holder.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
pub struct DriverProgram {
    /// Its path, or its name in `$PATH` of the holder.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// What has become of a driver.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
pub struct DriverStatus {
    /// Its name.
    pub name: String,
    /// The processes that run: one, or two while one replaces the other, or none after too many
    /// deaths.
    pub processes: Vec<u32>,
    /// How often it was started.
    pub starts: u64,
    /// How often it has died. Each time it was started again.
    pub deaths: u64,
    /// How often it has handed its device over.
    pub handed_over: u64,
}

/// Why a driver was not started, stopped or replaced.
#[derive(Clone, Debug, PartialEq, Wire)]
pub enum DriverError {
    /// A driver of this name is there. *Remedy:* replace it, or stop it first.
    Taken,
    /// There is no driver of this name.
    Unknown,
    /// The device can't be opened, or can't be lent, as the text says.
    Device(String),
    /// The program can't be started, as the text says.
    Program(String),
    /// The program has ended before it had the device. The driver that was there goes on.
    Ended,
    /// The call failed.
    Call(CallError),
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.write_str("a driver of this name is there; replace it, or stop it first"),
            Self::Unknown => f.write_str("there is no driver of this name; list shows those that there are"),
            Self::Device(why) => write!(f, "the device can't be used: {why}"),
            Self::Program(why) => write!(f, "the program can't be started: {why}"),
            Self::Ended => f.write_str("the program has ended before it had the device; its output says why"),
            Self::Call(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for DriverError {}

impl From<CallError> for DriverError {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

/// Drivers by their names. A caller of this runs programs as the holder's user.
#[underpass::interface]
pub trait Drivers {
    /// Opens a device, and starts its driver under `name`. `device` is `vfio-user:PATH` or
    /// `vfio-pci:ADDRESS`. The holder keeps `memory` bytes for the device's DMA. If the driver
    /// dies, it is started again.
    ///
    /// # Errors
    /// See [`DriverError`].
    fn start(&self, name: &str, device: &str, memory: u64, program: DriverProgram)
    -> Result<(), DriverError>;

    /// Stops a driver: it is asked to end, and is killed after some seconds. Then the device is
    /// reset and closed.
    ///
    /// # Errors
    /// See [`DriverError`].
    fn stop(&self, name: &str) -> Result<(), DriverError>;

    /// Replaces a driver by a new program, which gets the device once the old one has handed it
    /// over. Returns then.
    ///
    /// # Errors
    /// See [`DriverError`].
    fn replace(&self, name: &str, program: DriverProgram) -> Result<(), DriverError>;

    /// The drivers that there are.
    ///
    /// # Errors
    /// The call failed.
    fn list(&self) -> Result<Vec<DriverStatus>, DriverError>;
}
