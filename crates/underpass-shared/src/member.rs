//! Which domain of a region, in which incarnation.

use crate::layout::MEMBERS;
use underpass_seam::atomic::{AtomicBool, AtomicU32, Ordering};

/// A domain as a member of a region. The exporter gives each joining domain a generation that no
/// other member of the region has or had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberId {
    pub(crate) index: usize,
    pub(crate) generation: u32,
}

/// What this domain has been told of the region's end and its members' deaths. Only the exporter
/// is believed, so it is kept in private memory.
///
/// | field | written by |
/// |---|---|
/// | `newest` | the thread that hears the exporter; it only grows |
/// | `ended` | the same thread, once |
#[derive(Debug)]
pub(crate) struct Deaths {
    /// The newest generation with each index that is dead.
    newest: [AtomicU32; MEMBERS],
    ended: AtomicBool,
}

impl Deaths {
    pub(crate) fn none() -> Self {
        Self { newest: [(); MEMBERS].map(|()| AtomicU32::new(0)), ended: AtomicBool::new(false) }
    }

    /// Whether `member` is dead, as far as this domain knows. A generation above those that died
    /// lives; no index beyond the last one does.
    #[inline]
    pub(crate) fn has(&self, member: MemberId) -> bool {
        // SYNC with the fetch_max in `add`: the exporter's news.
        self.newest.get(member.index).is_none_or(|newest| member.generation <= newest.load(Ordering::Acquire))
    }

    /// Notes a death. Returns whether it was news.
    pub(crate) fn add(&self, member: MemberId) -> bool {
        let Some(newest) = self.newest.get(member.index) else { return false };
        // SYNC with the load in `has`.
        newest.fetch_max(member.generation, Ordering::AcqRel) < member.generation
    }

    /// The exporter is gone, and with it the region.
    pub(crate) fn end(&self) {
        // SYNC with the load in `are_over`.
        self.ended.store(true, Ordering::Release);
    }

    /// Whether the region has ended.
    #[inline]
    pub(crate) fn are_over(&self) -> bool {
        // SYNC with the store in `end`. A thread that passes a gate which was opened afterwards
        // sees it too.
        self.ended.load(Ordering::Acquire) || underpass_os::fork::is_forked()
    }
}
