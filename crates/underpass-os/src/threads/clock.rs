//! Monotonic time, the same for every process of the machine.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::sync::OnceLock;
use std::time::Duration;

/// Nanoseconds of `CLOCK_MONOTONIC`, since boot. Processes can compare them, unless they are in
/// different time namespaces: see [`ahead_ns`].
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

/// How far [`now_ns`] is ahead of the system's clock, in ns. It is not 0 in a time namespace that
/// shifts the clock. It is read once, and is 0 where `/proc` does not say.
///
/// # Examples
/// ```
/// let common = underpass_os::clock::now_ns().saturating_add_signed(-underpass_os::clock::ahead_ns());
/// # let _ = common;
/// ```
pub fn ahead_ns() -> i64 {
    static AHEAD: OnceLock<i64> = OnceLock::new();
    *AHEAD.get_or_init(|| {
        // The file describes the namespace of this process's children, which differs from its own
        // after `unshare`.
        let of = |namespace| std::fs::read_link(format!("/proc/self/ns/{namespace}")).ok();
        let told = std::fs::read_to_string("/proc/self/timens_offsets").ok();
        told.filter(|_| of("time") == of("time_for_children")).and_then(|told| parse(&told)).unwrap_or(0)
    })
}

/// Each line holds a clock, seconds and nanoseconds. Only the seconds may be negative.
fn parse(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find_map(|line| line.strip_prefix("monotonic "))?;
    let mut words = line.split_ascii_whitespace();
    let (seconds, ns) = (words.next()?.parse::<i64>().ok()?, words.next()?.parse().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// As [`now_ns`], at the last tick of the kernel's clock, so a few milliseconds old at most.
/// Reading it costs a few ns.
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

/// Nanoseconds of processor time that all threads of this process have used, in user mode and in
/// the kernel.
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

/// A point in time of [`now_ns`], in the form that the kernel takes.
pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// The point of [`now_ns`] that lies `after` from now, or `u64::MAX` if the clock does not reach
/// that far.
pub fn deadline_ns(after: Duration) -> u64 {
    u64::try_from(after.as_nanos()).ok().and_then(|ns| now_ns().checked_add(ns)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_with_their_sign() {
        let told = |monotonic| format!("monotonic {monotonic}\nboottime 7 7\n");
        assert_eq!(parse(&told("          0         0")), Some(0));
        assert_eq!(parse(&told("       3600         5")), Some(3_600_000_000_005));
        assert_eq!(parse(&told("        -60 500000000")), Some(-59_500_000_000));
        for nonsense in ["", "7", "x y", "9223372036854775807 0"] {
            assert_eq!(parse(&told(nonsense)), None);
        }
        assert_eq!(parse("boottime 7 7\n"), None);
    }
}
