//! Counters of the bytes copied into and out of regions, overflow buffers and payload files (LRPC,
//! Table III). They count where debug assertions are on, as in tests. Other builds have no code for
//! them.

use crate::tag::Tag;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that this process has copied, over all its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Into cells, A-stacks, overflow buffers and payload files: arguments as a client (A in the
    /// table), results as a server.
    pub into: u64,
    /// Out of them: arguments as a server (E), results as a client (F).
    pub out_of: u64,
}

static INTO: AtomicU64 = AtomicU64::new(0);
static OUT_OF: AtomicU64 = AtomicU64::new(0);

/// What was copied so far. `None` where debug assertions are off, since nothing is counted there.
///
/// # Examples
/// ```
/// let now = underpass::copied();
/// assert_eq!(now.is_some(), cfg!(debug_assertions));
/// ```
pub fn copied() -> Option<Copied> {
    // Relaxed, here and below: they are only counters.
    let now = Copied { into: INTO.load(Ordering::Relaxed), out_of: OUT_OF.load(Ordering::Relaxed) };
    cfg!(debug_assertions).then_some(now)
}

/// Counts bytes that were copied into memory shared with the peer.
#[inline(always)]
pub(crate) fn into_region(bytes: usize) {
    if cfg!(debug_assertions) {
        INTO.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A request was copied whose tag counts as bytes, if it is `inline`: a tag is no argument.
#[inline(always)]
pub(crate) fn tag_into_region(inline: bool) {
    if cfg!(debug_assertions) && inline {
        INTO.fetch_sub(Tag::BYTES as u64, Ordering::Relaxed);
    }
}

/// The same as [`tag_into_region`], at the server.
#[inline(always)]
pub(crate) fn tag_out_of_region(inline: bool) {
    if cfg!(debug_assertions) && inline {
        OUT_OF.fetch_sub(Tag::BYTES as u64, Ordering::Relaxed);
    }
}

/// Counts bytes that were copied out of memory shared with the peer.
#[inline(always)]
pub(crate) fn out_of_region(bytes: usize) {
    if cfg!(debug_assertions) {
        OUT_OF.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
