//! Which addresses the device uses for the driver's memory.

use crate::DeviceError;
use std::collections::BTreeMap;

/// Addresses below are left free, so that a device which uses 0 by mistake hits nothing. On x86,
/// 0xfee0_0000 and what follows is for interrupts, so the space begins above.
const FIRST: u64 = 1 << 32;
/// Every IOMMU has at least 39 bits.
const END: u64 = 1 << 39;
/// The granularity of all IOMMUs.
pub(crate) const PAGE: u64 = 4096;

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
    /// Takes `len` bytes, a multiple of [`PAGE`].
    pub(crate) fn take(&mut self, len: u64) -> Result<u64, DeviceError> {
        let (&begin, &room) = self
            .free
            .iter()
            .find(|(_, room)| **room >= len)
            .ok_or(DeviceError::Unsupported("more addresses for DMA memory"))?;
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
    fn a_space_that_is_used_up_is_an_error() {
        let mut space = IovaSpace::default();
        assert_eq!(space.take(END - FIRST).unwrap(), FIRST);
        assert!(matches!(space.take(PAGE), Err(DeviceError::Unsupported(_))));
    }
}
