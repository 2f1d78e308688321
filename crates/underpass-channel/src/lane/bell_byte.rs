//! The bell byte: how a receiver hears of posts over sockets that the sender has made. It leaves a
//! byte there, and the sender rings by taking the byte. The steps T1 to T3 are those of the proof
//! in `underpass-port`, *Streams*.

/// Reports in a row without a bell byte after which the sender is no honest one.
const MOST_SPURIOUS: u32 = 64;

/// What the receiver knows of its bell byte. It is passive: its owner has a lock around it, and the
/// socket.
///
/// # Examples
/// ```
/// use underpass_channel::{BellByte, BellByteNews};
///
/// let mut byte = BellByte::default();
/// // Listen, T1: send the byte, unless it is there.
/// assert!(!byte.is_left());
/// byte.was_left();
/// // Hear, T3: the sender has taken it.
/// assert_eq!(byte.hear(), BellByteNews::Rang);
/// assert_eq!(byte.hear(), BellByteNews::Nothing);
/// ```
#[derive(Debug, Default)]
pub struct BellByte {
    /// It was sent, and no report was heard since.
    left: bool,
    spurious: u32,
}

/// What a report about the receiver's end of the socket means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BellByteNews {
    /// Nothing.
    Nothing,
    /// The sender has taken the byte.
    Rang,
    /// The sender causes more reports than an honest one can.
    Flood,
}

impl BellByte {
    /// *Listen, T1.* Whether the byte is there, or its report has not been heard yet.
    pub fn is_left(&self) -> bool {
        self.left
    }

    /// *Listen, T1.* The byte was sent.
    pub fn was_left(&mut self) {
        *self = Self { left: true, spurious: 0 };
    }

    /// *Hear, T3.* Something was reported about the receiver's end, which has not hung up.
    pub fn hear(&mut self) -> BellByteNews {
        if std::mem::take(&mut self.left) {
            return BellByteNews::Rang;
        }
        self.spurious = self.spurious.saturating_add(1);
        if self.spurious < MOST_SPURIOUS { BellByteNews::Nothing } else { BellByteNews::Flood }
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_many_reports_without_a_byte() {
        let mut byte = BellByte::default();
        for _ in 0..3 {
            byte.was_left();
            assert!(byte.is_left());
            assert_eq!(byte.hear(), BellByteNews::Rang);
            for _ in 1..MOST_SPURIOUS {
                assert_eq!(byte.hear(), BellByteNews::Nothing);
            }
        }
        assert_eq!((byte.hear(), byte.is_left()), (BellByteNews::Flood, false));
    }
}
