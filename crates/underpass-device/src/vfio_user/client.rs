//! A device that is another process.

use crate::DeviceError;
use crate::backing::{Backing, RegisterRegion};
use crate::vfio_user::connection::{DeviceConnection, DeviceReply};
use crate::vfio_user::message::{
    CAPABILITIES, DeviceCommand, MessageBody, MessageFields, SPARSE_MAP, VERSION, device_flag, irq_flag,
    region_flag,
};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use underpass_os::{DeviceMemory, DeviceStream, EventFd, Memory};

/// Bytes of the answer about a region, without its capabilities.
const REGION_INFO: u32 = 32;
/// The most bytes of that answer with them.
const MOST_REGION_INFO: u32 = 4096;
/// The most parts of a region that are mapped.
const MOST_PARTS: usize = 16;
/// The largest part of a device that is mapped: 1 GiB.
const MOST_MAPPED: u64 = 1 << 30;
/// The most vectors that any kind of interrupts has (MSI-X).
const MOST_VECTORS: u32 = 2048;
/// The memory that is mapped for DMA can be read and written.
const READ_WRITE: u32 = 3;

/// The kinds of interrupts of a PCI device that need no unmasking after each, best first: MSI-X,
/// MSI.
const KINDS: [u32; 2] = [2, 1];

#[derive(Debug)]
pub(crate) struct VfioUser {
    connection: DeviceConnection,
    regions: u32,
    resets: bool,
    /// The kind of interrupts that it uses, and how many vectors there are.
    kind: u32,
    vectors: u32,
    /// The connection is a holder's, and goes on after this.
    held: bool,
}

impl VfioUser {
    /// Agrees on a version, and asks the device what it is.
    pub(crate) fn open(stream: DeviceStream, patience: Duration) -> Result<Self, DeviceError> {
        let connection = DeviceConnection::new(stream, patience);
        agree(&connection)?;
        Self::ask(connection, false)
    }

    /// Asks the device what it is, over the connection of a holder, which has agreed on a version.
    pub(crate) fn adopt(stream: DeviceStream, patience: Duration) -> Result<Self, DeviceError> {
        Self::ask(DeviceConnection::new(stream, patience), true)
    }

    fn ask(connection: DeviceConnection, held: bool) -> Result<Self, DeviceError> {
        let asked = MessageBody::default().u32(16).u32(0).u32(0).u32(0);
        let reply = connection.request("say what it is", DeviceCommand::DeviceInfo, &asked.0, &[])?;
        let told = MessageFields(&reply.body);
        let (flags, regions, kinds) = (told.u32(4), told.u32(8), told.u32(12));
        let (Some(flags), Some(regions), Some(kinds)) = (flags, regions, kinds) else {
            return Err(connection.malformed(TOO_SHORT));
        };
        if flags & device_flag::PCI == 0 {
            return Err(DeviceError::Unsupported("registers of a PCI device"));
        }
        let resets = flags & device_flag::RESET != 0;
        let mut device = Self { connection, regions, resets, kind: 0, vectors: 0, held };
        for kind in KINDS.into_iter().filter(|kind| *kind < kinds) {
            device.vectors = device.vectors_of(kind)?;
            device.kind = kind;
            if device.vectors > 0 {
                break;
            }
        }
        Ok(device)
    }

    fn vectors_of(&self, kind: u32) -> Result<u32, DeviceError> {
        let asked = MessageBody::default().u32(16).u32(0).u32(kind).u32(0);
        let reply =
            self.connection.request("say which interrupts it has", DeviceCommand::IrqInfo, &asked.0, &[])?;
        let vectors = MessageFields(&reply.body).u32(12);
        Ok(vectors.ok_or_else(|| self.connection.malformed(TOO_SHORT))?.min(MOST_VECTORS))
    }

    fn region_info(&self, number: u32, room: u32) -> Result<DeviceReply, DeviceError> {
        let asked = MessageBody::default().u32(room).u32(0).u32(number).u32(0).u64(0).u64(0);
        self.connection.request("say what a region is", DeviceCommand::RegionInfo, &asked.0, &[])
    }

    fn answer(&self, reply: &DeviceReply, number: u32) -> Result<RegionAnswer, DeviceError> {
        RegionAnswer::of(&reply.body, number).map_err(|why| self.connection.malformed(why))
    }
}

const TOO_SHORT: &str = "a reply is too short";

