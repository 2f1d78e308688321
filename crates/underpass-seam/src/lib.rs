//! The atomics in which protocols are written: `core`'s in production, loom's under the private
//! `cfg(underpass_loom)`. Also the few cells that protocols share.
//!
//! *Decides:* which atomics every protocol of Underpass uses, so that a model checker can run the
//! very code that ships. It has the cells that protocols share: a lock that never spins, a gate, an
//! atomic slot for a reference, counters with one writer, and words that signal handlers change.
//!
//! *Must not know:* anything else of Underpass.
//!
//! *Read first:* `try_lock.rs`.

mod gate;
mod local_word;
pub mod preempt_flag;
mod single_writer;
mod static_slot;
mod try_lock;

pub use gate::Gate;
pub use local_word::LocalWord;
pub use single_writer::{WriterCounter, WriterPlaces};
pub use static_slot::StaticSlot;
pub use try_lock::{TryLock, TryLockGuard};

/// The atomics for protocols.
pub mod atomic {
    #[cfg(not(underpass_loom))]
    pub use core::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    #[cfg(underpass_loom)]
    pub use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

/// The cell for values that protocols guard.
pub mod cell {
    #[cfg(not(underpass_loom))]
    pub use core::cell::UnsafeCell;
    #[cfg(underpass_loom)]
    pub use loom::cell::UnsafeCell;
}

/// Tells the processor that this thread spins. Under loom it lets another thread run.
#[inline]
pub fn spin_hint() {
    #[cfg(not(underpass_loom))]
    core::hint::spin_loop();
    #[cfg(underpass_loom)]
    loom::thread::yield_now();
}
