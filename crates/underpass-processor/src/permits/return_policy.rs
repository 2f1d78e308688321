//! When a listener returns a processor that it was lent (URPC, 3.1.3). The proof is in the
//! `README.md` of the folder `serve` of `underpass-threads`.

use std::cell::Cell;

/// What a listener knows of one processor that a client has lent it. Only the listener's own kernel
/// thread uses it.
#[derive(Debug, Default)]
pub struct ReturnPolicy {
    /// A reply to the client lies in its ring, and the client is woken for it by the return alone.
    replied: Cell<bool>,
}

impl ReturnPolicy {
    /// A processor that has just come.
    pub fn new() -> Self {
        Self::default()
    }

    /// The listener has posted a reply to the client, and leaves the wake-up to the return.
    pub fn has_replied(&self) {
        self.replied.set(true);
    }

    /// Whether the processor goes back now, by either clause of the policy:
    ///
    /// 1. All outstanding messages from the client have generated replies, as `answered` says.
    /// 2. The client has become underpowered: messages back to it are outstanding, and `idle` says
    ///    that one of the server's own processors is idle.
    #[inline]
    pub fn is_due(&self, answered: impl FnOnce() -> bool, idle: impl FnOnce() -> bool) -> bool {
        (self.replied.get() && idle()) || answered()
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn either_clause_is_enough() {
        let policy = ReturnPolicy::new();
        assert!(policy.is_due(|| true, || unreachable!("no reply waits")));
        assert!(!policy.is_due(|| false, || unreachable!("no reply waits")));
        policy.has_replied();
        assert!(policy.is_due(|| false, || true));
        assert!(!policy.is_due(|| false, || false));
        assert!(policy.is_due(|| true, || false));
    }
}
