//! A barrier that one side pays for: the sleeper's, on every running processor of both domains.
//!
//! A post is frequent and a sleep is rare, so the poster's fence is moved to the sleeper
//! (`membarrier`, `GLOBAL_EXPEDITED`). The proof stands in `underpass-channel/src/README.md`.

use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

static READY: OnceLock<bool> = OnceLock::new();
/// As `READY`, in one load, once it is known.
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Registers this domain for barriers from others; `false` if this kernel or sandbox has none, in
/// which case posters must fence for themselves.
pub fn register() -> bool {
    *READY.get_or_init(|| {
        let has = membarrier_query();
        has.contains_command(MembarrierCommand::GlobalExpedited)
            && has.contains_command(MembarrierCommand::RegisterGlobalExpedited)
            && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
            && membarrier(MembarrierCommand::GlobalExpedited).is_ok()
            && {
                ASYMMETRIC.store(true, Ordering::Relaxed);
                true
            }
    })
}

/// The other half of [`heavy`], for what is done often: of two who write, have a barrier and read
/// what the other wrote, one with `light` and one with `heavy`, at least one sees the other's
/// write.
///
/// Nothing but an order to the compiler where this domain is registered, a fence of this processor
/// elsewhere.
#[inline]
pub fn light() {
    // Relaxed: it says what the kernel can do. Until it is known, this fences more than it has to.
    if ASYMMETRIC.load(Ordering::Relaxed) {
        compiler_fence(Ordering::SeqCst);
    } else {
        without_help();
    }
}

#[cold]
fn without_help() {
    register();
    fence(Ordering::SeqCst);
}

/// A full barrier on this processor and on every one that runs a registered domain.
///
/// Where [`register`] was refused this is a fence of this processor alone, and the posters fence
/// too.
pub fn heavy() {
    fence(Ordering::SeqCst);
    if register() {
        // It worked when registering; it has no failure that comes later.
        let _ = membarrier(MembarrierCommand::GlobalExpedited);
    }
}
