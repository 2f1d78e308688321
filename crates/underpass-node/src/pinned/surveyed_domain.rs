//! What the main thread and the surveyor know together of one pinned domain.

use crate::pinned::pinned_target::PinnedTarget;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use underpass_os::Fifo;

/// Where the processes of a pinned domain are found.
#[derive(Clone, Debug)]
pub(crate) enum PinnedSource {
    /// Below this process.
    Below(u32),
    /// They are clients of the jobserver whose pipe this is.
    Clients(Arc<Fifo>),
}

/// One pinned domain. The counters are what the last survey has found: any value costs performance
/// alone, so they are relaxed.
#[derive(Debug)]
pub(crate) struct SurveyedDomain {
    pub(crate) source: PinnedSource,
    pub(crate) target: PinnedTarget,
    /// How many processors its threads could use.
    pub(crate) demand: AtomicU32,
    /// How many of its threads are able to run.
    pub(crate) ready: AtomicU32,
    /// How many processes there are.
    pub(crate) processes: AtomicU32,
    /// Tokens in circulation, and those of them that are with clients.
    pub(crate) issued: AtomicU32,
    pub(crate) out: AtomicU32,
    /// Its processes are to get everything back.
    pub(crate) is_over: AtomicBool,
}

impl SurveyedDomain {
    pub(crate) fn new(source: PinnedSource) -> Self {
        Self {
            source,
            target: PinnedTarget::default(),
            demand: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            processes: AtomicU32::new(0),
            issued: AtomicU32::new(0),
            out: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
        }
    }
}
