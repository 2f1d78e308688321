//! Keeps devices, and loads and unloads their drivers at run time, by name (Raven, section 4).
//!
//! *Decides:* which programs drive which devices, and what happens when one of them ends.
//!
//! *Must not know:* what a device does, nor what its driver serves. A driver is a program that gets
//! its device by its standard input (`HeldDevice::from_stdin`). To replace another one, it exports
//! its names with `Server::replace`; the other one then hands the device over and ends.
//!
//! *Read first:* `table.rs`, then the proof of the holder in `underpass-device`.
#![forbid(unsafe_code)]

mod drivers;
mod running_driver;
mod table;

pub use drivers::{DriverError, DriverProgram, DriverStatus, Drivers, DriversClient};
pub use table::DriverTable;
