//! The messages that travel over a connection's socket once it is made: rings for an unpolled ring,
//! files, further channels, and the ends of rows.

use underpass_channel::Tag;
use underpass_channel::layout::CHANNELS;

/// One message, 16 bytes: kind, one byte with the location of the bytes and the channel's number,
/// slot, number of files, number of the overflow buffer, and the length or the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlMessage {
    /// There is a message in a ring that the receiver does not poll.
    Bell,
    /// The sender closes the connection; a hang-up follows.
    Closing,
    /// An out-of-band message for `slot`. Its arguments or results are the first `length` bytes of
    /// the location that `location` says. `files` other files belong to them.
    OutOfBand { slot: u16, files: u16, location: PayloadLocation, length: u64 },
    /// Client to server: the file that comes along is an overflow buffer of `slot`, for results.
    OverflowBuffer { slot: u16, number: u16 },
    /// Server to client: the row is closed. If it is `revoked`, the client must not use the binding
    /// any more: its server has revoked it, or it has expired.
    RowClosed { tag: Tag, revoked: bool },
    /// Client to server: nobody uses the row any more.
    Release { tag: Tag },
    /// Client to server: nobody waits any more for the calls of these slots, given as bits.
    Unwanted { slots: u64 },
    /// Client to server: nobody waits any more for the late call of this number.
    UnwantedLate { number: u64 },
    /// Client to server: it wants to pass the binding on.
    Share { tag: Tag },
    /// Server to client: the file that comes along is a ticket. The process that uses it gets a
    /// binding.
    Ticket,
    /// Server to client: there is no ticket, because the client may not pass the binding on (`may`
    /// is false) or there is no room.
    NoTicket { may: bool },
    /// Client to server: it wants another channel for this binding.
    Ask,
    /// Server to client: the file that comes along is the region of the new channel, which has the
    /// message's channel number.
    Opened,
    /// Server to client: there is no new channel, because memory or files have run out.
    Refused,
    /// Client to server: it wants to give an interface, so it needs the reverse channel. Requests
    /// over it may have prefixes if it says so. Older clients do not.
    AskReverse { prefixes: bool },
    /// Server to client: the file that comes along is the region of the reverse channel. If there
    /// is none, there is no room. The server's clock is `ahead` of the client's, in ns.
    ReverseOpened { ahead: i64 },
    /// Either side: this row of its own has come home in a reply.
    Home { tag: Tag },
}

/// Where the bytes of an out-of-band message lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadLocation {
    /// In the first of the files.
    PayloadFile,
    /// In the slot's A-stack.
    Stack,
    /// In the slot's overflow buffer.
    OverflowBuffer,
    /// In an overflow buffer with this number, which is the first of the files.
    NewOverflowBuffer(u16),
}

/// Bytes of a message.
pub(crate) const CONTROL: usize = 16;

/// The bits of a byte that say where the bytes lie.
const LOCATION: u8 = 0x7;
/// The bit of this byte that is set in messages for the reverse channel. The four bits above it are
/// the channel's number.
const REVERSED: u8 = 0x8;
/// The number of the reverse channel, which comes after all others.
pub(crate) const REVERSE: u8 = CHANNELS as u8;
const _: () = assert!(CHANNELS <= 16, "a channel's number has four bits");

/// Writes the kind of a message that has nothing but one number or tag.
fn put(bytes: &mut [u8; CONTROL], kind: u8, long: u64) {
    bytes[0] = kind;
    bytes[8..].copy_from_slice(&long.to_le_bytes());
}

