//! How often the peer was woken in vain for the same calls.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the wake-ups of a peer whose processors may be held up. A sleeper wakes such a peer again
/// for the calls that it waits for, and doubles its patience each time. A call that is posted
/// afterwards starts the count anew.
#[derive(Debug, Default)]
pub(crate) struct NotifyRetries {
    /// High half: the number of the last message that was posted by the last wake-up. Low half: how
    /// many wake-ups there were since that message.
    last: AtomicU64,
}

// Relaxed throughout: it decides how long to wait, and nothing else.
impl NotifyRetries {
    /// How often the peer was woken since the message number `posted`.
    pub(crate) fn times(&self, posted: u32) -> u32 {
        let last = self.last.load(Ordering::Relaxed);
        if (last >> 32) as u32 == posted { last as u32 } else { 0 }
    }

    /// The peer is woken once more.
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
        let notify_retries = NotifyRetries::default();
        assert_eq!(notify_retries.times(1), 0);
        notify_retries.again(1);
        notify_retries.again(1);
        assert_eq!(notify_retries.times(1), 2);
        assert_eq!(notify_retries.times(2), 0);
        notify_retries.again(2);
        assert_eq!(notify_retries.times(2), 1);
    }
}
