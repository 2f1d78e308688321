//! A timestamp with a CPU, in one word, to measure what a wake-up costs.

use crate::{clock, cpu};

/// The bits that hold the CPU. Above them is the time, in steps of 4,096 ns.
const CPU: u64 = (1 << 12) - 1;

/// A moment, and the CPU on which it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeTimestamp(u64);

impl WakeTimestamp {
    /// The current moment and CPU. Its bits are never 0.
    pub fn now() -> Self {
        Self::at(clock::now_ns())
    }

    /// As [`now`](Self::now), but comparable with another domain's: it uses the system's clock,
    /// whatever time namespaces the domains are in. As [`clock::ahead_ns`] it reads `/proc`, once.
    pub fn shared() -> Self {
        Self::at(clock::now_ns().saturating_add_signed(-clock::ahead_ns()))
    }

    fn at(ns: u64) -> Self {
        Self((ns & !CPU) | (cpu::current() as u64 & CPU))
    }

    /// The timestamp as a word.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The timestamp of a word from [`bits`](Self::bits). A word from another process is untrusted.
    pub fn of(bits: u64) -> Self {
        Self(bits)
    }

    /// The ns from `called`, when a thread was woken, to this moment, when it runs. `None` if both
    /// were on one CPU, where a wake-up costs a tenth. `None` also if `called` lies before `since`
    /// or after now.
    ///
    /// # Examples
    /// ```
    /// use underpass_os::WakeTimestamp;
    /// let called = WakeTimestamp::now();
    /// assert_eq!(called.after(called, called), None, "on one CPU");
    /// ```
    pub fn after(self, called: Self, since: Self) -> Option<u64> {
        let times = [since, called, self].map(|stamp| stamp.0 & !CPU);
        ((called.0 ^ self.0) & CPU != 0 && times.is_sorted()).then(|| times[2] - times[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_lies_between_and_crosses_cpus() {
        let at = |us: u64, cpu: u64| WakeTimestamp((us << 12) | cpu);
        assert_eq!(at(9, 1).after(at(5, 0), at(3, 1)), Some(4 << 12));
        assert_eq!(at(9, 1).after(at(9, 0), at(9, 1)), Some(0));
        assert_eq!(at(9, 1).after(at(5, 1), at(3, 1)), None, "on one CPU");
        assert_eq!(at(9, 1).after(at(2, 0), at(3, 1)), None, "for an earlier sleep");
        assert_eq!(at(9, 1).after(at(10, 0), at(3, 1)), None, "a lie");
    }
}
