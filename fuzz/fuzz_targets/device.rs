//! A device that lies to its driver: the answers of vfio-user and of vhost-user, and what a disk
//! writes into its queues and into the memory of its driver.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use underpass::device::vfio_user::message::MessageHeader;
use underpass::device::vhost_user::message::VhostHeader;
use underpass::device::{Device, DeviceSource};
use underpass_nvme::{DiskOptions, NvmeDisk};
use underpass_os::{DeviceStream, Memory};
use underpass_test_device::{DeviceBus, DeviceModel, ModelRegion, Nvme};

/// For so long the driver waits. It is short, since most inputs keep it waiting.
const PATIENCE: Duration = Duration::from_millis(2);

/// An answer to the request of the same number.
#[derive(Debug, Arbitrary)]
struct LyingAnswer {
    wrong_id: bool,
    command: u8,
    error: Option<i32>,
    body: Vec<u8>,
    with_memory: bool,
    /// Instead of all that.
    raw: Option<Vec<u8>>,
}

/// What a disk does at a write of its driver to a register, before it does what it should.
#[derive(Clone, Debug, Arbitrary)]
enum Lie {
    /// Nothing.
    Honest,
    /// It writes bytes to this page of the driver's memory.
    Scribble { page: u8, at: u16, bytes: Vec<u8> },
    /// It raises interrupts.
    Interrupt { times: u8 },
    /// It ignores the write.
    Ignore,
    /// The next reads return this.
    Read { value: u64, times: u8 },
    /// The access fails.
    Refuse { error: i32 },
}

#[derive(Debug, Arbitrary)]
enum Input {
    Answers(Vec<LyingAnswer>),
    VhostAnswers(Vec<LyingAnswer>),
    Disk { lies: Vec<Lie>, resets: bool },
}

/// A driver asks a device that has answered everything in advance.
fn answers(answers: &[LyingAnswer]) {
    let (ours, theirs) = DeviceStream::pair().expect("a socket");
    for (id, answer) in answers.iter().enumerate().take(64) {
        let bytes = answer.raw.clone().unwrap_or_else(|| {
            let header = MessageHeader {
                id: id as u16 ^ u16::from(answer.wrong_id),
                command: answer.command.into(),
                size: 0,
                is_reply: false,
                no_reply: false,
                error: None,
            };
            [&header.reply(answer.body.len(), answer.error).encode()[..], &answer.body].concat()
        });
        let memory = answer.with_memory.then(|| Memory::create("fuzz", 4096).expect("memory").1);
        let files: Vec<_> = memory.iter().map(|file| file.as_fd()).collect();
        let _ = theirs.send(&bytes, &files);
    }
    drop(theirs);
    let source = DeviceSource::vfio_user_socket(OwnedFd::from(ours)).patience(PATIENCE);
    let Ok(device) = Device::open(source) else { return };
    for number in [0, 2, 5] {
        let Ok(registers) = device.map_bar(number) else { continue };
        for offset in [0, 8, registers.size().saturating_sub(8)] {
            let _ = registers.read::<u64>(offset & !7);
            let _ = registers.write(offset & !7, 1u8);
        }
    }
    drop(device.dma(5000));
    let _ = device.reset();
}

/// The same for a virtio device.
fn vhost_answers(answers: &[LyingAnswer]) {
    let (ours, theirs) = DeviceStream::pair().expect("a socket");
    for answer in answers.iter().take(64) {
        let bytes = answer.raw.clone().unwrap_or_else(|| {
            let header = VhostHeader {
                command: answer.command.into(),
                is_reply: !answer.wrong_id,
                needs_reply: false,
                size: answer.body.len() as u32,
            };
            [&header.encode()[..], &answer.body].concat()
        });
        let memory = answer.with_memory.then(|| Memory::create("fuzz", 4096).expect("memory").1);
        let files: Vec<_> = memory.iter().map(|file| file.as_fd()).collect();
        let _ = theirs.send(&bytes, &files);
    }
    drop(theirs);
    let source = DeviceSource::vhost_user_socket(OwnedFd::from(ours)).patience(PATIENCE);
    let Ok(device) = Device::open(source) else { return };
    let Ok(registers) = device.map_bar(0) else { return };
    for offset in [0x10, 0x34, 0x70, 0x100, 0x1f8] {
        let _ = registers.read::<u32>(offset);
    }
    drop(device.dma(5000));
    for (offset, value) in [(0x38, 16u32), (0x70, 8), (0x44, 1), (0x50, 0), (0x70, 0)] {
        let _ = registers.write(offset, value);
    }
    let _ = device.reset();
}

struct LyingDisk {
    honest: Nvme,
    lies: std::vec::IntoIter<Lie>,
    reads: Option<(u64, u8)>,
}

impl DeviceModel for LyingDisk {
    fn regions(&self) -> &[ModelRegion] {
        self.honest.regions()
    }

    fn vectors(&self) -> u32 {
        1
    }

    fn read(&mut self, bus: &DeviceBus, region: u32, offset: u64, bytes: &mut [u8]) -> Result<(), i32> {
        match &mut self.reads {
            Some((value, times)) if *times > 0 => {
                *times -= 1;
                bytes.iter_mut().zip(value.to_le_bytes()).for_each(|(byte, of)| *byte = of);
                Ok(())
            }
            _ => self.honest.read(bus, region, offset, bytes),
        }
    }

    fn write(&mut self, bus: &DeviceBus, region: u32, offset: u64, bytes: &[u8]) -> Result<(), i32> {
        match self.lies.next() {
            None | Some(Lie::Honest) => {}
            Some(Lie::Scribble { page, at, bytes }) => {
                // The driver's addresses begin here.
                bus.write((1 << 32) + u64::from(page) * 4096 + u64::from(at), &bytes);
            }
            Some(Lie::Interrupt { times }) => (0..times).for_each(|_| bus.raise(0)),
            Some(Lie::Ignore) => return Ok(()),
            Some(Lie::Read { value, times }) => self.reads = Some((value, times)),
            Some(Lie::Refuse { error }) => return Err(error),
        }
        self.honest.write(bus, region, offset, bytes)
    }

    fn reset(&mut self, bus: &DeviceBus) {
        self.honest.reset(bus);
    }
}

fn disk(lies: Vec<Lie>, resets: bool) {
    let make = move || {
        let disk = LyingDisk { honest: Nvme::new(1 << 20), lies: lies.into_iter(), reads: None };
        Ok(Box::new(disk) as Box<dyn DeviceModel>)
    };
    let (socket, serving) = underpass_test_device::start(make).expect("a device");
    let device = Device::open(DeviceSource::vfio_user_socket(socket)).expect("its answers are honest");
    if let Ok(disk) = NvmeDisk::open(device, DiskOptions::default().patience(PATIENCE)) {
        for round in 0..4u64 {
            let _ = disk.write(round * 4096, &[round as u8; 12_288]);
            let _ = disk.read(round * 4096, &mut [0; 12_288]);
            let _ = disk.flush();
            if resets {
                let _ = disk.recover();
            }
        }
    }
    let _ = serving.join().expect("the disk itself does not panic");
}

fuzz_target!(|input: Input| {
    match input {
        Input::Answers(all) => answers(&all),
        Input::VhostAnswers(all) => vhost_answers(&all),
        Input::Disk { lies, resets } => disk(lies, resets),
    }
});
