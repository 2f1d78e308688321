//! Drives QEMU's `edu` and its NVMe disk through `vfio-pci`, in a guest: `guest EDU NVME`, the
//! addresses of the two devices. Prints `GUEST-OK` at the end.
#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass::device::{Device, DeviceError, DeviceEvent, DeviceSource, InterruptOutcome};
use underpass_nvme::{DiskOptions, NvmeDisk};

/// Far longer than anything takes in an emulated guest.
const SOON: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [edu, nvme] = &arguments[..] else { return Err("usage: guest EDU NVME".into()) };
    drive_edu(edu)?;
    println!("edu is driven");
    // Opened a second time, as by a new driver.
    drive_edu(edu)?;
    drive_disk(nvme)?;
    println!("GUEST-OK");
    Ok(())
}

fn drive_edu(address: &str) -> Result<(), Box<dyn Error>> {
    let device = Device::open(DeviceSource::vfio_pci(address))?;
    let registers = device.map_bar(0)?;
    assert!(registers.is_mapped(0, 0x100), "its registers are mapped");
    assert_eq!(registers.read::<u32>(0)?, 0x0100_00ed);
    registers.write(4, 0x1234_5678u32)?;
    assert_eq!(registers.read::<u32>(4)?, !0x1234_5678);
    assert!(matches!(registers.read::<u32>(registers.size()), Err(DeviceError::OutOfBounds { .. })));
    println!("edu has {} vectors", device.interrupts());
    let acknowledges = registers.clone();
    let interrupt = device.interrupt(0)?.register_for_waiters(move |upcall| {
        let raised = acknowledges.read::<u32>(0x24).unwrap_or(0);
        if raised == 0 {
            return InterruptOutcome::Nothing;
        }
        let _ = acknowledges.write(0x64, raised);
        upcall.wake_all();
        InterruptOutcome::Handled
    })?;
    let event = Arc::new(DeviceEvent::new());
    let wait = |ready: &mut dyn FnMut() -> Option<()>| interrupt.wait(&event, Instant::now() + SOON, ready);
    registers.write(0x20, 0x80u32)?;
    registers.write(0x08, 10u32)?;
    wait(&mut || (registers.read::<u32>(0x20).ok()? & 1 == 0).then_some(()))?;
    assert_eq!(registers.read::<u32>(0x08)?, 3_628_800);
    let memory = device.dma(8192)?;
    memory.copy_in(100, b"hello, device")?;
    let out = (memory.iova() + 100, 0x4_0000, 1u64 | 4);
    let back = (0x4_0000, memory.iova() + 5000, 1 | 2 | 4);
    for (from, to, command) in [out, back] {
        registers.write(0x80, from)?;
        registers.write(0x88, to)?;
        registers.write(0x90, 13u64)?;
        registers.write(0x98, command)?;
        wait(&mut || (registers.read::<u64>(0x98).ok()? & 1 == 0).then_some(()))?;
    }
    let mut bytes = [0; 13];
    memory.copy_out(5000, &mut bytes)?;
    assert_eq!(&bytes, b"hello, device");
    println!("edu: {:?}", interrupt.counts());
    Ok(())
}

fn drive_disk(address: &str) -> Result<(), Box<dyn Error>> {
    let device = Device::open(DeviceSource::vfio_pci(address))?;
    let disk = Arc::new(NvmeDisk::open(device, DiskOptions::default().patience(SOON))?);
    println!("disk: {:?}, {:?}", disk.name()?, disk.size()?);
    let threads: Vec<_> = (0..8u64)
        .map(|number| {
            let disk = Arc::clone(&disk);
            underpass::thread::spawn(move || -> Result<(), underpass_nvme::NvmeError> {
                for (round, len) in [512, 4096, 65_536, 1 << 20].into_iter().enumerate() {
                    let bytes: Vec<u8> =
                        (0..len).map(|at| (at as u64 * 7 + number + round as u64) as u8).collect();
                    disk.write(number << 21, &bytes)?;
                    disk.flush()?;
                    let mut read = vec![0; len];
                    disk.read(number << 21, &mut read)?;
                    assert!(read == bytes, "{number} {len}");
                }
                Ok(())
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread has panicked")??;
    }
    disk.reset()?;
    let mut read = [0; 512];
    disk.read(0, &mut read)?;
    assert_eq!(read[1], 7 + 3);
    println!("disk: {:?}", disk.counts());
    Ok(())
}
