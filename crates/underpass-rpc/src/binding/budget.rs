//! A budget of bytes that several holders share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A share of a budget, until dropped. Only one thread at a time may change its size.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    of: Arc<AtomicU64>,
    bytes: AtomicU64,
    most: u64,
}

// Relaxed throughout: counts.
impl BudgetShare {
    /// Takes `bytes` of a budget of `most`, if that many are left.
    pub(crate) fn take(of: &Arc<AtomicU64>, bytes: u64, most: u64) -> Option<Self> {
        let room = Self { of: of.clone(), bytes: AtomicU64::new(0), most };
        room.set(bytes).then_some(room)
    }

    /// Takes more, or gives some back. Returns `false`, and changes nothing, if too few are left.
    pub(crate) fn set(&self, bytes: u64) -> bool {
        let before = self.bytes.load(Ordering::Relaxed);
        let more = |taken: u64| taken.checked_add(bytes - before).filter(|&taken| taken <= self.most);
        if bytes <= before {
            self.of.fetch_sub(before - bytes, Ordering::Relaxed);
        } else if self.of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return false;
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        true
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_given_back_are_free_for_others() {
        let budget = Arc::default();
        let take = |bytes| BudgetShare::take(&budget, bytes, 100);
        let (one, other) = (take(60).unwrap(), take(40).unwrap());
        assert!(take(1).is_none() && !one.set(61) && take(u64::MAX).is_none());
        assert!(one.set(10) && other.set(90) && !one.set(11) && one.set(10));
        drop(other);
        assert!(one.set(100) && take(1).is_none());
        drop(one);
        assert_eq!(budget.load(Ordering::Relaxed), 0);
    }
}
