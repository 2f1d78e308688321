//! A device that outlives its drivers, whatever it is: it is reset after a death, its memory stays,
//! and replies for a dead driver confuse nobody.

use crate::common::{DeviceProcess, far, until, watchdog};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass::device::{
    Device, DeviceError, DeviceEvent, DeviceHolder, DeviceSource, DriverEnd, HeldDevice, InterruptOutcome,
};
use underpass_os::DeviceStream;

/// Set in the process that is the driver.
const DRIVER: &str = "UNDERPASS_TEST_DRIVER";
const PAGE: usize = 4096;

fn holder() -> Arc<DeviceHolder> {
    let (socket, _) = underpass_test_device::start_edu().unwrap();
    let source = DeviceSource::vfio_user_socket(socket).patience(Duration::from_secs(240));
    Arc::new(DeviceHolder::open(source, 4 * PAGE).unwrap())
}

type Lent = std::thread::JoinHandle<Result<DriverEnd, DeviceError>>;

/// Lends the device to a driver that has the socket.
fn lend(holder: &Arc<DeviceHolder>) -> (UnixStream, Lent) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let holder = Arc::clone(holder);
    (theirs, std::thread::spawn(move || holder.lend(ours)))
}

/// A driver in this process.
fn drive(holder: &Arc<DeviceHolder>) -> (Device, Lent) {
    let (socket, lent) = lend(holder);
    (Device::open(DeviceSource::held(HeldDevice::take(socket, far()).unwrap())).unwrap(), lent)
}

fn end(lent: Lent) -> DriverEnd {
    lent.join().unwrap().unwrap()
}

#[test]
fn the_memory_stays_and_the_device_is_reset_after_a_death() {
    let _dog = watchdog();
    let holder = holder();
    for round in 0..3u8 {
        let (device, lent) = drive(&holder);
        assert!(!device.was_handed_over());
        assert_eq!(device.kept(), Some(4 * PAGE));
        let (kept, registers) = (device.kept_memory(PAGE, PAGE).unwrap(), device.map_bar(0).unwrap());
        let mut byte = [0];
        kept.copy_out(7, &mut byte).unwrap();
        assert_eq!(byte, [round], "what the last driver has left");
        assert_eq!(registers.read::<u32>(4).unwrap(), !0, "the register is as at first");
        kept.copy_in(7, &[round + 1]).unwrap();
        registers.write(4, 7u32).unwrap();
        drop((kept, registers, device));
        assert_eq!(end(lent), DriverEnd::Died);
    }
}

#[test]
fn a_device_that_is_handed_over_goes_on() {
    let _dog = watchdog();
    let holder = holder();
    let (device, lent) = drive(&holder);
    let registers = device.map_bar(0).unwrap();
    registers.write(4, 7u32).unwrap();
    registers.read::<u32>(4).unwrap();
    device.hand_over().unwrap();
    drop((registers, device));
    assert_eq!(end(lent), DriverEnd::HandedOver);
    let (device, lent) = drive(&holder);
    assert!(device.was_handed_over());
    assert_eq!(device.map_bar(0).unwrap().read::<u32>(4).unwrap(), !7);
    drop(device);
    assert_eq!(end(lent), DriverEnd::Died);
    let (device, _) = drive(&holder);
    assert!(!device.was_handed_over(), "once");
}

#[test]
fn one_driver_at_a_time_has_the_device() {
    let _dog = watchdog();
    let holder = holder();
    let (device, first) = drive(&holder);
    let (socket, second) = lend(&holder);
    let late = HeldDevice::take(socket.try_clone().unwrap(), Instant::now());
    assert!(matches!(late, Err(DeviceError::Late(_))), "{late:?}");
    drop(device);
    end(first);
    let device = Device::open(DeviceSource::held(HeldDevice::take(socket, far()).unwrap())).unwrap();
    drop(device);
    end(second);
    // A driver that has ended before its turn.
    let (device, first) = drive(&holder);
    let (socket, second) = lend(&holder);
    drop((socket, device));
    assert_eq!((end(first), end(second)), (DriverEnd::Died, DriverEnd::Died));
}

#[test]
fn memory_for_dma_is_a_part_of_what_the_holder_keeps() {
    let _dog = watchdog();
    let holder = holder();
    let (device, _lent) = drive(&holder);
    let kept = device.kept_memory(0, 2 * PAGE).unwrap();
    kept.copy_in(0, &[0xff; 2 * PAGE]).unwrap();
    let dma = device.dma(PAGE + 1).unwrap();
    assert_eq!((dma.iova(), dma.len()), (kept.iova() + 2 * PAGE as u64, 2 * PAGE));
    for (offset, len) in
        [(0, PAGE), (PAGE, PAGE), (4 * PAGE, PAGE), (0, 0), (1, PAGE), (usize::MAX - 4095, PAGE)]
    {
        assert!(device.kept_memory(offset, len).is_err(), "{offset} {len}");
    }
    assert!(device.dma(1).is_err(), "there is no more");
    assert!(kept.copy_in(2 * PAGE - 1, b"ab").is_err(), "each part has its own bounds");
    drop(kept);
    let zeroed = device.dma(2 * PAGE).unwrap();
    let mut bytes = [1; 2 * PAGE];
    zeroed.copy_out(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 2 * PAGE]);
    // The device reaches it.
    let registers = device.map_bar(0).unwrap();
    zeroed.copy_in(0, b"hello").unwrap();
    let copied = device.interrupt(1).unwrap().register_for_waiters(|upcall| {
        upcall.wake_all();
        InterruptOutcome::Handled
    });
    let copied = copied.unwrap();
    for (from, to, command) in [(zeroed.iova(), 0x4_0000, 1u32), (0x4_0000, dma.iova() + 9, 7)] {
        registers.write(0x80, from).unwrap();
        registers.write(0x88, to).unwrap();
        registers.write(0x90, 5u64).unwrap();
        registers.write(0x98, command).unwrap();
    }
    let mut bytes = [0; 5];
    let came = || {
        dma.copy_out(9, &mut bytes).ok()?;
        (&bytes == b"hello").then_some(())
    };
    copied.wait(&Arc::new(DeviceEvent::new()), far(), came).unwrap();
}

