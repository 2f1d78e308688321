//! What travels over a channel's socket once the channel is made: bells for rings that were put aside, files, and further channels.

use std::io;
use std::os::fd::BorrowedFd;
use underpass_os::Socket;

/// One message, 16 bytes: kind, where the bytes lie, slot, files, the annex's number, length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// There is a message in the ring that the receiver has put aside.
    Bell,
    /// The sender closes the binding; a hang-up follows.
    Closing,
    /// A parcel for `slot`: its arguments or results are the first `length` bytes of what `lies` says. So many other files belong to them.
    Parcel { slot: u16, files: u16, lies: Lies, length: u64 },
    /// Client to server: the file that comes along is an annex of `slot`, for results.
    Annex { slot: u16, number: u16 },
    /// As `Closing`, and the client is to have no more of it: its server has revoked it, or its time is over.
    Revoked,
    /// Client to server: nobody waits any more for the calls of the slots that are bits of `slots`.
    Unwanted { slots: u64 },
    /// Client to server: it wants to pass the binding on.
    Share,
    /// The answer: the file that comes along is a ticket to a binding of whoever uses it.
    Ticket,
    /// The answer if it may not, or there is no room.
    NoTicket { may: bool },
    /// Client to server: it wants another channel for this binding.
    Ask,
    /// The answer: the files that come along are the new channel's region and socket.
    Opened,
    /// The answer if there is no memory, or no file left.
    Refused,
}

/// Where the bytes lie that a parcel belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lies {
    /// In the first of the files.
    Blob,
    /// In the slot's A-stack.
    Stack,
    /// In the slot's annex.
    Annex,
    /// In an annex that the first of the files is, with this number.
    NewAnnex(u16),
}

/// Bytes of a message.
pub(crate) const CONTROL: usize = 16;

impl Control {
    pub(crate) fn send(self, socket: &Socket, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut bytes = [0u8; CONTROL];
        match self {
            Self::Bell => {}
            Self::Annex { slot, number } => {
                bytes[0] = 10;
                bytes[2..4].copy_from_slice(&slot.to_le_bytes());
                bytes[6..8].copy_from_slice(&number.to_le_bytes());
            }
            Self::Parcel { slot, files, lies, length } => {
                bytes[0] = 1;
                let (kind, number) = match lies {
                    Lies::Blob => (0, 0),
                    Lies::Stack => (1, 0),
                    Lies::Annex => (2, 0),
                    Lies::NewAnnex(number) => (3, number),
                };
                bytes[1] = kind;
                bytes[6..8].copy_from_slice(&number.to_le_bytes());
                bytes[2..4].copy_from_slice(&slot.to_le_bytes());
                bytes[4..6].copy_from_slice(&files.to_le_bytes());
                bytes[8..].copy_from_slice(&length.to_le_bytes());
            }
            Self::Unwanted { slots } => {
                bytes[0] = 11;
                bytes[8..].copy_from_slice(&slots.to_le_bytes());
            }
            Self::Closing => bytes[0] = 2,
            Self::Ask => bytes[0] = 3,
            Self::Opened => bytes[0] = 4,
            Self::Refused => bytes[0] = 5,
            Self::Revoked => bytes[0] = 6,
            Self::Share => bytes[0] = 7,
            Self::Ticket => bytes[0] = 8,
            Self::NoTicket { may } => (bytes[0], bytes[2]) = (9, may.into()),
        }
        socket.send(&bytes, files)
    }

    /// Reads a message; nothing if no honest peer writes such.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; CONTROL] = bytes.try_into().ok()?;
        let number = u16::from_le_bytes([bytes[6], bytes[7]]);
        let slot = u16::from_le_bytes([bytes[2], bytes[3]]);
        let long = u64::from_le_bytes(bytes[8..].try_into().ok()?);
        match bytes[0] {
            0 => Some(Self::Bell),
            1 => Some(Self::Parcel {
                slot,
                files: u16::from_le_bytes([bytes[4], bytes[5]]),
                lies: match bytes[1] {
                    0 => Lies::Blob,
                    1 => Lies::Stack,
                    2 => Lies::Annex,
                    3 if number != 0 => Lies::NewAnnex(number),
                    _ => return None,
                },
                length: long,
            }),
            2 => Some(Self::Closing),
            3 => Some(Self::Ask),
            4 => Some(Self::Opened),
            5 => Some(Self::Refused),
            6 => Some(Self::Revoked),
            7 => Some(Self::Share),
            8 => Some(Self::Ticket),
            9 => Some(Self::NoTicket { may: bytes[2] != 0 }),
            10 if number != 0 => Some(Self::Annex { slot, number }),
            11 => Some(Self::Unwanted { slots: long }),
            _ => None,
        }
    }
}
