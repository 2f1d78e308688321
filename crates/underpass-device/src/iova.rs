//! Which addresses the device uses for the driver's memory.

use crate::DeviceError;
use std::collections::BTreeMap;

/// Addresses below are left free, so that a device which uses 0 by mistake hits nothing. On x86,
/// 0xfee0_0000 and what follows is for interrupts, so the space begins above.
pub(crate) const FIRST: u64 = 1 << 32;
/// Every IOMMU has at least 39 bits.
const END: u64 = 1 << 39;
/// The granularity of all IOMMUs.
pub(crate) const PAGE: u64 = 4096;

const TOO_FEW: &str = "more addresses for DMA memory";

/// The free addresses: begin and length.
#[derive(Debug)]
pub(crate) struct IovaSpace {
    free: BTreeMap<u64, u64>,
}

impl Default for IovaSpace {
    fn default() -> Self {
        Self { free: BTreeMap::from([(FIRST, END - FIRST)]) }
    }
}

impl IovaSpace {
    /// The space of `len` bytes from `begin` on.
    pub(crate) fn of(begin: u64, len: u64) -> Self {
        Self { free: BTreeMap::from([(begin, len)]) }
    }

    /// Takes the last `len` bytes that are free in one piece.
    pub(crate) fn take_last(&mut self, len: u64) -> Result<u64, DeviceError> {
        let found = self.free.iter().rev().find(|(_, room)| **room >= len);
        let (&begin, &room) = found.ok_or(DeviceError::Unsupported(TOO_FEW))?;
        let at = begin + room - len;
        self.cut(begin, room, at, len);
        Ok(at)
    }

    /// Takes these `len` bytes.
    pub(crate) fn take_at(&mut self, at: u64, len: u64) -> Result<(), DeviceError> {
        let found = self.free.range(..=at).next_back();
        let end = at.checked_add(len);
        let found = found.filter(|(begin, room)| end.is_some_and(|end| end <= *begin + *room));
        let (&begin, &room) = found.ok_or(DeviceError::Unsupported(TOO_FEW))?;
        self.cut(begin, room, at, len);
        Ok(())
    }

    /// Cuts `len` bytes at `at` out of a free piece.
    fn cut(&mut self, begin: u64, room: u64, at: u64, len: u64) {
        self.free.remove(&begin);
        let (before, behind) = (at - begin, begin + room - (at + len));
        if before > 0 {
            self.free.insert(begin, before);
        }
        if behind > 0 {
            self.free.insert(at + len, behind);
        }
    }

    /// Takes `len` bytes, a multiple of [`PAGE`].
    pub(crate) fn take(&mut self, len: u64) -> Result<u64, DeviceError> {
        let (&begin, &room) =
            self.free.iter().find(|(_, room)| **room >= len).ok_or(DeviceError::Unsupported(TOO_FEW))?;
        self.free.remove(&begin);
        if room > len {
            self.free.insert(begin + len, room - len);
        }
        Ok(begin)
    }

    /// Gives back what was taken.
    pub(crate) fn give_back(&mut self, begin: u64, len: u64) {
        let (mut begin, mut len) = (begin, len);
        if let Some((&before, &room)) = self.free.range(..begin).next_back()
            && before + room == begin
        {
            self.free.remove(&before);
            (begin, len) = (before, room + len);
        }
        if let Some(room) = self.free.remove(&(begin + len)) {
            len += room;
        }
        self.free.insert(begin, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_joins_what_is_free() {
        let mut space = IovaSpace::default();
        let taken: Vec<_> = (1..=4).map(|n| (space.take(n * PAGE).unwrap(), n * PAGE)).collect();
        for (one, other) in taken.iter().zip(&taken[1..]) {
            assert!(one.0 + one.1 <= other.0, "they don't overlap");
        }
        for at in [1, 3, 0, 2] {
            space.give_back(taken[at].0, taken[at].1);
        }
        assert_eq!(space.free, IovaSpace::default().free);
    }

    #[test]
    fn pieces_of_a_small_space_don_t_overlap() {
        let mut space = IovaSpace::of(8 * PAGE, 8 * PAGE);
        assert_eq!(space.take_last(PAGE).unwrap(), 15 * PAGE);
        space.take_at(8 * PAGE, 2 * PAGE).unwrap();
        space.take_at(12 * PAGE, PAGE).unwrap();
        for (at, len) in [(7, 1), (9, 1), (10, 3), (12, 1), (14, 2), (15, 1), (u64::MAX / PAGE, 1)] {
            assert!(space.take_at(at * PAGE, len * PAGE).is_err(), "{at} {len}");
        }
        assert!(space.take_at(13 * PAGE, u64::MAX).is_err());
        assert_eq!(space.take_last(2 * PAGE).unwrap(), 13 * PAGE);
        for (at, len) in [(12, 1), (8, 2), (15, 1), (13, 2)] {
            space.give_back(at * PAGE, len * PAGE);
        }
        assert_eq!(space.free, IovaSpace::of(8 * PAGE, 8 * PAGE).free);
    }

    #[test]
    fn a_space_that_is_used_up_is_an_error() {
        let mut space = IovaSpace::default();
        assert_eq!(space.take(END - FIRST).unwrap(), FIRST);
        assert!(matches!(space.take(PAGE), Err(DeviceError::Unsupported(_))));
    }
}
