//! Registers and DMA memory of a device that is another process.

use crate::common::{DeviceProcess, far, watchdog};
use underpass::device::{Device, DeviceError, DeviceSource};

/// The registers of `edu`.
const INVERSE: u64 = 0x04;
const FROM: u64 = 0x80;
const TO: u64 = 0x88;
const LEN: u64 = 0x90;
const COPY: u64 = 0x98;
/// The device's address of its buffer.
const BUFFER: u64 = 0x4_0000;

#[test]
fn a_device_in_another_process_has_registers() {
    let _dog = watchdog();
    let process = DeviceProcess::start(&["edu"]);
    let device = process.open();
    let registers = device.map_bar(0).unwrap();
    assert_eq!(registers.read::<u32>(0).unwrap(), 0x0100_00ed);
    assert_eq!(registers.read::<u16>(0).unwrap(), 0x00ed);
    for value in [0, 1, u32::MAX, 0x1234_5678] {
        registers.write(INVERSE, value).unwrap();
        assert_eq!(registers.read::<u32>(INVERSE).unwrap(), !value);
    }
    assert!(!registers.is_mapped(0, 4) && registers.size() == 0x1000);
}

#[test]
fn memory_of_the_device_is_mapped_and_seen_by_all_who_map_it() {
    let _dog = watchdog();
    let (socket, _device) = underpass_test_device::start_edu().unwrap();
    let device = Device::open(DeviceSource::vfio_user_socket(socket)).unwrap();
    let (one, other) = (device.map_bar(2).unwrap(), device.map_bar(2).unwrap());
    assert!(one.is_mapped(0, 4096) && one.is_mapped(4088, 8) && !one.is_mapped(4095, 2));
    one.write(8, 0x1122_3344_5566_7788u64).unwrap();
    assert_eq!(other.read::<u32>(12).unwrap(), 0x1122_3344);
    drop(one);
    assert_eq!(other.read::<u8>(8).unwrap(), 0x88, "a clone keeps the mapping");
}

#[test]
fn accesses_beyond_the_bounds_are_errors() {
    let _dog = watchdog();
    let (socket, _device) = underpass_test_device::start_edu().unwrap();
    let device = Device::open(DeviceSource::vfio_user_socket(socket)).unwrap();
    let out = |result: Result<u32, DeviceError>| matches!(result, Err(DeviceError::OutOfBounds { .. }));
    for bar in [0, 2] {
        let registers = device.map_bar(bar).unwrap();
        let size = registers.size();
        for offset in [size, size - 2, 2, u64::MAX, u64::MAX - 3] {
            assert!(out(registers.read::<u32>(offset)), "{bar} {offset}");
            assert!(out(registers.write(offset, 1u32).map(|()| 0)), "{bar} {offset}");
        }
    }
    for bar in [1, 5, 6, u32::MAX] {
        assert!(matches!(device.map_bar(bar), Err(DeviceError::Unsupported(_))), "{bar}");
    }
    assert!(matches!(device.interrupt(2), Err(DeviceError::Unsupported(_))));
    let memory = device.dma(1).unwrap();
    assert_eq!(memory.len(), 4096);
    assert!(out(memory.load(4096)) && out(memory.load(2)) && out(memory.store(usize::MAX, 1u32).map(|()| 0)));
    assert!(out(memory.copy_out(4095, &mut [0; 2]).map(|()| 0)));
}

#[test]
fn a_device_copies_memory_both_ways() {
    let _dog = watchdog();
    let process = DeviceProcess::start(&["edu"]);
    let device = process.open();
    let registers = device.map_bar(0).unwrap();
    let (from, to) = (device.dma(4096).unwrap(), device.dma(8192).unwrap());
    assert!(from.iova() + 4096 <= to.iova() || to.iova() + 8192 <= from.iova(), "they don't overlap");
    let mut zero = [1; 8192];
    to.copy_out(0, &mut zero).unwrap();
    assert_eq!(zero, [0; 8192], "it is zeroed");
    let bytes: Vec<u8> = (0..1000).map(|n| (n % 251) as u8).collect();
    from.copy_in(10, &bytes).unwrap();
    let copy = |source: u64, target: u64, command: u32| {
        registers.write(FROM, source).unwrap();
        registers.write(TO, target).unwrap();
        registers.write(LEN, 1000u64).unwrap();
        registers.write(COPY, command).unwrap();
        // A read comes after all writes.
        registers.read::<u32>(0).unwrap();
    };
    copy(from.iova() + 10, BUFFER, 1);
    copy(BUFFER, to.iova() + 5000, 3);
    let mut copied = vec![0; 1000];
    to.copy_out(5000, &mut copied).unwrap();
    assert_eq!(copied, bytes);
    // What was unmapped is out of the device's reach.
    let gone = to.iova();
    drop(to);
    copy(BUFFER, gone, 3);
    let again = device.dma(8192).unwrap();
    assert_eq!(again.iova(), gone, "its addresses are used again");
    again.copy_out(0, &mut zero).unwrap();
    assert_eq!(zero, [0; 8192]);
}

#[test]
fn a_register_that_never_changes_is_an_error_at_the_deadline() {
    let _dog = watchdog();
    let (socket, _device) = underpass_test_device::start_edu().unwrap();
    let device = Device::open(DeviceSource::vfio_user_socket(socket)).unwrap();
    let registers = device.map_bar(0).unwrap();
    let soon = std::time::Instant::now() + std::time::Duration::from_millis(20);
    let late = registers.read_until(0, soon, |kind: u32| kind == 0);
    assert!(matches!(late, Err(DeviceError::Late(_))), "{late:?}");
    assert_eq!(registers.read_until(0, far(), |kind: u32| kind != 0).unwrap(), 0x0100_00ed);
}

#[test]
fn a_reset_brings_the_first_state_back() {
    let _dog = watchdog();
    let (socket, _device) = underpass_test_device::start_edu().unwrap();
    let device = Device::open(DeviceSource::vfio_user_socket(socket)).unwrap();
    let registers = device.map_bar(0).unwrap();
    registers.write(INVERSE, 5u32).unwrap();
    device.reset().unwrap();
    assert_eq!(registers.read::<u32>(INVERSE).unwrap(), u32::MAX);
}

#[test]
fn threads_use_one_device_at_once() {
    let _dog = watchdog();
    let process = DeviceProcess::start(&["edu"]);
    let device = process.open();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let device = device.clone();
            underpass::thread::spawn(move || {
                let registers = device.map_bar(0)?;
                for _ in 0..50 {
                    registers.write(0x100, 1u32)?;
                    assert_eq!(registers.read::<u32>(0)?, 0x0100_00ed);
                    drop(device.dma(4096)?);
                }
                Ok::<(), DeviceError>(())
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
}
