//! How many bytes were copied into regions, annexes and files beside them, and out of them (LRPC,
//! Table III). Counted where debug assertions are on, as in tests; what ships has nothing of it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that this process has copied, over all its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Into cells, A-stacks, annexes and files beside the channel: as a client arguments (A in the
    /// table), as a server results.
    pub into: u64,
    /// Out of them: as a server arguments (E), as a client results (F).
    pub out_of: u64,
}

static INTO: AtomicU64 = AtomicU64::new(0);
static OUT_OF: AtomicU64 = AtomicU64::new(0);

/// What was copied so far; nothing where debug assertions are off, since nobody counts.
///
/// # Examples
/// ```
/// let now = underpass_channel::copied();
/// assert_eq!(now.is_some(), cfg!(debug_assertions));
/// ```
pub fn copied() -> Option<Copied> {
    // Relaxed, here and below: counts.
    let now = Copied { into: INTO.load(Ordering::Relaxed), out_of: OUT_OF.load(Ordering::Relaxed) };
    cfg!(debug_assertions).then_some(now)
}

/// So many bytes were copied into memory that the peer has too.
#[inline(always)]
pub(crate) fn into_region(bytes: usize) {
    if cfg!(debug_assertions) {
        INTO.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// So many bytes were copied out of it.
#[inline(always)]
pub(crate) fn out_of_region(bytes: usize) {
    if cfg!(debug_assertions) {
        OUT_OF.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
