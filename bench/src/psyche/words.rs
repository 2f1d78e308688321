//! The words of data in a region, as atomics.

use std::sync::atomic::AtomicU64;
use underpass::shared::MutexGuard;

/// The data of a lock in a region that stays mapped to the end of the process.
#[allow(unsafe_code)]
pub(super) fn words<const N: usize>(guard: &MutexGuard<'static, [u64; N]>) -> &'static [AtomicU64; N] {
    let at = guard.as_ptr().cast::<[AtomicU64; N]>();
    // SAFETY: an atomic has the size and the alignment of its number, and the region's data begin
    // with a word. The region is mapped as long as its lock is borrowed, to the end of the process.
    // Both processes are this program, and access these words by atomics alone.
    unsafe { &*at }
}
