//! Devices that end, and devices that break their protocol: each costs its driver an error.

use crate::common::{DeviceProcess, far, until, watchdog};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use underpass::device::vfio_user::message::{DeviceCommand, HEADER, MessageBody, MessageHeader};
use underpass::device::{Device, DeviceError, DeviceEvent, DeviceSource, InterruptOutcome};
use underpass::thread::spawn;
use underpass_os::{DeviceStream, StreamEvent};

#[test]
fn the_end_of_a_device_ends_all_waits() {
    let _dog = watchdog();
    let mut process = DeviceProcess::start(&["edu"]);
    let device = process.open();
    let (registers, memory) = (device.map_bar(0).unwrap(), device.dma(4096).unwrap());
    let mapped = device.map_bar(2).unwrap();
    let enabled: Vec<_> = [0, 1]
        .map(|n| Arc::new(device.interrupt(n).unwrap().register(|_| InterruptOutcome::Handled).unwrap()))
        .into();
    let waits: Vec<_> = (0..8)
        .map(|n| {
            let enabled = enabled[n % 2].clone();
            spawn(move || enabled.wait(&Arc::new(DeviceEvent::new()), far(), || None::<()>))
        })
        .collect();
    until(|| (enabled.iter().map(|vector| vector.counts().blocked).sum::<u64>() == 8).then_some(()));
    process.kill();
    for wait in waits {
        let ended = wait.join().unwrap();
        assert!(matches!(ended, Err(DeviceError::Gone)), "{ended:?}");
    }
    assert!(device.is_gone());
    assert!(matches!(registers.read::<u32>(0), Err(DeviceError::Gone)));
    assert!(matches!(registers.write(0, 1u32), Err(DeviceError::Gone)));
    assert!(matches!(device.reset(), Err(DeviceError::Gone)));
    assert!(matches!(device.dma(4096), Err(DeviceError::Gone)));
    // What is private to the driver stays.
    memory.copy_in(0, b"hello").unwrap();
    mapped.write(0, 1u32).unwrap();
    drop((memory, enabled));
    let late = device.interrupt(0).unwrap().register(|_| InterruptOutcome::Handled);
    assert!(matches!(late, Err(DeviceError::Gone)), "{late:?}");
}

#[test]
fn a_device_that_ends_within_a_request_is_gone() {
    let _dog = watchdog();
    for _ in 0..10 {
        let process = DeviceProcess::start(&["edu"]);
        let device = process.open();
        let registers = device.map_bar(0).unwrap();
        registers.write(0xa8, 1u32).unwrap();
        assert!(matches!(registers.read::<u32>(0), Err(DeviceError::Gone)));
        until(|| device.is_gone().then_some(()));
    }
}

#[test]
fn a_device_that_does_not_answer_is_given_up() {
    let _dog = watchdog();
    let (ours, _theirs) = DeviceStream::pair().unwrap();
    let source = DeviceSource::vfio_user_socket(OwnedFd::from(ours)).patience(Duration::from_millis(20));
    let late = Device::open(source);
    assert!(matches!(late, Err(DeviceError::Late(_))), "{late:?}");
}

#[test]
fn there_must_be_a_device() {
    let _dog = watchdog();
    let missing = Device::open(DeviceSource::vfio_user("/nonexistent/device"));
    assert!(matches!(missing, Err(DeviceError::System(_))), "{missing:?}");
    let file = std::fs::File::open("/dev/null").unwrap();
    let wrong = Device::open(DeviceSource::vfio_user_socket(file));
    assert!(matches!(wrong, Err(DeviceError::System(_))), "{wrong:?}");
}

/// Reads one request of the driver. `None`: it has hung up.
fn request(stream: &DeviceStream) -> Option<MessageHeader> {
    let fill = |mut buffer: &mut [u8]| {
        while !buffer.is_empty() {
            match stream.receive(buffer, &mut Vec::new()) {
                Ok(0) => return None,
                Ok(n) => buffer = &mut buffer[n..],
                Err(_) => drop(stream.wait(StreamEvent::Readable, u64::MAX / 2)),
            }
        }
        Some(())
    };
    let mut header = [0; HEADER];
    fill(&mut header)?;
    let header = MessageHeader::decode(&header)?;
    fill(&mut vec![0; header.size as usize - HEADER])?;
    Some(header)
}