/// Both sides name the version that they speak. What the device adds about its limits is not read:
/// no message here goes beyond the least limits of the protocol.
fn agree(connection: &DeviceConnection) -> Result<(), DeviceError> {
    let hello = MessageBody::default().u16(VERSION.0).u16(VERSION.1).bytes(CAPABILITIES);
    let reply = connection.request("agree on a version", DeviceCommand::Version, &hello.0, &[])?;
    let told = MessageFields(&reply.body);
    match (told.u16(0), told.u16(2)) {
        (Some(major), Some(minor)) if major == VERSION.0 && minor <= VERSION.1 => Ok(()),
        (Some(_), Some(_)) => Err(DeviceError::Unsupported("version of vfio-user that we speak")),
        _ => Err(connection.malformed(TOO_SHORT)),
    }
}

/// What a device says of a region.
struct RegionAnswer {
    flags: u32,
    room: u32,
    capabilities: u32,
    size: u64,
    offset: u64,
}

impl RegionAnswer {
    fn of(body: &[u8], number: u32) -> Result<Self, &'static str> {
        let told = MessageFields(body);
        let answer = (|| {
            Some(Self {
                room: told.u32(0)?,
                flags: told.u32(4)?,
                capabilities: told.u32(12)?,
                size: told.u64(16)?,
                offset: told.u64(24)?,
            })
        })();
        match answer {
            Some(answer) if told.u32(8) == Some(number) => Ok(answer),
            Some(_) => Err("it tells of another region than was asked for"),
            None => Err(TOO_SHORT),
        }
    }
}

/// The parts of a region that can be mapped, by its capabilities: where each begins, and its
/// length. `None`: nothing is said, so all of it can. A broken list counts as one without parts.
fn parts(body: &[u8], first: u32) -> Option<Vec<(u64, u64)>> {
    let told = MessageFields(body);
    let mut at = first as usize;
    // Each capability lies behind the one before, so this ends.
    while at >= REGION_INFO as usize {
        let (kind, next) = (told.u16(at)?, told.u32(at + 4)? as usize);
        if kind == SPARSE_MAP {
            let count = (told.u32(at + 8)? as usize).min(MOST_PARTS);
            let part = |n: usize| Some((told.u64(at + 16 + 16 * n)?, told.u64(at + 24 + 16 * n)?));
            return Some((0..count).map_while(part).collect());
        }
        at = if next > at { next } else { 0 };
    }
    None
}

/// Maps part of a region, if its file is memory that the device can't cut. Otherwise the part is
/// reached by messages.
fn map(file: BorrowedFd<'_>, answer: &RegionAnswer, (begin, len): (u64, u64)) -> Option<(u64, DeviceMemory)> {
    let inside = begin.checked_add(len).is_some_and(|end| end <= answer.size);
    let from = answer.offset.checked_add(begin)?;
    let to = from.checked_add(len)?;
    let size = Memory::length_of(file).ok()?;
    if !inside || len == 0 || to > size || size > MOST_MAPPED {
        return None;
    }
    let memory = Memory::adopt(file, size as usize).ok()?;
    Some((begin, DeviceMemory::within(memory, from as usize..to as usize)?))
}

impl Backing for VfioUser {
    fn region(&self, number: u32) -> Result<RegisterRegion, DeviceError> {
        if number >= self.regions {
            return Ok(RegisterRegion { size: 0, mapped: Vec::new() });
        }
        let mut reply = self.region_info(number, REGION_INFO)?;
        let mut answer = self.answer(&reply, number)?;
        let more = answer.flags & region_flag::CAPABILITIES != 0 && answer.room > REGION_INFO;
        if more && answer.room <= MOST_REGION_INFO {
            reply = self.region_info(number, answer.room)?;
            answer = self.answer(&reply, number)?;
        }
        let mut mapped = Vec::new();
        if let Some(file) = reply.files.first()
            && answer.flags & region_flag::MAP != 0
        {
            let parts = parts(&reply.body, answer.capabilities).unwrap_or_else(|| vec![(0, answer.size)]);
            mapped.extend(parts.into_iter().filter_map(|part| map(file.as_fd(), &answer, part)));
        }
        Ok(RegisterRegion { size: answer.size, mapped })
    }