impl ControlMessage {
    /// The message for `channel`.
    pub(crate) fn to_bytes(self, channel: u8) -> [u8; CONTROL] {
        let mut bytes = [0u8; CONTROL];
        match self {
            Self::Bell => {}
            Self::OverflowBuffer { slot, number } => {
                bytes[0] = 10;
                bytes[2..4].copy_from_slice(&slot.to_le_bytes());
                bytes[6..8].copy_from_slice(&number.to_le_bytes());
            }
            Self::OutOfBand { slot, files, location, length } => {
                bytes[0] = 1;
                let (kind, number) = match location {
                    PayloadLocation::PayloadFile => (0, 0),
                    PayloadLocation::Stack => (1, 0),
                    PayloadLocation::OverflowBuffer => (2, 0),
                    PayloadLocation::NewOverflowBuffer(number) => (3, number),
                };
                bytes[1] = kind;
                bytes[6..8].copy_from_slice(&number.to_le_bytes());
                bytes[2..4].copy_from_slice(&slot.to_le_bytes());
                bytes[4..6].copy_from_slice(&files.to_le_bytes());
                bytes[8..].copy_from_slice(&length.to_le_bytes());
            }
            Self::Unwanted { slots } => put(&mut bytes, 11, slots),
            Self::UnwantedLate { number } => put(&mut bytes, 12, number),
            Self::Closing => bytes[0] = 2,
            Self::Ask => bytes[0] = 3,
            Self::Opened => bytes[0] = 4,
            Self::Refused => bytes[0] = 5,
            Self::RowClosed { tag, revoked } => {
                (bytes[0], bytes[2]) = (6, revoked.into());
                bytes[8..].copy_from_slice(&tag.word().to_le_bytes());
            }
            Self::Share { tag } => put(&mut bytes, 7, tag.word()),
            Self::Release { tag } => put(&mut bytes, 13, tag.word()),
            Self::AskReverse { prefixes } => (bytes[0], bytes[2]) = (14, prefixes.into()),
            Self::ReverseOpened { ahead } => put(&mut bytes, 15, ahead.cast_unsigned()),
            Self::Home { tag } => put(&mut bytes, 16, tag.word()),
            Self::Ticket => bytes[0] = 8,
            Self::NoTicket { may } => (bytes[0], bytes[2]) = (9, may.into()),
        }
        bytes[1] |= if channel == REVERSE { REVERSED } else { channel << 4 };
        bytes
    }

    /// Reads a message, and the number of its channel. `None` if no honest peer writes such a
    /// message.
    pub(crate) fn read(bytes: &[u8]) -> Option<(u8, Self)> {
        let bytes: &[u8; CONTROL] = bytes.try_into().ok()?;
        let number = u16::from_le_bytes([bytes[6], bytes[7]]);
        let slot = u16::from_le_bytes([bytes[2], bytes[3]]);
        let long = u64::from_le_bytes(bytes[8..].try_into().ok()?);
        let control = match bytes[0] {
            0 => Self::Bell,
            1 => Self::OutOfBand {
                slot,
                files: u16::from_le_bytes([bytes[4], bytes[5]]),
                location: match bytes[1] & LOCATION {
                    0 => PayloadLocation::PayloadFile,
                    1 => PayloadLocation::Stack,
                    2 => PayloadLocation::OverflowBuffer,
                    3 if number != 0 => PayloadLocation::NewOverflowBuffer(number),
                    _ => return None,
                },
                length: long,
            },
            2 => Self::Closing,
            3 => Self::Ask,
            4 => Self::Opened,
            5 => Self::Refused,
            6 => Self::RowClosed { tag: Tag::of_word(long), revoked: bytes[2] != 0 },
            7 => Self::Share { tag: Tag::of_word(long) },
            8 => Self::Ticket,
            9 => Self::NoTicket { may: bytes[2] != 0 },
            10 if number != 0 => Self::OverflowBuffer { slot, number },
            11 => Self::Unwanted { slots: long },
            12 => Self::UnwantedLate { number: long },
            13 => Self::Release { tag: Tag::of_word(long) },
            14 => Self::AskReverse { prefixes: bytes[2] != 0 },
            15 => Self::ReverseOpened { ahead: long.cast_signed() },
            16 => Self::Home { tag: Tag::of_word(long) },
            _ => return None,
        };
        let channel = match (bytes[1] & REVERSED != 0, bytes[1] >> 4) {
            (false, channel) => channel,
            (true, 0) => REVERSE,
            (true, _) => return None,
        };
        Some((channel, control))
    }
}
