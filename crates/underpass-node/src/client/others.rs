//! The page of another domain, as this one reads it.

use crate::page::PageView;
use underpass_os::MemoryWindows;

/// The page at one place. If no domain is there, it reads zeros.
#[derive(Clone, Copy, Debug)]
pub(super) struct Others<'a> {
    pub(super) windows: &'a MemoryWindows,
    pub(super) place: usize,
}

impl PageView for Others<'_> {
    #[inline]
    fn read(&self, number: usize) -> u64 {
        self.windows.load(self.place, number)
    }
}
