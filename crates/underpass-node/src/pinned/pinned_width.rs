//! To how many CPUs the processes of a domain are pinned.

/// The processes stay on a CPU for so long after their domain has given it back, in ns. A domain
/// that computes for a moment has come and gone by then.
const LINGERS: u64 = 4_000_000;

/// The width, which follows what the domain is to have.
#[derive(Debug, Default)]
pub(crate) struct PinnedWidth {
    width: u32,
    /// Since when the domain is to have less.
    less_since: Option<u64>,
}

impl PinnedWidth {
    pub(crate) fn get(&self) -> u32 {
        self.width
    }

    /// The domain is to have `target`. Returns the new width, if that changes.
    pub(crate) fn follow(&mut self, target: u32, now: u64) -> Option<u32> {
        if target < self.width {
            let since = *self.less_since.get_or_insert(now);
            if now.saturating_sub(since) < LINGERS {
                return None;
            }
        }
        self.less_since = None;
        let before = std::mem::replace(&mut self.width, target);
        (before != target).then_some(target)
    }

    /// When [`follow`](Self::follow) is to be called again.
    pub(crate) fn due(&self) -> Option<u64> {
        self.less_since.map(|since| since + LINGERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_comes_back_soon_changes_nothing() {
        let mut width = PinnedWidth::default();
        assert_eq!(width.follow(2, 0), Some(2), "more is used at once");
        assert_eq!((width.follow(1, 10), width.due()), (None, Some(10 + LINGERS)));
        assert_eq!((width.follow(2, 20), width.due(), width.get()), (None, None, 2));
        assert_eq!(width.follow(1, 30), None);
        assert_eq!(width.follow(0, 29 + LINGERS), None);
        assert_eq!((width.follow(0, 30 + LINGERS), width.due(), width.get()), (Some(0), None, 0));
    }
}
