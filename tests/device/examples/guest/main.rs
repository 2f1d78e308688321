//! Drives QEMU's devices, in a guest:
//!
//! * `guest uio FILE`: its `edu`, by UIO;
//! * `guest kernel-reads FILE`: reads from its NVMe disk by `io_uring`, which the kernel drives;
//! * `guest vfio EDU NVME`: both through `vfio-pci`, by their addresses. It prints `GUEST-OK` at
//!   the end.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "a read by io_uring names memory that has to stay")]
mod kernel_disk;
mod reads;
mod uio;

use std::error::Error;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass::device::{
    Device, DeviceError, DeviceEvent, DeviceHolder, DeviceSource, DriverEnd, HeldDevice, InterruptAffinity,
    InterruptOutcome,
};
use underpass_nvme::{DiskOptions, NvmeDisk};
use underpass_os::cpu;

/// Far longer than anything takes in an emulated guest.
const SOON: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["uio", file] => uio::drive(file),
        ["kernel-reads", file] => reads::of_kernel(file),
        ["vfio", edu, nvme] => drive_all(edu, nvme),
        _ => Err("usage: guest uio FILE | kernel-reads FILE | vfio EDU NVME".into()),
    }
}

fn drive_all(edu: &str, nvme: &str) -> Result<(), Box<dyn Error>> {
    drive_edu(edu)?;
    println!("edu is driven");
    // Opened a second time, as by a new driver.
    drive_edu(edu)?;
    interrupts_follow(edu)?;
    drive_disk(nvme)?;
    drive_held_disk(nvme)?;
    reads::beside_kernel(nvme)?;
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

/// The hardware's interrupts come to the CPU of the thread that has asked for it.
fn interrupts_follow(address: &str) -> Result<(), Box<dyn Error>> {
    const INTERRUPTS: u64 = 500;
    let device = Device::open(DeviceSource::vfio_pci(address))?;
    let registers = device.map_bar(0)?;
    let (came, acknowledges) = (Arc::new(DeviceEvent::new()), registers.clone());
    let signal = Arc::clone(&came);
    let enabled = device.interrupt(0)?.register(move |_| {
        let raised = acknowledges.read::<u32>(0x24).unwrap_or(0);
        let _ = acknowledges.write(0x64, raised);
        signal.signal();
        InterruptOutcome::Handled
    })?;
    let all = cpu::allowed()?;
    for &to in &all {
        cpu::confine(&[to])?;
        enabled.bring_together(InterruptAffinity::InterruptFollows)?;
        let before = enabled.cpu_counts()?;
        for _ in 0..INTERRUPTS {
            registers.write(0x60, 1u32)?;
            assert!(came.wait(Instant::now() + SOON)?, "the interrupt has come");
        }
        let after = enabled.cpu_counts()?;
        let (there, moved) = (after[to] - before[to], after.iter().sum::<u64>() - before.iter().sum::<u64>());
        println!("{there} of {moved} interrupts came to CPU {to}");
        assert!(moved >= INTERRUPTS && moved - there <= 2);
    }
    cpu::confine(&all)?;
    println!("edu: {:?}", enabled.counts());
    Ok(())
}

/// A holder lends the disk to one driver after another.
fn drive_held_disk(address: &str) -> Result<(), Box<dyn Error>> {
    let holder = Arc::new(DeviceHolder::open(DeviceSource::vfio_pci(address), 9 << 20)?);
    for round in 0..3u8 {
        let (ours, theirs) = UnixStream::pair()?;
        let lending = Arc::clone(&holder);
        let lent = std::thread::spawn(move || lending.lend(ours));
        let device = Device::open(DeviceSource::held(HeldDevice::take(theirs, Instant::now() + SOON)?))?;
        assert_eq!(device.was_handed_over(), round == 1);
        let disk = NvmeDisk::open(device, DiskOptions::default().patience(SOON))?;
        let mut read = [0; 65_536];
        disk.read(1 << 20, &mut read)?;
        assert!(round == 0 || read == [round; 65_536], "what the last driver has written");
        disk.write(1 << 20, &[round + 1; 65_536])?;
        let expected = if round == 0 { DriverEnd::HandedOver } else { DriverEnd::Died };
        match round {
            0 => assert!(disk.hand_over()?, "nothing was under way"),
            _ => drop(disk),
        }
        assert_eq!(lent.join().map_err(|_| "the holder has panicked")??, expected);
    }
    println!("the disk was held");
    Ok(())
}
