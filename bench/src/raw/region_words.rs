//! The words of data in shared memory, as atomics.

use std::sync::atomic::AtomicU64;
use underpass::homed::lock::HybridGuard;
use underpass::shared::MutexGuard;

/// The data of a lock in a region that stays mapped to the end of the process.
#[allow(unsafe_code)]
pub(crate) fn words<const N: usize>(guard: &MutexGuard<'static, [u64; N]>) -> &'static [AtomicU64; N] {
    // SAFETY: the region is mapped as long as its lock is borrowed, to the end of the process.
    unsafe { atomics(guard.as_ptr()) }
}

/// The data of an object under a hybrid lock, which stays mapped to the end of the process.
#[allow(unsafe_code)]
pub(crate) fn hybrid_words<const N: usize>(
    guard: &HybridGuard<'static, [u64; N]>,
) -> &'static [AtomicU64; N] {
    // SAFETY: the object is mapped as long as its lock is borrowed, to the end of the process.
    unsafe { atomics(guard.as_ptr()) }
}

/// # Safety
/// The words are mapped to the end of the process.
#[allow(unsafe_code)]
unsafe fn atomics<const N: usize>(at: *mut [u64; N]) -> &'static [AtomicU64; N] {
    // SAFETY: an atomic has the size and the alignment of its number, and the data begin with a
    // word. Both processes are this program, and access these words by atomics alone. They stay
    // mapped, as the caller promises.
    unsafe { &*at.cast::<[AtomicU64; N]>() }
}
