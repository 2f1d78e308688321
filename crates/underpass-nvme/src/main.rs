//! A driver as a program: it serves one NVMe disk to clients in other domains.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::{Duration, Instant};
use underpass::Server;
use underpass::device::{Device, DeviceSource, HeldDevice};
use underpass_nvme::{BlockDevice, DiskOptions, DiskService, NvmeDisk};

const USAGE: &str = "usage: underpass-nvme SOCKET NAME [SECONDS]
       underpass-nvme --held NAME [SECONDS]

Drives the NVMe disk behind the vfio-user socket SOCKET, and exports it as NAME (interface
`BlockDevice` of the crate `underpass-nvme`). A command may take SECONDS; the default is 30.

With --held, the disk comes from the holder that has started this program, whose socket is the
standard input. Another driver of the same disk is replaced: it hands the disk over. SIGTERM ends
the driver, which hands the disk over too.";

/// How long calls that have begun may take after SIGTERM.
const DRAIN: Duration = Duration::from_secs(10);
/// How long the driver that is replaced may take to leave the disk. It drains for a minute.
const TURN: Duration = Duration::from_secs(90);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (socket, name, seconds) = match &arguments[..] {
        [socket, name] => (socket, name, 30.0),
        [socket, name, seconds] => (socket, name, seconds.parse()?),
        _ => return Err(USAGE.into()),
    };
    let options = DiskOptions::default().patience(Duration::try_from_secs_f64(seconds)?);
    if socket == "--held" {
        return held(name, options);
    }
    let device = Device::open(DeviceSource::vfio_user(socket))?;
    let disk = NvmeDisk::open(device, options)?;
    Server::new().export(name, BlockDevice::serve(DiskService::new(disk))).run()?;
    Ok(())
}

/// Serves at once, so that the driver that is replaced leaves. Calls wait until the disk is here.
fn held(name: &str, options: DiskOptions) -> Result<(), Box<dyn Error>> {
    let service = DiskService::awaiting();
    let arriving = service.clone();
    std::thread::Builder::new().name("disk".to_owned()).spawn(move || {
        let opened = HeldDevice::from_stdin(Instant::now() + TURN)
            .and_then(|held| Device::open(DeviceSource::held(held)))
            .map_err(underpass_nvme::NvmeError::from)
            .and_then(|device| NvmeDisk::open(device, options));
        match opened {
            Ok(disk) => arriving.arrive(disk),
            Err(e) => {
                // Without its disk it serves nothing. Its holder starts it again.
                eprintln!("underpass-nvme: the disk can't be driven: {e}");
                std::process::exit(1);
            }
        }
    })?;
    Server::new()
        .replace()
        .export(name, BlockDevice::serve(service.clone()))
        .drain_on_signals(DRAIN)
        .run()?;
    if let Some(disk) = service.leave() {
        disk.hand_over()?;
    }
    Ok(())
}
