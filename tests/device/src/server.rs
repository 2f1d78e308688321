//! The device's side of vfio-user.

use crate::bus::DeviceBus;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use underpass_device::vfio_user::message::{
    CAPABILITIES, DeviceCommand, HEADER, MessageBody, MessageFields, MessageHeader, VERSION, device_flag,
    irq_flag, region_flag,
};
use underpass_os::{DeviceStream, EventFd, StreamEvent};

/// One region of a device.
#[derive(Debug)]
pub struct ModelRegion {
    /// Bytes.
    pub size: u64,
    /// The sealed memory that it consists of, if it can be mapped.
    pub file: Option<OwnedFd>,
}

/// A device.
pub trait DeviceModel {
    /// Its regions, in order. Those of a PCI device are nine: six base address registers, the ROM,
    /// the configuration space, and that of a display.
    fn regions(&self) -> &[ModelRegion];

    /// How many vectors it has.
    fn vectors(&self) -> u32;

    /// Reads registers.
    ///
    /// # Errors
    /// The number of an error of the system.
    fn read(&mut self, bus: &DeviceBus, region: u32, offset: u64, bytes: &mut [u8]) -> Result<(), i32>;

    /// Writes registers.
    ///
    /// # Errors
    /// The number of an error of the system.
    fn write(&mut self, bus: &DeviceBus, region: u32, offset: u64, bytes: &[u8]) -> Result<(), i32>;

    /// Back to the state in which it was first opened.
    fn reset(&mut self, bus: &DeviceBus);

    /// Does what it has to do by itself. Returns whether to be called again at once, even if no
    /// message comes.
    fn act(&mut self, bus: &DeviceBus) -> bool {
        let _ = bus;
        false
    }
}

const INVALID: i32 = 22;
const UNSUPPORTED: i32 = 95;
/// How many kinds of interrupts a PCI device has, and which of them is MSI-X.
const KINDS: u32 = 5;
const MSI_X: u32 = 2;
/// The most bytes of registers that one message reads.
const MOST: u32 = 4096;

/// Serves whoever connects to `path`, one after another, until the process ends.
///
/// # Errors
/// The socket can't be made.
pub fn serve_at(path: &Path, device: &mut dyn DeviceModel) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    loop {
        let (stream, _) = listener.accept()?;
        // A driver that breaks the protocol, or is killed within a message, costs its connection.
        let _ = serve(&DeviceStream::adopt(stream.into())?, device);
        device.reset(&DeviceBus::new(0));
    }
}

/// Serves a driver until it hangs up.
///
/// # Errors
/// The driver breaks the protocol.
pub fn serve(stream: &DeviceStream, device: &mut dyn DeviceModel) -> io::Result<()> {
    let mut serving = Serving { stream, bus: DeviceBus::new(device.vectors()), device };
    loop {
        while serving.device.act(&serving.bus) && !stream.wait(StreamEvent::Readable, 0)? {}
        let mut files = Vec::new();
        let mut header = [0; HEADER];
        if !serving.fill(&mut header, &mut files)? {
            return Ok(());
        }
        let header = MessageHeader::decode(&header).filter(|header| !header.is_reply).ok_or_else(broken)?;
        let mut body = vec![0; header.size as usize - HEADER];
        if !serving.fill(&mut body, &mut files)? {
            return Err(broken());
        }
        let answer = serving.handle(header, MessageFields(&body), files);
        if !header.no_reply {
            serving.reply(header, answer)?;
        }
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the driver broke the protocol")
}

#[derive(Default)]
struct Answer {
    body: MessageBody,
    file: Option<OwnedFd>,
}

struct Serving<'a> {
    stream: &'a DeviceStream,
    bus: DeviceBus,
    device: &'a mut dyn DeviceModel,
}

