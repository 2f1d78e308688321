//! When and where somebody was called, in one word: for who measures what a wake-up costs.

use crate::{clock, cpu};

/// Where a timestamp has the CPU; above it is the time, to some thousand ns.
const CPU: u64 = (1 << 12) - 1;

/// A moment, and the CPU of who took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeTimestamp(u64);

impl WakeTimestamp {
    /// Here and now. Never 0 in bits.
    pub fn now() -> Self {
        Self::at(clock::now_ns())
    }

    /// The same, to compare with another domain's: by the system's clock, whatever time namespaces
    /// they are in. As [`clock::ahead_ns`] it reads `/proc`, once.
    pub fn shared() -> Self {
        Self::at(clock::now_ns().saturating_add_signed(-clock::ahead_ns()))
    }

    fn at(ns: u64) -> Self {
        Self((ns & !CPU) | (cpu::current() as u64 & CPU))
    }

    /// As a word.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// What [`bits`](Self::bits) gave; or what somebody says they gave.
    pub fn of(bits: u64) -> Self {
        Self(bits)
    }

    /// How long it took, in ns, who was called at `called` to run at this moment: nothing if both
    /// were on one CPU, where that costs a tenth, or if the call came before `since` or after now.
    ///
    /// # Examples
    /// ```
    /// use underpass_os::WakeTimestamp;
    /// let called = WakeTimestamp::now();
    /// assert_eq!(called.after(called, called), None, "on one CPU");
    /// ```
    pub fn after(self, called: Self, since: Self) -> Option<u64> {
        let times = [since, called, self].map(|timestamp| timestamp.0 & !CPU);
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