/// Answers as an honest device does, as far as it is asked when it is opened.
fn honest(request: MessageHeader) -> Vec<u8> {
    let body = match DeviceCommand::of(request.command) {
        Some(DeviceCommand::Version) => MessageBody::default().u16(0).u16(1).bytes(b"{}\0"),
        Some(DeviceCommand::DeviceInfo) => MessageBody::default().u32(16).u32(3).u32(9).u32(5),
        Some(DeviceCommand::IrqInfo) => MessageBody::default().u32(16).u32(1).u32(2).u32(1),
        Some(DeviceCommand::RegionInfo) => {
            MessageBody::default().u32(32).u32(7).u32(0).u32(0).u64(4096).u64(0)
        }
        _ => MessageBody::default(),
    };
    [&request.reply(body.0.len(), None).encode()[..], &body.0].concat()
}

/// A device whose answer to the request of number `at` is changed.
fn liar(at: usize, lie: impl Fn(MessageHeader) -> Vec<u8> + Send + 'static) -> Device {
    match open_liar(at, lie) {
        Ok(device) => device,
        Err(e) => panic!("{e}"),
    }
}

fn open_liar(
    at: usize,
    lie: impl Fn(MessageHeader) -> Vec<u8> + Send + 'static,
) -> Result<Device, DeviceError> {
    let (ours, theirs) = DeviceStream::pair().unwrap();
    std::thread::spawn(move || {
        for number in 0.. {
            let Some(header) = request(&theirs) else { return };
            let answer = if number == at { lie(header) } else { honest(header) };
            // The driver may have hung up.
            let _ = theirs.send(&answer, &[]);
            if answer.is_empty() {
                return;
            }
        }
    });
    Device::open(DeviceSource::vfio_user_socket(OwnedFd::from(ours)).patience(Duration::from_secs(60)))
}

#[test]
fn answers_that_can_t_be_end_the_device() {
    let _dog = watchdog();
    type Lie = fn(MessageHeader) -> Vec<u8>;
    let lies: &[(&str, Lie)] = &[
        ("too large", |header| MessageHeader { size: 1 << 31, ..header.reply(0, None) }.encode().into()),
        ("too small", |header| MessageHeader { size: 3, ..header.reply(0, None) }.encode().into()),
        ("a request", |header| header.encode().into()),
        ("another id", |header| MessageHeader { id: header.id ^ 1, ..header.reply(0, None) }.encode().into()),
        ("another command", |header| MessageHeader { command: 9, ..header.reply(0, None) }.encode().into()),
        ("no body", |header| header.reply(0, None).encode().into()),
        ("garbage", |_| vec![0xff; 64]),
    ];
    for (name, lie) in lies {
        for at in 0..2 {
            let opened = open_liar(at, *lie);
            assert!(matches!(opened, Err(DeviceError::Malformed(_))), "{name} {at}: {opened:?}");
        }
    }
    assert!(matches!(open_liar(0, |_| Vec::new()), Err(DeviceError::Gone)));
    let refused = open_liar(1, |header| header.reply(0, Some(13)).encode().into());
    assert!(matches!(refused, Err(DeviceError::Refused(_, 13))), "{refused:?}");
    let other = open_liar(0, |header| [&header.reply(4, None).encode()[..], &[9, 0, 0, 0]].concat());
    assert!(matches!(other, Err(DeviceError::Unsupported(_))), "{other:?}");
}

#[test]
fn a_region_that_can_t_be_is_an_error_or_is_not_mapped() {
    let _dog = watchdog();
    let answer = |header: MessageHeader, body: MessageBody| {
        [&header.reply(body.0.len(), None).encode()[..], &body.0].concat()
    };
    // The region info is the request of number 3.
    let other = liar(3, move |header| {
        answer(header, MessageBody::default().u32(32).u32(7).u32(5).u32(0).u64(1).u64(0))
    });
    assert!(matches!(other.map_bar(0), Err(DeviceError::Malformed(_))));
    let short = liar(3, move |header| answer(header, MessageBody::default().u32(32).u32(7)));
    assert!(matches!(short.map_bar(0), Err(DeviceError::Malformed(_))));
    let huge = liar(3, move |header| {
        answer(header, MessageBody::default().u32(u32::MAX).u32(15).u32(0).u32(9).u64(u64::MAX).u64(u64::MAX))
    });
    let registers = huge.map_bar(0).unwrap();
    assert!(!registers.is_mapped(0, 4));
    // A register of which too much or too little is told.
    assert!(matches!(registers.read::<u32>(u64::MAX - 7), Err(DeviceError::Malformed(_))));
    until(|| huge.is_gone().then_some(()));
}

