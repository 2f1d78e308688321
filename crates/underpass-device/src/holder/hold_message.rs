//! What a holder tells a driver, and the one byte that a driver tells its holder.

use crate::vfio_user::message::{MessageBody, MessageFields};

/// Bytes of the message.
pub(super) const LENGTH: usize = 40;
const MAGIC: u64 = u64::from_le_bytes(*b"UPDEVICE");
const VERSION: u32 = 1;

/// A driver has handed the device over: the next one gets it as it is.
pub(super) const HANDED_OVER: u8 = b'H';

/// Through what the device is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum HeldWay {
    /// One file: the connection.
    VfioUser = 1,
    /// Three files: the device, its container, its group.
    VfioPci = 2,
}

impl HeldWay {
    /// How many files belong to it.
    pub(super) fn files(self) -> usize {
        match self {
            Self::VfioUser => 1,
            Self::VfioPci => 3,
        }
    }
}

/// The file of the memory goes along with this message, and then the files of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HoldMessage {
    pub(super) way: HeldWay,
    pub(super) handed_over: bool,
    /// The device's address of the memory, and its bytes.
    pub(super) iova: u64,
    pub(super) len: u64,
}

impl HoldMessage {
    pub(super) fn encode(self) -> Vec<u8> {
        let body = MessageBody::default().u64(MAGIC).u32(VERSION).u32(self.way as u32);
        body.u64(self.handed_over.into()).u64(self.iova).u64(self.len).0
    }

    pub(super) fn decode(bytes: &[u8; LENGTH]) -> Option<Self> {
        let fields = MessageFields(bytes);
        let way = match fields.u32(12)? {
            1 => HeldWay::VfioUser,
            2 => HeldWay::VfioPci,
            _ => return None,
        };
        let ours = fields.u64(0)? == MAGIC && fields.u32(8)? == VERSION;
        let (flags, iova, len) = (fields.u64(16)?, fields.u64(24)?, fields.u64(32)?);
        ours.then_some(Self { way, handed_over: flags & 1 != 0, iova, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        for (way, handed_over) in [(HeldWay::VfioUser, false), (HeldWay::VfioPci, true)] {
            let message = HoldMessage { way, handed_over, iova: 1 << 32, len: 4096 };
            let mut bytes: [u8; LENGTH] = message.encode().try_into().unwrap();
            assert_eq!(HoldMessage::decode(&bytes), Some(message));
            for at in [0, 8, 12] {
                bytes[at] ^= 0x40;
                assert_eq!(HoldMessage::decode(&bytes), None, "byte {at}");
                bytes[at] ^= 0x40;
            }
        }
    }
}
