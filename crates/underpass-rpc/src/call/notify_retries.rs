//! How often a peer was called in vain for the same calls.

use std::sync::atomic::{AtomicU64, Ordering};

/// Who sleeps over calls that a peer's processors may be held up from calls it again, after twice
/// as long each time; a call that is posted since begins anew.
#[derive(Debug, Default)]
pub(crate) struct NotifyRetries {
    /// How many messages were posted by the last time, and how often in a row.
    last: AtomicU64,
}

// Relaxed throughout: how long to wait, and nothing else.
impl NotifyRetries {
    /// How often the peer was called since the message number `posted`.
    pub(crate) fn times(&self, posted: u32) -> u32 {
        let last = self.last.load(Ordering::Relaxed);
        if (last >> 32) as u32 == posted { last as u32 } else { 0 }
    }

    /// It is called once more.
    pub(crate) fn again(&self, posted: u32) {
        let times = self.times(posted).saturating_add(1);
        self.last.store(u64::from(posted) << 32 | u64::from(times), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_message_begins_anew() {
        let retries = NotifyRetries::default();
        assert_eq!(retries.times(1), 0);
        retries.again(1);
        retries.again(1);
        assert_eq!(retries.times(1), 2);
        assert_eq!(retries.times(2), 0);
        retries.again(2);
        assert_eq!(retries.times(2), 1);
    }
}
