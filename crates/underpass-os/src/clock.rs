//! Monotonic time, the same for every process of the machine.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

/// Nanoseconds of `CLOCK_MONOTONIC`: since boot, comparable between processes.
///
/// # Examples
/// ```
/// let before = underpass_os::clock::now_ns();
/// assert!(underpass_os::clock::now_ns() >= before);
/// ```
#[inline]
pub fn now_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// As [`now_ns`], but of the last tick of the kernel's clock, some milliseconds ago at the most: a few ns to read.
///
/// # Examples
/// ```
/// let tick = underpass_os::clock::tick_ns();
/// assert!(tick <= underpass_os::clock::now_ns());
/// ```
#[inline]
pub fn tick_ns() -> u64 {
    let t = clock_gettime(ClockId::MonotonicCoarse);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Nanoseconds of processor time that all threads of this process have used, in and out of the kernel.
///
/// # Examples
/// ```
/// let before = underpass_os::clock::cpu_ns();
/// assert!(underpass_os::clock::cpu_ns() >= before);
/// ```
pub fn cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// A point of [`now_ns`] as the kernel takes it.
pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// The point of [`now_ns`] that lies `after` from now, or `u64::MAX` if that is beyond the clock.
pub fn deadline_ns(after: Duration) -> u64 {
    u64::try_from(after.as_nanos()).ok().and_then(|ns| now_ns().checked_add(ns)).unwrap_or(u64::MAX)
}
