//! A driver as a program: it serves one NVMe disk to clients in other domains.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Duration;
use underpass::Server;
use underpass::device::{Device, DeviceSource};
use underpass_nvme::{BlockDevice, DiskOptions, DiskService, NvmeDisk};

const USAGE: &str = "usage: underpass-nvme SOCKET NAME [SECONDS]

Drives the NVMe disk behind the vfio-user socket SOCKET, and exports it as NAME (interface
`BlockDevice` of the crate `underpass-nvme`). A command may take SECONDS; the default is 30.";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (socket, name, seconds) = match &arguments[..] {
        [socket, name] => (socket, name, 30.0),
        [socket, name, seconds] => (socket, name, seconds.parse()?),
        _ => return Err(USAGE.into()),
    };
    let patience = Duration::try_from_secs_f64(seconds)?;
    let device = Device::open(DeviceSource::vfio_user(socket))?;
    let disk = NvmeDisk::open(device, DiskOptions::default().patience(patience))?;
    Server::new().export(name, BlockDevice::serve(DiskService::new(disk))).run()?;
    Ok(())
}