#[test]
fn memory_that_a_device_could_cut_is_not_mapped() {
    let _dog = watchdog();
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let (ours, theirs) = DeviceStream::pair().unwrap();
    std::thread::spawn(move || {
        while let Some(header) = request(&theirs) {
            let files = [file.as_fd()];
            let files = if header.command == DeviceCommand::RegionInfo as u16 { &files[..] } else { &[] };
            let _ = theirs.send(&honest(header), files);
        }
    });
    let device = Device::open(DeviceSource::vfio_user_socket(OwnedFd::from(ours))).unwrap();
    assert!(!device.map_bar(0).unwrap().is_mapped(0, 4));
}

/// How many files of this length this process has open.
fn open_files_of(len: usize) -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    files.filter(|file| std::fs::metadata(file.path()).is_ok_and(|file| file.len() == len as u64)).count()
}

#[test]
fn memory_that_a_device_may_still_access_is_freed_by_its_reset_or_close() {
    // No other test has memory of this length.
    const LEN: usize = 53 * 4096;
    const BUSY: i32 = 16;
    let _dog = watchdog();
    let (ours, theirs) = DeviceStream::pair().unwrap();
    std::thread::spawn(move || {
        while let Some(header) = request(&theirs) {
            let refuses = header.command == DeviceCommand::DmaUnmap as u16;
            let refusal = || header.reply(0, Some(BUSY)).encode().into();
            let _ = theirs.send(&if refuses { refusal() } else { honest(header) }, &[]);
        }
    });
    let device = Device::open(DeviceSource::vfio_user_socket(OwnedFd::from(ours))).unwrap();
    let first = device.dma(LEN).unwrap();
    let iova = first.iova();
    drop(first);
    assert_eq!(open_files_of(LEN), 1, "the device has not confirmed that it forgets the memory");
    let second = device.dma(LEN).unwrap();
    assert_ne!(second.iova(), iova, "nothing else is at its address");
    drop(second);
    assert_eq!(open_files_of(LEN), 2);
    device.reset().unwrap();
    assert_eq!(open_files_of(LEN), 0);
    drop(device.dma(LEN).unwrap());
    assert_eq!(open_files_of(LEN), 1);
    drop(device);
    until(|| (open_files_of(LEN) == 0).then_some(()));
}

#[test]
fn a_device_that_reads_nothing_holds_up_no_handler() {
    let _dog = watchdog();
    // On a busy machine, opening it may take longer than the patience that the end wants.
    let (opened, device) = until(|| {
        let (ours, theirs) = DeviceStream::pair().unwrap();
        let device = std::thread::spawn(move || {
            for _ in 0..4 {
                let header = request(&theirs)?;
                theirs.send(&honest(header), &[]).ok()?;
            }
            Some(theirs)
        });
        let source = DeviceSource::vfio_user_socket(OwnedFd::from(ours)).patience(Duration::from_millis(300));
        let registers = Device::open(source).and_then(|opened| opened.map_bar(0));
        registers.ok().map(|registers| (registers, device))
    });
    let (registers, _theirs) = (opened, device.join().unwrap());
    let handler = registers.clone();
    let full = spawn(move || {
        let (done, failed) = (Arc::new(DeviceEvent::new()), Arc::new(std::sync::Mutex::new(None)));
        let (signal, error) = (done.clone(), failed.clone());
        underpass_threads::inject(None, move || {
            let full = (0..100_000).find_map(|_| handler.write(0, 1u32).err());
            *error.lock().unwrap() = full;
            signal.signal();
        });
        done.wait(far()).unwrap();
        failed.lock().unwrap().take()
    });
    let full = full.join().unwrap();
    assert!(matches!(full, Some(DeviceError::InHandler(_))), "{full:?}");
    let late = registers.write(0, 1u32);
    assert!(matches!(late, Err(DeviceError::Late(_))), "{late:?}");
}
