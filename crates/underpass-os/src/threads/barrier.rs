//! An asymmetric barrier: the sleeper pays for it, on every running processor of both domains.
//!
//! A post is frequent and a sleep is rare, so the sleeper issues the fence that the poster would
//! otherwise need (`membarrier`, `GLOBAL_EXPEDITED`). The proof stands in
//! `underpass-channel/src/README.md`.

use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

static READY: OnceLock<bool> = OnceLock::new();
/// The value of `READY` once it is known, so that one load is enough.
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Registers this domain for barriers that other domains issue. Returns `false` if this kernel or
/// sandbox has no such barrier; posters must then fence for themselves.
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

/// The frequent half of the pair with [`heavy`]. Suppose that two threads each write, issue a
/// barrier, and read what the other wrote. If one uses `light` and the other `heavy`, at least one
/// of them sees the other's write.
///
/// Where this domain is registered, this only orders the compiler. Elsewhere it is a fence of this
/// processor.
#[inline]
pub fn light() {
    // Relaxed: the flag says what the kernel can do. Until it is known, this fences more than
    // needed.
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
/// Where [`register`] was refused, this is a fence of this processor alone. The posters fence too.
pub fn heavy() {
    fence(Ordering::SeqCst);
    if register() {
        // The call cannot fail once the registration has succeeded.
        let _ = membarrier(MembarrierCommand::GlobalExpedited);
    }
}
