//! Deadlines by the monotonic clock.

use std::time::{Duration, Instant};
use underpass_os::clock::deadline_ns;

/// `span` from now.
pub(crate) fn after(span: Duration) -> Option<u64> {
    Some(deadline_ns(span))
}

/// At `deadline`.
pub(crate) fn at(deadline: Instant) -> Option<u64> {
    after(deadline.saturating_duration_since(Instant::now()))
}
