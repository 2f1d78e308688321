//! Disks that lie: each costs its driver an error, and no more.

use crate::common::{disk, disk_within, lie, until, watchdog};
use std::sync::Arc;
use std::time::Duration;
use underpass::device::DeviceError;
use underpass::thread::spawn;
use underpass_nvme::{BlockDevice, BlockError, DiskService, NvmeError};
use underpass_test_device::NvmeFault;

/// For a command that never ends.
const SHORT: Duration = Duration::from_millis(100);

fn is_late(result: &Result<(), NvmeError>) -> bool {
    matches!(result, Err(NvmeError::Device(DeviceError::Late(_))))
}

#[test]
fn completions_of_commands_that_never_were_are_counted_and_ignored() {
    let _dog = watchdog();
    let (disk, device) = disk_within(SHORT);
    lie(&device, NvmeFault::UnknownCommand);
    // On a busy machine the disk may not even have lied in time. Then it is asked again.
    until(|| {
        disk.recover().ok()?;
        let late = disk.write(0, &[1; 512]);
        assert!(is_late(&late), "{late:?}");
        (disk.counts().lies >= 1).then_some(())
    });
    assert!(disk.needs_reset() && matches!(disk.flush(), Err(NvmeError::Stopped)));
}

#[test]
fn a_second_completion_ends_no_other_command() {
    let _dog = watchdog();
    let (disk, device) = disk();
    lie(&device, NvmeFault::Twice);
    for round in 1..=200 {
        disk.write(0, &[round as u8; 512]).unwrap();
        let mut read = [0; 512];
        disk.read(0, &mut read).unwrap();
        assert_eq!(read, [round as u8; 512]);
    }
    assert!(disk.counts().lies >= 300, "{:?}", disk.counts());
}

#[test]
fn a_queue_of_which_all_looks_new_ends() {
    let _dog = watchdog();
    let (disk, device) = disk_within(SHORT);
    lie(&device, NvmeFault::AllNew);
    until(|| {
        // It may succeed by chance; what matters is that it ends.
        let _ = disk.write(0, &[1; 512]);
        (disk.counts().lies >= 1).then_some(()).or_else(|| disk.recover().err().and(None))
    });
    lie(&device, NvmeFault::None);
    until(|| disk.reset().ok());
}

#[test]
fn a_failed_command_says_why() {
    let _dog = watchdog();
    let (disk, device) = disk();
    lie(&device, NvmeFault::Fails);
    let failed = disk.read(0, &mut [0; 512]);
    assert!(matches!(failed, Err(NvmeError::Status(2, 0x81))), "{failed:?}");
    lie(&device, NvmeFault::None);
    disk.read(0, &mut [0; 512]).unwrap();
}

#[test]
fn a_disk_without_interrupts_is_late_or_is_polled() {
    let _dog = watchdog();
    let (disk, device) = disk_within(SHORT);
    lie(&device, NvmeFault::NoInterrupts);
    // The wait looks once more at its deadline, so that the command succeeds if the disk was in
    // time.
    until(|| disk.write(0, &[1; 512]).ok().or_else(|| disk.recover().err().and(None)));
}

#[test]
fn a_storm_costs_upcalls_and_no_command() {
    let _dog = watchdog();
    let (disk, device) = disk();
    lie(&device, NvmeFault::Storm);
    let disk = Arc::new(disk);
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let disk = Arc::clone(&disk);
            spawn(move || {
                for round in 0..20 {
                    disk.write(number * 4096, &[round; 4096])?;
                }
                Ok::<(), NvmeError>(())
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    lie(&device, NvmeFault::None);
}

#[test]
fn a_controller_that_does_not_start_or_stop_is_an_error() {
    let _dog = watchdog();
    for fault in [NvmeFault::NeverReady, NvmeFault::Fatal, NvmeFault::NeverStops] {
        let (disk, device) = disk_within(SHORT);
        lie(&device, fault);
        assert!(disk.reset().is_err(), "{fault:?}");
        assert!(disk.needs_reset());
        assert!(matches!(disk.write(0, &[1; 512]), Err(NvmeError::Stopped)));
        lie(&device, NvmeFault::None);
        // Its device may be slow to hear of it on a busy machine; a later try starts it.
        until(|| disk.reset().ok());
        until(|| match disk.write(0, &[1; 512]) {
            Ok(()) => Some(()),
            Err(_) => disk.reset().err().and(None),
        });
    }
}

#[test]
fn a_service_resets_its_disk_and_goes_on() {
    let _dog = watchdog();
    let (disk, device) = disk_within(SHORT);
    let service = DiskService::new(disk);
    until(|| service.write(0, &[7; 4096]).ok());
    lie(&device, NvmeFault::Silent);
    let failed = service.write(0, &[8; 4096]);
    assert!(matches!(failed, Err(BlockError::Failed(_) | BlockError::Restarted)), "{failed:?}");
    lie(&device, NvmeFault::None);
    let read = until(|| service.read(0, 4096).ok());
    assert!(read == [7; 4096] || read == [8; 4096]);
    assert_eq!(service.read(0, u32::MAX).unwrap_err(), BlockError::OutOfBounds);
}

#[test]
fn a_cancelled_thread_leaves_the_disk_to_others() {
    let _dog = watchdog();
    let (disk, device) = disk();
    let disk = Arc::new(disk);
    lie(&device, NvmeFault::Silent);
    let reads: Vec<_> = (0..3)
        .map(|_| {
            let disk = Arc::clone(&disk);
            spawn(move || disk.read(0, &mut [0; 512]))
        })
        .collect();
    until(|| (disk.counts().interrupts.blocked >= 3).then_some(()));
    for read in reads {
        read.thread().cancel();
        let ended = read.join().unwrap();
        assert!(matches!(ended, Err(NvmeError::Device(DeviceError::Cancelled))), "{ended:?}");
    }
    lie(&device, NvmeFault::None);
    for _ in 0..100 {
        disk.read(0, &mut [0; 512]).unwrap();
    }
    assert!(!disk.needs_reset());
}
