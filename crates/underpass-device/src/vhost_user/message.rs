//! The messages of vhost-user: a header of 12 bytes, then a payload. All numbers are those of this
//! machine, which is little-endian.

use crate::vfio_user::message::MessageFields;

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum VhostCommand {
    /// Which features of virtio the device has.
    GetFeatures = 1,
    /// Which of them the driver uses.
    SetFeatures = 2,
    /// The driver begins.
    SetOwner = 3,
    /// All memory that the device may access.
    SetMemTable = 5,
    /// How many entries a queue has.
    SetVringNum = 8,
    /// Where a queue is.
    SetVringAddr = 9,
    /// Where a queue begins.
    SetVringBase = 10,
    /// Stops a queue.
    GetVringBase = 11,
    /// The event counter by which the driver signals the device.
    SetVringKick = 12,
    /// The event counter by which the device signals the driver.
    SetVringCall = 13,
    /// Which features of the protocol the device has.
    GetProtocolFeatures = 15,
    /// Which of them the driver uses.
    SetProtocolFeatures = 16,
    /// Lets a queue run, or not.
    SetVringEnable = 18,
    /// Reads the device's configuration.
    GetConfig = 24,
}

/// Bytes of a header.
pub const VHOST_HEADER: usize = 12;
/// The most bytes of a payload that comes.
pub(crate) const MOST_PAYLOAD: u32 = 512;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 4;
const NEEDS_REPLY: u32 = 8;

/// What stands before each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VhostHeader {
    /// See [`VhostCommand`].
    pub command: u32,
    /// Whether it is a reply.
    pub is_reply: bool,
    /// Whether its sender wants to hear whether it was done.
    pub needs_reply: bool,
    /// Bytes of the payload.
    pub size: u32,
}

impl VhostHeader {
    /// Its bytes.
    pub fn encode(self) -> [u8; VHOST_HEADER] {
        let mut flags = VERSION;
        flags |= if self.is_reply { REPLY } else { 0 };
        flags |= if self.needs_reply { NEEDS_REPLY } else { 0 };
        let mut bytes = [0; VHOST_HEADER];
        bytes[0..4].copy_from_slice(&self.command.to_le_bytes());
        bytes[4..8].copy_from_slice(&flags.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    /// Reads a header. `None` if its version or its size can't be.
    pub fn decode(bytes: &[u8; VHOST_HEADER]) -> Option<Self> {
        let fields = MessageFields(bytes);
        let (command, flags, size) = (fields.u32(0)?, fields.u32(4)?, fields.u32(8)?);
        let (is_reply, needs_reply) = (flags & REPLY != 0, flags & NEEDS_REPLY != 0);
        let can_be = flags & VERSION_MASK == VERSION && size <= MOST_PAYLOAD;
        can_be.then_some(Self { command, is_reply, needs_reply, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for (is_reply, needs_reply) in [(false, true), (true, false), (false, false)] {
            let header = VhostHeader { command: 24, is_reply, needs_reply, size: 268 };
            assert_eq!(VhostHeader::decode(&header.encode()), Some(header));
        }
    }

    #[test]
    fn a_header_that_can_t_be_is_refused() {
        let good = VhostHeader { command: 1, is_reply: true, needs_reply: false, size: 8 }.encode();
        for (at, byte) in [(4, 2), (4, 7), (9, 3), (11, 0x80)] {
            let mut bad = good;
            bad[at] = byte;
            assert_eq!(VhostHeader::decode(&bad), None, "byte {at}");
        }
    }
}
