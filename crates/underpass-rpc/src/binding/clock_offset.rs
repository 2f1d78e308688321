//! The offset between the clocks of two domains.
//!
//! A deadline in a region is a time of the client's monotonic clock. All processes have the same
//! monotonic clock, except those in time namespaces. There the clock differs by a constant. Each
//! client sends its constant in its hello, and the server computes the offset once for each
//! binding. See decision 0038.

use underpass_os::clock;

/// In ns. If two clocks differ by more than this when a hello is read, and the hello does not
/// announce the difference, the two domains are in different time namespaces.
const APART: u64 = 60_000_000_000;

/// A domain's clock, as the domain describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// How far it is ahead of the system's monotonic clock, in ns.
    ahead_ns: i64,
    now_ns: u64,
}

/// A clock in the form in which it is encoded.
pub(crate) type EncodedClock = (i64, u64);

impl Clock {
    /// The clock of this domain.
    pub(crate) fn own() -> Self {
        Self { ahead_ns: clock::ahead_ns(), now_ns: clock::now_ns() }
    }

    pub(crate) fn parts(self) -> EncodedClock {
        (self.ahead_ns, self.now_ns)
    }

    pub(crate) fn of((ahead_ns, now_ns): EncodedClock) -> Self {
        Self { ahead_ns, now_ns }
    }

    /// The offset that turns times of `theirs` into times of this clock. `theirs` must have been
    /// received just now.
    ///
    /// # Errors
    /// A text for the peer, if the two clocks differ by another amount than the two domains
    /// announced.
    pub(crate) fn offset_from(self, theirs: Self) -> Result<ClockOffset, String> {
        let clock_offset = ClockOffset(self.ahead_ns.saturating_sub(theirs.ahead_ns));
        let apart = clock_offset.here(theirs.now_ns).abs_diff(self.now_ns);
        if apart > APART {
            return Err(format!(
                "your clock and the server's are {} s apart: one of the two processes is in a time namespace and can't read its \
                 offset; give it `/proc`",
                apart / 1_000_000_000
            ));
        }
        Ok(clock_offset)
    }
}

/// How far this domain's clock is ahead of a peer's, in ns. The peer's part of it is untrusted: a
/// wrong value moves only the deadlines of the peer's own calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockOffset(i64);

impl ClockOffset {
    /// The offset from a peer whose clock is `ns` ahead of this one.
    pub(crate) fn behind(ns: i64) -> Self {
        Self(ns.saturating_neg())
    }

    /// How far this domain's clock is ahead of the peer's, in ns.
    pub(crate) fn ahead(self) -> i64 {
        self.0
    }

    /// Converts a time of the peer's clock into one of this domain's clock.
    pub(crate) fn here(self, theirs_ns: u64) -> u64 {
        theirs_ns.saturating_add_signed(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    fn clock(ahead_ns: i64) -> Clock {
        Clock { ahead_ns, now_ns: (10 * HOUR + ahead_ns) as u64 }
    }

    #[test]
    fn a_time_converts_to_the_same_moment_of_the_other_clock() {
        for (own, theirs) in [(0, 0), (HOUR, 0), (0, HOUR), (-HOUR, HOUR), (HOUR, HOUR)] {
            let clock_offset = clock(own).offset_from(clock(theirs)).unwrap();
            assert_eq!(clock_offset.here(clock(theirs).now_ns), clock(own).now_ns);
        }
    }

    #[test]
    fn no_offset_goes_beyond_the_clock() {
        assert_eq!(ClockOffset(i64::MIN).here(5), 0);
        assert_eq!(ClockOffset(i64::MAX).here(u64::MAX - 1), u64::MAX);
    }

    #[test]
    fn clocks_that_differ_without_announcing_it_are_refused() {
        let liar = Clock { ahead_ns: 0, ..clock(HOUR) };
        assert!(clock(0).offset_from(liar).unwrap_err().contains("3600 s apart"));
        assert!(liar.offset_from(clock(0)).is_err());
        // A message may arrive late.
        let late = Clock { now_ns: clock(0).now_ns - APART, ..clock(0) };
        assert_eq!(clock(0).offset_from(late), Ok(ClockOffset(0)));
        for ahead_ns in [i64::MIN, i64::MAX] {
            for now_ns in [0, u64::MAX] {
                let _ = clock(0).offset_from(Clock { ahead_ns, now_ns });
                let _ = Clock { ahead_ns, now_ns }.offset_from(clock(HOUR));
            }
        }
    }
}
