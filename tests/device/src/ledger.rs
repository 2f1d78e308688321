//! What a disk has written, in order.

use std::sync::{Arc, Mutex, PoisonError};

/// One command of a disk's ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskWrite {
    /// The first block.
    pub block: u64,
    /// The number of blocks.
    pub blocks: u64,
    /// The first eight bytes that were written.
    pub head: u64,
}

/// The writes that a disk has done, and how often it was started. Clones are the same ledger.
#[derive(Clone, Debug, Default)]
pub struct DiskLedger(Arc<Mutex<DiskHistory>>);

/// What a [`DiskLedger`] says.
#[derive(Clone, Debug, Default)]
pub struct DiskHistory {
    /// In the order in which the disk has done them.
    pub writes: Vec<DiskWrite>,
    /// Writes that a reset has cut: of each, the first half of the blocks was written.
    pub cut: Vec<DiskWrite>,
    /// How often its controller was started.
    pub starts: u64,
}

impl DiskLedger {
    /// What has happened so far.
    pub fn history(&self) -> DiskHistory {
        self.with(|history| history.clone())
    }

    pub(crate) fn with<R>(&self, what: impl FnOnce(&mut DiskHistory) -> R) -> R {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
