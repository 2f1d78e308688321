//! Reads and writes of a disk that follows the rules.

use crate::common::{disk, pattern, watchdog};
use std::sync::Arc;
use underpass::device::{Device, DeviceSource};
use underpass::thread::spawn;
use underpass_nvme::{DiskOptions, NvmeDisk, NvmeError};

#[test]
fn what_was_written_is_read_at_any_size() {
    let _dog = watchdog();
    let (disk, _) = disk();
    assert_eq!(disk.size().unwrap(), (512, 4 << 20));
    assert_eq!(disk.name().unwrap(), ("small disk".to_owned(), "UP0001".to_owned()));
    for (seed, len) in
        [512, 1024, 4096, 4608, 8192, 8704, 65_536, 131_072, 132_096, 1 << 20].into_iter().enumerate()
    {
        let (offset, bytes) = (512 * (seed as u64 + 1), pattern(seed as u32, len));
        disk.write(offset, &bytes).unwrap();
        disk.flush().unwrap();
        let mut read = vec![0; len];
        disk.read(offset, &mut read).unwrap();
        assert!(read == bytes, "{len} bytes");
    }
    assert_eq!(disk.counts().lies, 0);
}

#[test]
fn bytes_that_are_no_blocks_of_the_disk_are_refused() {
    let _dog = watchdog();
    let (disk, _) = disk();
    for (offset, len) in [(1, 512), (0, 511), (4 << 20, 512), ((4 << 20) - 512, 1024), (u64::MAX - 511, 512)]
    {
        let refused = disk.read(offset, &mut vec![0; len]);
        assert!(matches!(refused, Err(NvmeError::OutOfBounds)), "{offset} {len}");
        let refused = disk.write(offset, &vec![0; len]);
        assert!(matches!(refused, Err(NvmeError::OutOfBounds)), "{offset} {len}");
    }
    disk.read(4 << 20, &mut []).unwrap();
    disk.write((4 << 20) - 512, &[1; 512]).unwrap();
}

/// More threads than there are slots.
#[test]
fn many_threads_use_one_disk_at_once() {
    let _dog = watchdog();
    let (disk, _) = disk();
    let disk = Arc::new(disk);
    let threads: Vec<_> = (0..48u32)
        .map(|number| {
            let disk = Arc::clone(&disk);
            spawn(move || {
                let offset = u64::from(number) * 65_536;
                for round in 0..8 {
                    let bytes = pattern(number * 8 + round, 16_384);
                    disk.write(offset, &bytes)?;
                    let mut read = vec![0; bytes.len()];
                    disk.read(offset, &mut read)?;
                    assert!(read == bytes, "{number} {round}");
                }
                Ok::<(), NvmeError>(())
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    let counts = disk.counts();
    assert_eq!(counts.lies, 0);
    assert!(counts.interrupts.polled + counts.interrupts.blocked >= 48 * 16, "{counts:?}");
}

#[test]
fn kernel_threads_use_a_disk_too() {
    let _dog = watchdog();
    let (disk, _) = disk();
    let disk = Arc::new(disk);
    let threads: Vec<_> = (0..4u32)
        .map(|number| {
            let disk = Arc::clone(&disk);
            std::thread::spawn(move || {
                for round in 0..50 {
                    disk.write(u64::from(number) * 512, &[round; 512]).unwrap();
                    let mut read = [0; 512];
                    disk.read(u64::from(number) * 512, &mut read).unwrap();
                    assert_eq!(read, [round; 512]);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_reset_keeps_the_bytes() {
    let _dog = watchdog();
    let (disk, _) = disk();
    for round in 0..5 {
        disk.write(0, &[round; 4096]).unwrap();
        assert!(!disk.needs_reset());
        disk.reset().unwrap();
        let mut read = [0xff; 4096];
        disk.read(0, &mut read).unwrap();
        assert_eq!(read, [round; 4096]);
    }
}

#[test]
fn commands_under_way_end_at_a_reset() {
    let _dog = watchdog();
    let (disk, device) = disk();
    let disk = Arc::new(disk);
    crate::common::lie(&device, underpass_test_device::NvmeFault::Silent);
    let reads: Vec<_> = (0..40)
        .map(|_| {
            let disk = Arc::clone(&disk);
            spawn(move || disk.read(0, &mut [0; 512]))
        })
        .collect();
    crate::common::until(|| (disk.counts().interrupts.blocked >= 32).then_some(()));
    crate::common::lie(&device, underpass_test_device::NvmeFault::None);
    disk.reset().unwrap();
    for read in reads {
        // Those that waited for a slot may have gone on to the new controller or been refused.
        let ended = read.join().unwrap();
        assert!(matches!(ended, Err(NvmeError::Reset | NvmeError::Stopped) | Ok(())), "{ended:?}");
    }
    disk.write(0, &[1; 512]).unwrap();
}

#[test]
fn what_is_no_disk_is_refused() {
    let _dog = watchdog();
    let (socket, _device) = underpass_test_device::start_edu().unwrap();
    let device = Device::open(DeviceSource::vfio_user_socket(socket)).unwrap();
    let soon = DiskOptions::default().patience(std::time::Duration::from_millis(100));
    assert!(NvmeDisk::open(device, soon).is_err());
}
