//! The attention word: whether the receiver of a ring polls it, or has to be woken. The protocol
//! and its proof are in `README.md`.

use underpass_seam::atomic::{AtomicU32, Ordering, fence};

/// The receiver sleeps on this word. The poster that clears the bit wakes it.
const PARKED: u32 = 1;
/// The receiver does not poll this ring. The poster that clears the bit sends a byte over the
/// socket.
const UNPOLLED: u32 = 2;
/// A spare processor of the receiver sleeps on this word while another one runs. If that one is
/// slow, the peer wakes the spare.
const SPARE: u32 = 4;
/// The line is dormant. As `UNPOLLED`, but it stays set when processors of the receiver sleep and
/// wake. It goes when a poster rings, or when the receiver makes the line active.
const DORMANT: u32 = 8;
/// Counts wake-ups of spare processors, above the bits, so that a processor that is about to sleep
/// sees the word change.
const WAKE_COUNT: u32 = 16;

/// If any of these bits is set, the poster must wake the receiver.
const AWAY: u32 = PARKED | UNPOLLED | DORMANT;

/// The fence between a post and the read of the peer's attention word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// A fence for the compiler alone: the sleeper's barrier (`membarrier`) reaches this processor.
    Light,
    /// A full fence at each post.
    Full,
}

impl Fence {
    /// Orders the post before the read of the attention word.
    #[inline]
    pub fn pass(self) {
        match self {
            // Pairs with the `membarrier` of the receiver between its steps S1 and S3.
            Self::Light => std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst),
            // SYNC with the receiver's fence between its steps S1 and S3: it sees our cell, or we
            // see its bit.
            Self::Full => fence(Ordering::SeqCst),
        }
    }
}

/// How a poster has to notify the receiver after a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// Not at all: the receiver polls.
    None,
    /// Wake a sleeper of the attention word.
    Wake,
    /// Send a byte over the socket.
    Socket,
}

/// The attention word of one direction, in the region. The receiver sets bits; the poster that acts
/// on them clears them.
///
/// The peer may write anything there. All it gains is a wake-up too many or too few for its own
/// calls.
#[derive(Debug)]
pub struct Attention<'a> {
    word: &'a AtomicU32,
}

impl<'a> Attention<'a> {
    /// The attention word at `word`.
    #[inline]
    pub fn new(word: &'a AtomicU32) -> Self {
        Self { word }
    }

    /// *Post, P2 and P3:* call it after the cell was stored. Returns how the receiver must be
    /// notified, and obliges the caller to do that.
    #[inline]
    pub fn after_post(&self, with: Fence) -> Doorbell {
        with.pass();
        match self.is_set() {
            false => Doorbell::None,
            true => self.claim(),
        }
    }

    /// As [`after_post`](Self::after_post), but only returns whether the receiver must be notified.
    /// The caller does that later.
    #[inline]
    pub fn is_away(&self, with: Fence) -> bool {
        with.pass();
        self.is_set()
    }

    #[inline]
    fn is_set(&self) -> bool {
        // Relaxed: the fences order it.
        self.word.load(Ordering::Relaxed) & AWAY != 0
    }

    /// Obliges the caller to notify the receiver, unless another poster has taken that on.
    #[cold]
    pub fn claim(&self) -> Doorbell {
        // Relaxed: the poster that clears the bit rings, and the doorbell synchronizes by itself.
        self.clear(Ordering::Relaxed)
    }

    fn clear(&self, order: Ordering) -> Doorbell {
        let before = self.word.fetch_and(!AWAY, order);
        match (before & (UNPOLLED | DORMANT) != 0, before & PARKED != 0) {
            (true, _) => Doorbell::Socket,
            (false, true) => Doorbell::Wake,
            (false, false) => Doorbell::None,
        }
    }

    /// *Sleep, S1:* announces that this receiver is about to sleep. Returns the value to sleep on.
    ///
    /// The barrier (the other half of `Fence`) and a last look at the ring must follow. `others`:
    /// further processors of the receiver sleep too, and a client may wake them as spares.
    pub fn park(&self, others: bool) -> u32 {
        let bits = if others { PARKED | SPARE } else { PARKED };
        // Relaxed: the barrier that follows orders it.
        self.word.fetch_or(bits, Ordering::Relaxed) | bits
    }

    /// Announces that this receiver won't poll the ring until it is notified over the socket.
    ///
    /// The barrier and a last look at the ring must follow.
    pub fn set_unpolled(&self) {
        self.word.fetch_or(UNPOLLED, Ordering::Relaxed);
    }

    /// Whether the ring is still [unpolled](Self::set_unpolled): no poster has rung since, and no
    /// processor polls again. If the caller relies on a bit that another thread set, a fence must
    /// come before this call.
    pub fn is_unpolled(&self) -> bool {
        // Relaxed: the fence orders it.
        self.word.load(Ordering::Relaxed) & UNPOLLED != 0
    }

