//! A word that one kernel thread changes, and the signal handlers that interrupt it.

use crate::atomic::{AtomicU32, Ordering};
use std::marker::PhantomData;

/// A word that only its own kernel thread changes, in its normal course or in a signal handler.
///
/// Each change is one instruction, so a signal comes before or after it and never within it. It
/// needs no `lock` prefix, which is for other processors. Each change is a barrier to the compiler:
/// a signal that comes after a change finds done all that comes before the change in the program.
///
/// # Examples
/// ```
/// let word = underpass_seam::LocalWord::new(1);
/// assert!(!word.add(1));
/// assert!(word.add(2u32.wrapping_neg()));
/// assert_eq!(word.get(), 0);
/// ```
#[derive(Debug)]
pub struct LocalWord {
    value: AtomicU32,
    /// It belongs to one kernel thread: it is neither sent nor shared.
    stays: PhantomData<*const u32>,
}

impl LocalWord {
    /// Holds `value`.
    #[cfg(not(underpass_loom))]
    pub const fn new(value: u32) -> Self {
        Self { value: AtomicU32::new(value), stays: PhantomData }
    }

    /// Holds `value`.
    #[cfg(underpass_loom)]
    pub fn new(value: u32) -> Self {
        Self { value: AtomicU32::new(value), stays: PhantomData }
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> u32 {
        // Relaxed, here and below: no other kernel thread has the word.
        self.value.load(Ordering::Relaxed)
    }
}

#[cfg(all(target_arch = "x86_64", not(underpass_loom), not(miri)))]
impl LocalWord {
    /// Adds one, wrapping around.
    #[inline]
    pub fn increment(&self) {
        // SAFETY: as in `add`.
        unsafe {
            core::arch::asm!("add dword ptr [{word}], 1", word = in(reg) self.value.as_ptr(), options(nostack));
        }
    }

    /// Adds `n`, wrapping around. Returns whether the result is zero.
    #[inline]
    #[must_use = "zero may mean that there is something to do"]
    pub fn add(&self, n: u32) -> bool {
        // SAFETY: the pointer is to our own aligned word, which is alive. No other kernel thread
        // accesses it.
        unsafe {
            core::arch::asm!(
                "add dword ptr [{word}], {n:e}",
                "jz {zero}",
                word = in(reg) self.value.as_ptr(),
                n = in(reg) n,
                zero = label { return true },
                options(nostack),
            );
        }
        false
    }

    /// Keeps only the bits of `mask`.
    #[inline]
    pub fn keep(&self, mask: u32) {
        // SAFETY: as in `add`.
        unsafe {
            core::arch::asm!(
                "and dword ptr [{word}], {mask:e}",
                word = in(reg) self.value.as_ptr(),
                mask = in(reg) mask,
                options(nostack),
            );
        }
    }

    /// Sets the bits of `mask`.
    #[inline]
    pub fn set(&self, mask: u32) {
        // SAFETY: as in `add`.
        unsafe {
            core::arch::asm!(
                "or dword ptr [{word}], {mask:e}",
                word = in(reg) self.value.as_ptr(),
                mask = in(reg) mask,
                options(nostack),
            );
        }
    }
}

/// Without assembly, atomic operations do the same: to a signal each is one step.
#[cfg(not(all(target_arch = "x86_64", not(underpass_loom), not(miri))))]
impl LocalWord {
    /// Adds one, wrapping around.
    #[inline]
    pub fn increment(&self) {
        change(|| self.value.fetch_add(1, Ordering::Relaxed));
    }

    /// Adds `n`, wrapping around. Returns whether the result is zero.
    #[inline]
    #[must_use = "zero may mean that there is something to do"]
    pub fn add(&self, n: u32) -> bool {
        change(|| self.value.fetch_add(n, Ordering::Relaxed).wrapping_add(n) == 0)
    }

    /// Keeps only the bits of `mask`.
    #[inline]
    pub fn keep(&self, mask: u32) {
        change(|| self.value.fetch_and(mask, Ordering::Relaxed));
    }

    /// Sets the bits of `mask`.
    #[inline]
    pub fn set(&self, mask: u32) {
        change(|| self.value.fetch_or(mask, Ordering::Relaxed));
    }
}

/// Keeps the compiler from moving anything across the change.
#[cfg(not(all(target_arch = "x86_64", not(underpass_loom), not(miri))))]
#[inline]
fn change<R>(how: impl FnOnce() -> R) -> R {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    let result = how();
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    result
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_adds_and_says_when_it_is_zero() {
        let word = LocalWord::new(0x8000_0000);
        assert!(!word.add(1));
        assert_eq!(word.get(), 0x8000_0001);
        word.keep(0x7fff_ffff);
        assert_eq!(word.get(), 1);
        assert!(word.add(u32::MAX));
        assert_eq!(word.get(), 0);
        word.set(0x8000_0000);
        assert_eq!(word.get(), 0x8000_0000);
        assert!(!word.add(u32::MAX));
    }

    #[test]
    fn a_sum_of_many_changes_is_exact() {
        let word = LocalWord::new(7);
        for _ in 0..1000 {
            word.increment();
            assert!(!word.add(2));
            word.set(0x8000_0000);
            assert!(!word.add(3u32.wrapping_neg()));
            word.keep(0x7fff_ffff);
        }
        assert_eq!(word.get(), 7);
    }
}
