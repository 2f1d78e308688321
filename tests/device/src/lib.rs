//! Devices for tests. Each is another process, or another kernel thread, behind a vfio-user socket.
//!
//! *Read first:* `server.rs`.
#![forbid(unsafe_code)]

mod bus;
mod edu;
mod ledger;
mod nvme;
mod server;

pub use bus::DeviceBus;
pub use edu::Edu;
pub use ledger::{DiskHistory, DiskLedger, DiskWrite};
pub use nvme::{FAULT, Nvme, NvmeFault};
pub use server::{DeviceModel, ModelRegion, serve, serve_at};

use std::io;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use underpass_os::DeviceStream;

/// Starts a device on a kernel thread of its own. Returns the socket to reach it by. It ends when
/// the socket is closed.
///
/// # Errors
/// Too many open files, or kernel threads.
pub fn start(
    make: impl FnOnce() -> io::Result<Box<dyn DeviceModel>> + Send + 'static,
) -> io::Result<(OwnedFd, JoinHandle<io::Result<()>>)> {
    let (ours, theirs) = DeviceStream::pair()?;
    let device = std::thread::Builder::new()
        .name("test-device".to_owned())
        .spawn(move || serve(&theirs, &mut *make()?))?;
    Ok((ours.into(), device))
}

/// Starts an [`Edu`] as [`start`] does.
///
/// # Errors
/// As [`start`].
pub fn start_edu() -> io::Result<(OwnedFd, JoinHandle<io::Result<()>>)> {
    start(|| Ok(Box::new(Edu::new()?)))
}

/// Starts an [`Nvme`] of 4 MiB as [`start`] does.
///
/// # Errors
/// As [`start`].
pub fn start_nvme() -> io::Result<(OwnedFd, JoinHandle<io::Result<()>>)> {
    start(|| Ok(Box::new(Nvme::new(4 << 20))))
}
