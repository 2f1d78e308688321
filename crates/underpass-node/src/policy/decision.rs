//! What the policy decides, and how it names domains.

use super::obedience::Disobedience;

/// Names a domain of a [`NodePolicy`](super::NodePolicy). A place is used again with another
/// generation, so a late name of a domain that has left names nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl DomainId {
    /// The place of the domain: below the largest number of domains that there were at once.
    #[must_use]
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// What is to be done. The counts of the policy show it as done, except for [`Ask`](Self::Ask).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This domain has one processor more.
    Grant {
        /// The domain that gets the processor.
        to: DomainId,
    },
    /// A processor goes from one domain to another for as long as the first one needs none.
    Lend {
        /// The domain that may ask for the processor again.
        from: DomainId,
        /// The domain that has a temporary processor more.
        to: DomainId,
    },
    /// The victim is to give way at its next safe point, and
    /// [`gave_way`](super::NodePolicy::gave_way) is to be called then, or
    /// [`answered`](super::NodePolicy::answered) if it has given the processor to `to` by itself.
    Ask {
        /// The domain that gives a processor up.
        victim: DomainId,
        /// The domain that gets it, unless it becomes free.
        to: Option<DomainId>,
    },
    /// The victim did not give way within [`Rules::grace`](super::Rules::grace). From now on it has
    /// one processor less, and what it goes on running is in excess.
    Seize {
        /// The domain that did not obey.
        victim: DomainId,
    },
    /// The domain has not obeyed several times, and gets the least from now on.
    Demote {
        /// The domain that did not obey.
        domain: DomainId,
        /// What it did last.
        because: Disobedience,
    },
    /// The domain has obeyed for long enough, and has its weight again.
    Restore {
        /// The domain that obeys again.
        domain: DomainId,
    },
}
