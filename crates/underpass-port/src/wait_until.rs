//! How long a caller waits.

use std::time::{Duration, Instant};

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitUntil {
    /// Not at all.
    Now,
    /// Until then.
    Until(Instant),
    /// For ever.
    Endless,
}

impl WaitUntil {
    /// For `span` from now.
    pub(crate) fn of(span: Duration) -> Self {
        // A time that the clock does not reach is no limit.
        Instant::now().checked_add(span).map_or(Self::Endless, Self::Until)
    }

    /// Whether that time has come.
    pub(crate) fn is_over(self) -> bool {
        match self {
            Self::Now => true,
            Self::Until(deadline) => Instant::now() >= deadline,
            Self::Endless => false,
        }
    }

    /// Until the sooner of both.
    pub(crate) fn or_sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Now, _) | (_, Self::Now) => Self::Now,
            (Self::Endless, limit) | (limit, Self::Endless) => limit,
            (Self::Until(one), Self::Until(two)) => Self::Until(one.min(two)),
        }
    }
}
