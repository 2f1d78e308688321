//! A barrier that one side pays for: the sleeper's, on every running processor of both domains.
//!
//! A post is frequent and a sleep is rare, so the poster's fence is moved to the sleeper (`membarrier`,
//! `GLOBAL_EXPEDITED`). The proof stands in `underpass-channel/src/README.md`.

use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};
use std::sync::OnceLock;

static READY: OnceLock<bool> = OnceLock::new();

/// Registers this domain for barriers from others; `false` if this kernel or sandbox has none, in which case
/// posters must fence for themselves.
pub fn register() -> bool {
    *READY.get_or_init(|| {
        let has = membarrier_query();
        has.contains_command(MembarrierCommand::GlobalExpedited)
            && has.contains_command(MembarrierCommand::RegisterGlobalExpedited)
            && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
            && membarrier(MembarrierCommand::GlobalExpedited).is_ok()
    })
}

/// A full barrier on this processor and on every one that runs a registered domain.
///
/// Where [`register`] was refused this is a fence of this processor alone, and the posters fence too.
pub fn heavy() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    if register() {
        // It worked when registering; it has no failure that comes later.
        let _ = membarrier(MembarrierCommand::GlobalExpedited);
    }
}
