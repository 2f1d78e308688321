//! A count for each member, in shared memory. A member changes its own count alone. When it dies,
//! its count is void, since the count names its generation: nobody has to repair anything.

use crate::domain::LocalDomain;
use crate::layout::MEMBERS;
use crate::member::MemberId;
use underpass_seam::atomic::Ordering;

/// How often an exchange is tried that other threads of this domain make fail. Only a hostile
/// member makes it fail that often.
const TRIES: usize = 1 << 16;

/// The counts at word `at`.
#[derive(Clone, Copy)]
pub(crate) struct MemberCounts<'a> {
    domain: &'a LocalDomain,
    at: usize,
}

impl<'a> MemberCounts<'a> {
    pub(crate) fn at(domain: &'a LocalDomain, at: usize) -> Self {
        Self { domain, at }
    }

    /// Changes this domain's count. SeqCst: before whatever the caller reads next, and after what
    /// it wrote. Returns whether it was changed.
    pub(crate) fn change(self, change: impl Fn(u32) -> Option<u32>) -> bool {
        let me = self.domain.me;
        let word = self.domain.words.word(self.at + me.index);
        let mut now = word.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            // What a former member of this index left is void.
            let count = if (now >> 32) as u32 == me.generation { now as u32 } else { 0 };
            let Some(count) = change(count) else { return false };
            let new = u64::from(me.generation) << 32 | u64::from(count);
            match word.compare_exchange(now, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(found) => now = found,
            }
        }
        false
    }

    /// One more. `false`: there can be no more.
    pub(crate) fn add(self) -> bool {
        self.change(|count| count.checked_add(1))
    }

    /// One less.
    pub(crate) fn subtract(self) {
        self.change(|count| count.checked_sub(1));
    }

    /// The sum of `of` over the counts of the live members.
    pub(crate) fn sum(self, of: impl Fn(u32) -> u32) -> u64 {
        let live = (0..MEMBERS).filter_map(|index| {
            // SeqCst: after what the caller wrote. SYNC with the exchange in `change`.
            let word = self.domain.words.word(self.at + index).load(Ordering::SeqCst);
            let member = MemberId { index, generation: (word >> 32) as u32 };
            (!self.domain.deaths.has(member)).then_some(word as u32)
        });
        live.map(|count| u64::from(of(count))).sum()
    }
}