    fn read(&self, region: u32, offset: u64, width: usize) -> Result<u64, DeviceError> {
        let asked = MessageBody::default().u64(offset).u32(region).u32(width as u32);
        let reply = self.connection.request("read a register", DeviceCommand::RegionRead, &asked.0, &[])?;
        let told = MessageFields(&reply.body);
        let bytes = told.rest(16).filter(|bytes| bytes.len() == width);
        let bytes = bytes.ok_or_else(|| self.connection.malformed("it tells more or less of a register"))?;
        let mut value = [0; 8];
        value[..width].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(value))
    }

    fn write(&self, region: u32, offset: u64, width: usize, value: u64) -> Result<(), DeviceError> {
        let body = MessageBody::default().u64(offset).u32(region).u32(width as u32);
        let body = body.bytes(&value.to_le_bytes()[..width]);
        self.connection.post("write a register", DeviceCommand::RegionWrite, &body.0)
    }

    fn map_dma(&self, iova: u64, memory: &DeviceMemory, file: BorrowedFd<'_>) -> Result<(), DeviceError> {
        let len = memory.len() as u64;
        let body = MessageBody::default().u32(32).u32(READ_WRITE).u64(0).u64(iova).u64(len);
        self.connection.request("map memory", DeviceCommand::DmaMap, &body.0, &[file]).map(drop)
    }

    fn unmap_dma(&self, iova: u64, len: u64) -> Result<(), DeviceError> {
        let body = MessageBody::default().u32(24).u32(0).u64(iova).u64(len);
        self.connection.request("unmap memory", DeviceCommand::DmaUnmap, &body.0, &[]).map(drop)
    }

    fn vectors(&self) -> u32 {
        self.vectors
    }

    fn set_interrupt(&self, vector: u32, events: Option<&EventFd>) -> Result<(), DeviceError> {
        let files: Vec<_> = events.iter().map(|events| events.as_fd()).collect();
        // A vector for which no event counter comes along is disabled.
        let data = irq_flag::EVENTS | irq_flag::TRIGGER;
        let body = MessageBody::default().u32(20).u32(data).u32(self.kind).u32(vector).u32(1);
        self.connection.request("enable an interrupt", DeviceCommand::SetIrqs, &body.0, &files).map(drop)
    }

    fn reset(&self) -> Result<(), DeviceError> {
        if !self.resets {
            return Err(DeviceError::Unsupported("reset"));
        }
        self.connection.request("reset itself", DeviceCommand::Reset, &[], &[]).map(drop)
    }

    fn close(&self) {
        if !self.held {
            self.connection.hang_up();
        }
    }

    fn files(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.connection.file()]
    }

    fn reset_after(&self, turn: u16) -> Result<(), DeviceError> {
        if !self.resets {
            return Err(DeviceError::Unsupported("reset"));
        }
        self.connection.reset_after(turn)
    }

    fn address(&self) -> Option<&str> {
        None
    }

    fn ends_with(&self) -> Option<BorrowedFd<'_>> {
        Some(self.connection.file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capability(kind: u16, next: u32) -> MessageBody {
        MessageBody(vec![0; REGION_INFO as usize]).u16(kind).u16(1).u32(next)
    }

    #[test]
    fn the_parts_that_can_be_mapped_are_listed() {
        let one = capability(SPARSE_MAP, 0).u32(2).u32(0).u64(0).u64(4096).u64(8192).u64(4096);
        assert_eq!(parts(&one.0, REGION_INFO), Some(vec![(0, 4096), (8192, 4096)]));
        let behind = capability(9, 40).u16(SPARSE_MAP).u16(1).u32(0).u32(1).u32(0).u64(1).u64(2);
        assert_eq!(parts(&behind.0, REGION_INFO), Some(vec![(1, 2)]));
        assert_eq!(parts(&capability(9, 0).0, REGION_INFO), None);
        assert_eq!(parts(&one.0, 0), None);
    }

    #[test]
    fn a_broken_list_of_parts_ends() {
        let circle = capability(9, REGION_INFO);
        assert_eq!(parts(&circle.0, REGION_INFO), None);
        assert_eq!(parts(&capability(9, u32::MAX).0, REGION_INFO), None);
        assert_eq!(parts(&[0; 40], u32::MAX), None);
        let many = capability(SPARSE_MAP, 0).u32(u32::MAX).u32(0).u64(1).u64(2);
        assert_eq!(parts(&many.0, REGION_INFO), Some(vec![(1, 2)]));
    }
}
