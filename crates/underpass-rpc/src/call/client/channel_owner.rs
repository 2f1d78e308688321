//! The activation that alone uses a channel polls it; the others leave its replies to it.

use super::ClientEnd;
use crate::call::thread_index::thread_index;
use underpass_seam::atomic::{AtomicBool, AtomicU32, Ordering};

/// Of so many passes over the lines, one looks at a channel that is left to its owner.
const GLANCE: u32 = 64;

/// The *owner* of a channel: the activation that alone calls over it, among several that use the
/// binding. While the owner runs, the other activations leave the replies to it. So the cache lines
/// of the channel, and the right to enter it plainly, stay with one processor. It is a hint: before
/// a processor sleeps it polls all channels.
///
/// | field | who writes it |
/// |---|---|
/// | `thread` | a thread that divides the channels |
/// | `rests` | the owner |
/// | `passes`, `seen` | the other activations |
#[derive(Debug, Default)]
// On cache lines of its own: the others write it, and the owner need not wait for these lines.
#[repr(align(128))]
pub(super) struct ChannelOwner {
    /// The owner's thread index plus one, or 0.
    thread: AtomicU32,
    /// The owner sleeps, or is about to.
    rests: AtomicBool,
    passes: AtomicU32,
    /// The position at which the others have seen a reply, plus one, or 0.
    seen: AtomicU32,
}

// Relaxed throughout: hints.
impl ChannelOwner {
    /// The activations of these threads use the channel.
    pub(super) fn appoint(&self, mut thread_indexes: impl Iterator<Item = usize>) {
        let owner = match (thread_indexes.next(), thread_indexes.next()) {
            (Some(thread_index), None) => thread_index as u32 + 1,
            _ => 0,
        };
        self.thread.store(owner, Ordering::Relaxed);
        self.rests.store(false, Ordering::Relaxed);
    }

    #[inline]
    fn is_mine(&self) -> bool {
        let owner = self.thread.load(Ordering::Relaxed);
        owner != 0 && owner == thread_index() as u32 + 1
    }

    /// The caller is about to sleep.
    pub(super) fn rest(&self) {
        if self.is_mine() {
            self.rests.store(true, Ordering::Relaxed);
        }
    }

    /// The caller runs again.
    pub(super) fn resume(&self) {
        if self.is_mine() {
            self.rests.store(false, Ordering::Relaxed);
        }
    }

    /// Whether the owner takes a reply that `waits` at some position. If a reply stays at the same
    /// position over two looks, the owner does not.
    fn sees_to(&self, waits: impl FnOnce() -> Option<u32>) -> bool {
        let passes = self.passes.load(Ordering::Relaxed).wrapping_add(1);
        self.passes.store(passes, Ordering::Relaxed);
        if !passes.is_multiple_of(GLANCE) {
            return true;
        }
        let now = waits().map_or(0, |position| (position | 1 << 31).wrapping_add(1));
        self.seen.swap(now, Ordering::Relaxed) != now || now == 0
    }
}

impl ClientEnd {
    /// Whether the replies of this channel are left to its owner.
    #[inline]
    pub(super) fn is_left(&self) -> bool {
        self.channel_owner.thread.load(Ordering::Relaxed) != 0 && self.is_left_to_owner()
    }

    #[inline(never)]
    fn is_left_to_owner(&self) -> bool {
        let owner = &self.channel_owner;
        if owner.is_mine() || owner.rests.load(Ordering::Relaxed) || self.may_be_used_by(thread_index()) {
            return false;
        }
        let receiving = self.channel.receiving();
        owner.sees_to(|| receiving.pending().then(|| receiving.position()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_of_one_thread_has_an_owner() {
        let owner = ChannelOwner::default();
        assert!(!owner.is_mine());
        owner.appoint([thread_index()].into_iter());
        assert!(owner.is_mine());
        owner.rest();
        assert!(owner.rests.load(Ordering::Relaxed));
        owner.resume();
        assert!(!owner.rests.load(Ordering::Relaxed));
        owner.appoint([thread_index(), thread_index() + 1].into_iter());
        assert!(!owner.is_mine());
    }

    #[test]
    fn a_reply_that_stays_is_taken_by_another() {
        let owner = ChannelOwner::default();
        assert!((0..10 * GLANCE).all(|_| owner.sees_to(|| None)));
        assert!((0..10 * GLANCE).all(|n| owner.sees_to(|| Some(n))), "they move on");
        let stays = (0..10 * GLANCE).position(|_| !owner.sees_to(|| Some(7)));
        assert_eq!(stays, Some(2 * GLANCE as usize - 1));
    }
}