impl Serving<'_> {
    /// Receives exactly as many bytes. `false`: the driver has hung up.
    fn fill(&self, mut buffer: &mut [u8], files: &mut Vec<OwnedFd>) -> io::Result<bool> {
        while !buffer.is_empty() {
            match self.stream.receive(buffer, files) {
                Ok(0) => return Ok(false),
                Ok(received) => buffer = &mut buffer[received..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.wait(StreamEvent::Readable, u64::MAX / 2)?;
                }
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn reply(&self, request: MessageHeader, answer: Result<Answer, i32>) -> io::Result<()> {
        let (answer, error) = match answer {
            Ok(answer) => (answer, None),
            Err(error) => (Answer::default(), Some(error)),
        };
        let header = request.reply(answer.body.0.len(), error);
        let message = [&header.encode(), &answer.body.0[..]].concat();
        let files: Vec<_> = answer.file.iter().map(|file| file.as_fd()).collect();
        let (mut files, mut left) = (&files[..], &message[..]);
        while !left.is_empty() {
            match self.stream.send(left, files) {
                Ok(sent) => (left, files) = (&left[sent..], &[]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.wait(StreamEvent::Writable, u64::MAX / 2)?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn handle(
        &mut self,
        header: MessageHeader,
        asked: MessageFields<'_>,
        files: Vec<OwnedFd>,
    ) -> Result<Answer, i32> {
        let body = match DeviceCommand::of(header.command).ok_or(UNSUPPORTED)? {
            DeviceCommand::Version => {
                MessageBody::default().u16(VERSION.0).u16(VERSION.1).bytes(CAPABILITIES)
            }
            DeviceCommand::DeviceInfo => {
                let flags = device_flag::PCI | device_flag::RESET;
                MessageBody::default().u32(16).u32(flags).u32(self.device.regions().len() as u32).u32(KINDS)
            }
            DeviceCommand::RegionInfo => return self.region(asked.u32(8).ok_or(INVALID)?),
            DeviceCommand::IrqInfo => {
                let kind = asked.u32(8).filter(|kind| *kind < KINDS).ok_or(INVALID)?;
                let count = if kind == MSI_X { self.device.vectors() } else { 0 };
                MessageBody::default().u32(16).u32(1).u32(kind).u32(count)
            }
            DeviceCommand::SetIrqs => return self.set_irqs(asked, files).map(|()| Answer::default()),
            DeviceCommand::DmaMap => {
                let (offset, at, len) = (asked.u64(8), asked.u64(16), asked.u64(24));
                let (Some(offset), Some(at), Some(len)) = (offset, at, len) else { return Err(INVALID) };
                let file = files.first().ok_or(UNSUPPORTED)?;
                self.bus.map(at, len, file, offset).map_err(|_| INVALID)?;
                MessageBody::default()
            }
            DeviceCommand::DmaUnmap => {
                let (at, len) = (asked.u64(8).ok_or(INVALID)?, asked.u64(16).ok_or(INVALID)?);
                if !self.bus.unmap(at) {
                    return Err(INVALID);
                }
                MessageBody::default().u32(24).u32(0).u64(at).u64(len)
            }
            DeviceCommand::RegionRead => self.read(asked)?,
            DeviceCommand::RegionWrite => self.write(asked)?,
            DeviceCommand::Reset => {
                self.device.reset(&self.bus);
                MessageBody::default()
            }
        };
        Ok(Answer { body, file: None })
    }

    fn region(&self, number: u32) -> Result<Answer, i32> {
        let region = self.device.regions().get(number as usize).ok_or(INVALID)?;
        let mapped = if region.file.is_some() { region_flag::MAP } else { 0 };
        let flags = region_flag::READ | region_flag::WRITE | mapped;
        let body = MessageBody::default().u32(32).u32(flags).u32(number).u32(0).u64(region.size).u64(0);
        let file = region.file.as_ref().map(OwnedFd::try_clone).transpose().map_err(|_| INVALID)?;
        Ok(Answer { body, file })
    }

    fn set_irqs(&mut self, asked: MessageFields<'_>, files: Vec<OwnedFd>) -> Result<(), i32> {
        let fields = (asked.u32(4), asked.u32(8), asked.u32(12), asked.u32(16));
        let (Some(flags), Some(kind), Some(start), Some(count)) = fields else { return Err(INVALID) };
        if kind != MSI_X || flags & irq_flag::TRIGGER == 0 || count > self.device.vectors() {
            return Err(INVALID);
        }
        let mut files = files.into_iter();
        for vector in start..start.saturating_add(count) {
            if !self.bus.set_event(vector as usize, files.next().map(EventFd::adopt)) {
                return Err(INVALID);
            }
        }
        Ok(())
    }

    /// The place of an access: region, offset and length.
    fn place(&self, asked: MessageFields<'_>) -> Result<(u32, u64, u32), i32> {
        let fields = (asked.u64(0), asked.u32(8), asked.u32(12));
        let (Some(offset), Some(region), Some(len)) = fields else { return Err(INVALID) };
        let size = self.device.regions().get(region as usize).ok_or(INVALID)?.size;
        let inside = offset.checked_add(len.into()).is_some_and(|end| end <= size);
        if inside && len <= MOST { Ok((region, offset, len)) } else { Err(INVALID) }
    }

    fn read(&mut self, asked: MessageFields<'_>) -> Result<MessageBody, i32> {
        let (region, offset, len) = self.place(asked)?;
        let mut bytes = vec![0; len as usize];
        self.device.read(&self.bus, region, offset, &mut bytes)?;
        Ok(MessageBody::default().u64(offset).u32(region).u32(len).bytes(&bytes))
    }

    fn write(&mut self, asked: MessageFields<'_>) -> Result<MessageBody, i32> {
        let (region, offset, len) = self.place(asked)?;
        let bytes = asked.rest(16).filter(|bytes| bytes.len() == len as usize).ok_or(INVALID)?;
        self.device.write(&self.bus, region, offset, bytes)?;
        Ok(MessageBody::default().u64(offset).u32(region).u32(len))
    }
}
