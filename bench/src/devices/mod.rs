//! `devices`: interrupts as upcalls, waiting for a device, and a disk's driver between its clients
//! and the disk (Raven, sections 4 and 5.2).

mod disk;
mod interrupt;
mod ticker;

use crate::catalogue::{Benchmark, Scenario};
use crate::{BenchError, Pinning};
use std::path::Path;
use std::time::{Duration, Instant};
use underpass::device::{Device, DeviceSource};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "devices",
    about: "an interrupt's way to its handler, beside a blocked read of its counter; adaptive waiting, beside polling and interrupts; a disk through its driver, beside the driver alone",
    scenarios: &[
        Scenario {
            name: "interrupt",
            cases: &[
                "interrupt/runtime",
                "interrupt/running",
                "interrupt/asleep",
                "interrupt/other-task",
                "interrupt/polling",
            ],
            pinning: Pinning::Apart,
            client: interrupt::measure,
            server: ticker::serve,
        },
        Scenario {
            name: "wait",
            cases: &["wait/light", "wait/medium", "wait/heavy"],
            pinning: Pinning::Apart,
            client: disk::waits,
            server: disk::serve_device,
        },
        Scenario {
            name: "read",
            cases: &["read"],
            pinning: Pinning::Apart,
            client: disk::reads,
            server: disk::serve_driver,
        },
    ],
};

/// How long the other side may take to start.
const APPEAR: Duration = Duration::from_secs(10);

/// Opens the device at `socket` as soon as its process listens.
fn open(socket: &Path) -> Result<Device, BenchError> {
    let late = Instant::now() + APPEAR;
    loop {
        match Device::open(DeviceSource::vfio_user(socket)) {
            Ok(device) => return Ok(device),
            Err(e) if Instant::now() > late => return Err(e.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
