//! What an end of a lane does that follows no rule.

use arbitrary::Arbitrary;
use underpass_port::fuzz::FuzzEnd;

/// One step of such an end.
#[derive(Debug, Arbitrary)]
pub enum LaneLie {
    /// Writes a word.
    Word {
        /// Which one.
        which: u8,
        /// The value.
        value: u64,
    },
    /// Adds to a word.
    Advance {
        /// Which one.
        which: u8,
        /// How much, modulo 3.
        by: u8,
    },
    /// Writes an attention word.
    Attention {
        /// Whose.
        of_sender: bool,
        /// The value.
        value: u32,
    },
    /// Writes into the ring.
    Put {
        /// Where.
        at: u16,
        /// The value.
        value: u64,
    },
    /// Writes the head of a record that would be next, with its kind, and posts it.
    Record {
        /// The record's number.
        number: u8,
        /// Its bytes, modulo 12.
        len: u8,
        /// Its kind, modulo 3.
        kind: u8,
    },
    /// Rings over a socket that it was passed.
    Ring {
        /// Which one.
        which: u8,
        /// With a file.
        file: bool,
    },
    /// Takes a ring.
    Hear {
        /// Over which socket.
        which: u8,
    },
    /// Ends a connection.
    HangUp {
        /// Which one.
        which: u8,
    },
}

impl LaneLie {
    /// Has `end` do it.
    pub fn tell(&self, end: &FuzzEnd) {
        match *self {
            Self::Word { which, value } => end.word(which, value),
            Self::Advance { which, by } => end.advance(which, by % 3),
            Self::Attention { of_sender, value } => end.attention(of_sender, value),
            Self::Put { at, value } => end.put(at, value),
            Self::Record { number, len, kind } => {
                let at = u16::from(number % 4) * 4;
                end.put(at, (len % 12).into());
                end.put(at + 1, number.into());
                end.put(at + 2, (kind % 3).into());
                end.word(0, u64::from(number) + 1);
            }
            Self::Ring { which, file } => end.ring(which, file),
            Self::Hear { which } => end.hear(which),
            Self::HangUp { which } => end.hang_up(which),
        }
    }
}