    /// Whether a poster would have to notify the receiver now: a hint.
    pub fn seems_away(&self) -> bool {
        self.is_set()
    }

    /// *Make dormant, A2.* The barrier and a last look at the ring must follow.
    pub fn retire(&self) {
        // Relaxed: the barrier that follows orders it.
        self.word.fetch_or(DORMANT, Ordering::Relaxed);
    }

    /// *Activate, B2:* running processors poll the line again. A poster may have cleared the bit
    /// already; it rings then.
    pub fn revive(&self) {
        // Relaxed: it publishes nothing but itself, and the caller wakes the sleepers afterwards.
        self.word.fetch_and(!DORMANT, Ordering::Relaxed);
    }

    /// Whether the receiver's line is dormant, so that no listener waits for a processor on it.
    /// Call it after the fence of a post.
    #[inline]
    pub fn is_dormant(&self) -> bool {
        // Relaxed: the fence of the post orders it.
        self.word.load(Ordering::Relaxed) & DORMANT != 0
    }

    /// Announces that one processor of several sleeps while another runs. Returns the value to
    /// sleep on.
    pub fn spare(&self) -> u32 {
        self.word.fetch_or(SPARE, Ordering::Relaxed) | SPARE
    }

    /// *Wake:* this receiver polls the ring again.
    pub fn look(&self) {
        // Read first: most of the time the poster's cache holds the line.
        if self.word.load(Ordering::Relaxed) & (PARKED | UNPOLLED) != 0 {
            self.word.fetch_and(!(PARKED | UNPOLLED), Ordering::Relaxed);
        }
    }

    /// Whether a spare processor of the receiver sleeps on the word. If so, the word has changed,
    /// and the caller must wake the spare.
    pub fn wake_spare(&self) -> bool {
        if self.word.load(Ordering::Relaxed) & SPARE == 0 {
            return false;
        }
        self.word.fetch_and(!SPARE, Ordering::Relaxed);
        self.word.fetch_add(WAKE_COUNT, Ordering::Relaxed);
        true
    }

    /// *Return, L6:* how to wake the donor that sleeps on the word. The word changes in any case,
    /// whatever other threads have cleared since.
    pub fn recall(&self) -> Doorbell {
        // SYNC with `word` fetch_or in `park` and the barrier that follows: the replies posted on
        // the loan, if no sleeper is found.
        match self.clear(Ordering::Release) {
            Doorbell::None => {
                // SYNC as above.
                self.word.fetch_add(WAKE_COUNT, Ordering::Release);
                Doorbell::Wake
            }
            doorbell => doorbell,
        }
    }

    /// The word to sleep on.
    #[inline]
    pub fn word(&self) -> &'a AtomicU32 {
        self.word
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_post_rings() {
        let word = AtomicU32::new(0);
        let attention = Attention::new(&word);
        assert_eq!(attention.after_post(Fence::Full), Doorbell::None);
        attention.park(false);
        assert_eq!(attention.after_post(Fence::Light), Doorbell::Wake);
        assert_eq!(attention.after_post(Fence::Full), Doorbell::None);
        attention.set_unpolled();
        assert!(attention.is_unpolled());
        assert_eq!(attention.after_post(Fence::Full), Doorbell::Socket);
        assert!(!attention.is_unpolled());
        assert_eq!(attention.after_post(Fence::Full), Doorbell::None);
    }

    #[test]
    fn a_dormant_line_stays_dormant_when_a_sleeper_wakes() {
        let word = AtomicU32::new(0);
        let attention = Attention::new(&word);
        attention.retire();
        attention.park(false);
        attention.look();
        assert!(attention.is_dormant());
        assert_eq!(attention.after_post(Fence::Full), Doorbell::Socket);
        assert_eq!(attention.after_post(Fence::Full), Doorbell::None);
        attention.retire();
        attention.revive();
        assert_eq!(attention.after_post(Fence::Full), Doorbell::None);
    }

    #[test]
    fn waking_a_spare_changes_the_word_that_it_sleeps_on() {
        let word = AtomicU32::new(0);
        let attention = Attention::new(&word);
        assert!(!attention.wake_spare());
        let expected = attention.spare();
        assert!(attention.wake_spare());
        assert_ne!(word.load(Ordering::Relaxed), expected);
        assert!(!attention.wake_spare());
    }

    #[test]
    fn a_donor_is_recalled_in_any_case() {
        let word = AtomicU32::new(0);
        let attention = Attention::new(&word);
        let expected = attention.park(false);
        assert_eq!(attention.recall(), Doorbell::Wake);
        assert_ne!(word.load(Ordering::Relaxed), expected);
        let expected = attention.spare();
        assert_eq!(attention.recall(), Doorbell::Wake);
        assert_ne!(word.load(Ordering::Relaxed), expected);
        attention.set_unpolled();
        assert_eq!(attention.recall(), Doorbell::Socket);
    }
}
