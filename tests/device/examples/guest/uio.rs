//! QEMU's `edu` by the kernel's `uio_pci_generic`: registers, and interrupts by a line.

use crate::SOON;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;
use underpass::device::{
    Device, DeviceError, DeviceEvent, DeviceHolder, DeviceSource, InterruptAffinity, InterruptOutcome,
};

/// The registers of `edu`.
const FACTORIAL: u64 = 0x08;
const STATUS: u64 = 0x20;
const RAISED: u64 = 0x24;
const RAISE: u64 = 0x60;
const ACKNOWLEDGE: u64 = 0x64;

const INTERRUPTS: u64 = 200;

/// Drives the device at `path`.
pub fn drive(path: &str) -> Result<(), Box<dyn Error>> {
    let device = Device::open(DeviceSource::uio(path))?;
    let registers = device.map_bar(0)?;
    assert!(registers.is_mapped(0, 0x100), "its registers are mapped");
    assert_eq!(registers.read::<u32>(0)?, 0x0100_00ed);
    registers.write(4, 0x1234_5678u32)?;
    assert_eq!(registers.read::<u32>(4)?, !0x1234_5678);
    assert!(matches!(registers.read::<u32>(registers.size()), Err(DeviceError::OutOfBounds { .. })));
    assert_eq!(device.interrupts(), 1);
    assert!(matches!(device.dma(4096), Err(DeviceError::Unsupported(_))), "there is no IOMMU");
    assert!(DeviceHolder::open(DeviceSource::uio(path), 4096).is_err(), "a holder keeps memory for DMA");

    let acknowledges = registers.clone();
    let interrupt = device.interrupt(0)?.register_for_waiters(move |upcall| {
        let raised = acknowledges.read::<u32>(RAISED).unwrap_or(0);
        if raised == 0 {
            return InterruptOutcome::Nothing;
        }
        // The device holds its line until here.
        let _ = acknowledges.write(ACKNOWLEDGE, raised);
        upcall.wake_all();
        InterruptOutcome::Handled
    })?;
    let event = Arc::new(DeviceEvent::new());
    registers.write(STATUS, 0x80u32)?;
    registers.write(FACTORIAL, 10u32)?;
    interrupt.wait(&event, Instant::now() + SOON, || {
        (registers.read::<u32>(STATUS).ok()? & 1 == 0).then_some(())
    })?;
    assert_eq!(registers.read::<u32>(FACTORIAL)?, 3_628_800);
    drop(interrupt);

    let (came, acknowledges) = (Arc::new(DeviceEvent::new()), registers.clone());
    let signal = Arc::clone(&came);
    let enabled = device.interrupt(0)?.register(move |_| {
        let raised = acknowledges.read::<u32>(RAISED).unwrap_or(0);
        let _ = acknowledges.write(ACKNOWLEDGE, raised);
        signal.signal();
        InterruptOutcome::Handled
    })?;
    if let Err(e) = enabled.bring_together(InterruptAffinity::InterruptFollows) {
        println!("the line stays on its CPU: {e}");
    }
    for _ in 0..INTERRUPTS {
        registers.write(RAISE, 1u32)?;
        assert!(came.wait(Instant::now() + SOON)?, "the interrupt has come");
    }
    let counts = enabled.counts();
    println!("edu by UIO: {counts:?}");
    // An upcall that a late unmasking makes finds nothing.
    assert!(counts.interrupts >= INTERRUPTS && counts.storms == 0);
    Ok(())
}