#[test]
fn a_device_without_a_holder_has_nothing_kept() {
    let _dog = watchdog();
    let (socket, _) = underpass_test_device::start_edu().unwrap();
    let device = Device::open(DeviceSource::vfio_user_socket(socket)).unwrap();
    assert_eq!(device.kept(), None);
    assert!(device.kept_memory(0, PAGE).is_err() && device.hand_over().is_err());
}

/// The driver's process: this test program, which runs this test alone. It asks without end.
#[test]
fn the_driver() {
    if std::env::var_os(DRIVER).is_some() {
        let device = Device::open(DeviceSource::held(HeldDevice::from_stdin(far()).unwrap())).unwrap();
        let registers = device.map_bar(0).unwrap();
        device.kept_memory(0, PAGE).unwrap().store(0, 1u64).unwrap();
        loop {
            registers.read::<u64>(0).unwrap();
            registers.write(4, 9u32).unwrap();
        }
    }
}

#[test]
fn a_driver_that_dies_within_a_message_leaves_whole_ones() {
    let _dog = watchdog();
    let holder = holder();
    for round in 0..40u64 {
        let (socket, lent) = lend(&holder);
        let mut driver = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "holder::the_driver"])
            .env(DRIVER, "1")
            .stdin(Stdio::from(OwnedFd::from(socket)))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(round * 700));
        driver.kill().unwrap();
        driver.wait().unwrap();
        assert_eq!(end(lent), DriverEnd::Died);
        let (device, lent) = drive(&holder);
        let registers = device.map_bar(0).unwrap();
        assert_eq!(registers.read::<u32>(0).unwrap(), 0x0100_00ed);
        assert_eq!(registers.read::<u32>(4).unwrap(), !0);
        drop((registers, device));
        end(lent);
    }
}

#[test]
fn a_holder_opens_a_device_again_that_has_ended() {
    let _dog = watchdog();
    let mut process = DeviceProcess::start(&["edu"]);
    let open = || DeviceHolder::open(DeviceSource::vfio_user(process.socket()), PAGE).ok();
    let holder = Arc::new(until(open));
    let (device, lent) = drive(&holder);
    device.kept_memory(0, PAGE).unwrap().store(0, 5u64).unwrap();
    process.kill();
    until(|| device.is_gone().then_some(()));
    drop(device);
    assert_eq!(end(lent), DriverEnd::Died);
    let (socket, lent) = lend(&holder);
    drop(socket);
    assert!(lent.join().unwrap().is_err(), "there is no device");
    process.restart();
    let (device, _) = until(|| {
        let (socket, lent) = lend(&holder);
        let held = HeldDevice::take(socket, far()).ok()?;
        Some((Device::open(DeviceSource::held(held)).ok()?, lent))
    });
    assert_eq!(device.kept_memory(0, PAGE).unwrap().load::<u64>(0).unwrap(), 5);
    assert_eq!(device.map_bar(0).unwrap().read::<u32>(0).unwrap(), 0x0100_00ed);
}

#[test]
fn what_comes_from_a_socket_that_is_no_holder_s_is_refused() {
    let _dog = watchdog();
    let file = std::fs::File::open("/dev/null").unwrap();
    for (bytes, files) in [(0, 0), (8, 0), (40, 0), (40, 2), (40, 16), (64, 4)] {
        let (ours, theirs) = DeviceStream::pair().unwrap();
        let files: Vec<_> = (0..files).map(|_| file.as_fd()).collect();
        if bytes > 0 {
            ours.send(&vec![7; bytes], &files).unwrap();
        }
        drop(ours);
        let taken = HeldDevice::take(theirs, far());
        assert!(matches!(taken, Err(DeviceError::Gone | DeviceError::Malformed(_))), "{taken:?}");
    }
    // A message as it should be, with a file that is no memory.
    let message = [u64::from_le_bytes(*b"UPDEVICE"), 1 | 1 << 32, 0, 1 << 32, 4096];
    let bytes: Vec<u8> = message.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (ours, theirs) = DeviceStream::pair().unwrap();
    ours.send(&bytes, &[file.as_fd(), file.as_fd()]).unwrap();
    assert!(matches!(HeldDevice::take(theirs, far()), Err(DeviceError::System(_))));
}
