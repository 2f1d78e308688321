//! Whether the receiver of a ring looks at it, or must be called. The protocol and its proof are in
//! `README.md`.

use underpass_seam::atomic::{AtomicU32, Ordering, fence};

/// The receiver sleeps on this word: clear the bit and wake it.
const PARKED: u32 = 1;
/// The receiver does not look at this ring: clear the bit and send it a byte over the socket.
const ASIDE: u32 = 2;
/// Another processor of the receiver's sleeps on this word while one runs: knock if that one is
/// slow.
const SPARE: u32 = 4;
/// The line is dormant: as `ASIDE`, until the receiver is told or makes the line active by itself,
/// however often it sleeps meanwhile.
const DORMANT: u32 = 8;
/// Knocks are counted above the bits, so that a sleeper that is about to sleep sees the word
/// change.
const KNOCK: u32 = 16;

/// Any of them has a post call the receiver.
const AWAY: u32 = PARKED | ASIDE | DORMANT;

/// The fence between a post and the look at the peer's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// None: the sleeper's barrier reaches this processor (`membarrier`).
    Light,
    /// A fence of our own at each post.
    Full,
}

impl Fence {
    /// Between what is posted and the look whether anybody must be told.
    #[inline]
    pub fn pass(self) {
        match self {
            // Pairs with the `membarrier` of the receiver between its step 1 and step 2.
            Self::Light => std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst),
            // SYNC with the fence of the receiver between its step 1 and step 2: our cell, or its
            // bit, is seen.
            Self::Full => fence(Ordering::SeqCst),
        }
    }
}

/// What a poster has to do after a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bell {
    /// Nothing: the receiver looks by itself.
    Silent,
    /// Wake a sleeper of the word.
    Wake,
    /// Send a byte over the socket.
    Socket,
}

/// One direction's attention word, in the region. The receiver sets bits; the poster that acts on
/// them clears them.
///
/// The peer may write anything there: a bell too many or too few for its own calls is all that it
/// gains.
#[derive(Debug)]
pub struct Attention<'a> {
    word: &'a AtomicU32,
}

impl<'a> Attention<'a> {
    /// The attention at `word`.
    #[inline]
    pub fn new(word: &'a AtomicU32) -> Self {
        Self { word }
    }

    /// *Post, step 2:* after the cell is stored, finds out whether the receiver must be called, and
    /// takes that upon the caller.
    #[inline]
    pub fn after_post(&self, with: Fence) -> Bell {
        with.pass();
        match self.is_set() {
            false => Bell::Silent,
            true => self.claim(),
        }
    }

    /// As [`after_post`](Self::after_post), but only says whether the receiver must be called: the
    /// caller sees to it later.
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

    /// Takes upon the caller to call the receiver, if nobody else has.
    #[cold]
    pub fn claim(&self) -> Bell {
        // Relaxed: whoever clears the bit rings, and the bell itself synchronizes.
        self.clear(Ordering::Relaxed)
    }

    fn clear(&self, order: Ordering) -> Bell {
        let before = self.word.fetch_and(!AWAY, order);
        match (before & (ASIDE | DORMANT) != 0, before & PARKED != 0) {
            (true, _) => Bell::Socket,
            (false, true) => Bell::Wake,
            (false, false) => Bell::Silent,
        }
    }

    /// *Sleep, step 1:* announces that this receiver is about to sleep; gives the value to sleep
    /// on.
    ///
    /// The barrier (`Fence`'s other half) and a last look at the ring must follow.
    /// With `others` of the receiver's processors asleep too, a knock will find them.
    pub fn park(&self, others: bool) -> u32 {
        let bits = if others { PARKED | SPARE } else { PARKED };
        // Relaxed: the barrier that follows orders it.
        self.word.fetch_or(bits, Ordering::Relaxed) | bits
    }

    /// Says that this receiver will not look at the ring until it is told over the socket.
    ///
    /// The barrier and a last look at the ring must follow.
    pub fn set_aside(&self) {
        self.word.fetch_or(ASIDE, Ordering::Relaxed);
    }

    /// Whether [`set_aside`](Self::set_aside) holds still: nobody has rung since, nor looked again.
    /// After a fence, for who relies on another's.
    pub fn is_aside(&self) -> bool {
        // Relaxed: the fence orders it.
        self.word.load(Ordering::Relaxed) & ASIDE != 0
    }

    /// *Put away, step A2:* the line becomes dormant. The barrier and a last look at the ring must
    /// follow.
    pub fn retire(&self) {
        // Relaxed: the barrier that follows orders it.
        self.word.fetch_or(DORMANT, Ordering::Relaxed);
    }

    /// The line is active: whoever runs looks at it. A poster may have cleared the bit, and then
    /// rings.
    pub fn revive(&self) {
        // Relaxed: it tells of nothing but itself; those who sleep are called afterwards.
        self.word.fetch_and(!DORMANT, Ordering::Relaxed);
    }

    /// Whether the receiver's line is dormant: no listener of it waits for a processor. After the
    /// fence of a post.
    #[inline]
    pub fn is_dormant(&self) -> bool {
        // Relaxed: the fence of the post orders it.
        self.word.load(Ordering::Relaxed) & DORMANT != 0
    }

    /// Says that one processor of several goes to sleep while another runs; gives the value to
    /// sleep on.
    pub fn spare(&self) -> u32 {
        self.word.fetch_or(SPARE, Ordering::Relaxed) | SPARE
    }

    /// *Wake:* this receiver looks again by itself.
    pub fn look(&self) {
        // A look first: the line belongs to the poster's cache most of the time.
        if self.word.load(Ordering::Relaxed) & (PARKED | ASIDE) != 0 {
            self.word.fetch_and(!(PARKED | ASIDE), Ordering::Relaxed);
        }
    }

    /// *Knock:* whether a spare processor of the receiver sleeps there; if so, the word has changed
    /// for it.
    pub fn wake_spare(&self) -> bool {
        if self.word.load(Ordering::Relaxed) & SPARE == 0 {
            return false;
        }
        self.word.fetch_and(!SPARE, Ordering::Relaxed);
        self.word.fetch_add(KNOCK, Ordering::Relaxed);
        true
    }

    /// *Return:* how to call who sleeps on the word after it has donated its processor, whatever
    /// others have cleared since: the word has changed for it.
    pub fn recall(&self) -> Bell {
        // SYNC with `word` fetch_or in `park` and the barrier that follows: what was posted on the
        // loan, if the bell finds nobody asleep.
        match self.clear(Ordering::Release) {
            Bell::Silent => {
                // SYNC as above.
                self.word.fetch_add(KNOCK, Ordering::Release);
                Bell::Wake
            }
            bell => bell,
        }
    }

    /// The word, to sleep on.
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
        assert_eq!(attention.after_post(Fence::Full), Bell::Silent);
        attention.park(false);
        assert_eq!(attention.after_post(Fence::Light), Bell::Wake);
        assert_eq!(attention.after_post(Fence::Full), Bell::Silent);
        attention.set_aside();
        assert!(attention.is_aside());
        assert_eq!(attention.after_post(Fence::Full), Bell::Socket);
        assert!(!attention.is_aside());
        assert_eq!(attention.after_post(Fence::Full), Bell::Silent);
    }

    #[test]
    fn a_dormant_line_stays_so_whoever_wakes() {
        let word = AtomicU32::new(0);
        let attention = Attention::new(&word);
        attention.retire();
        attention.park(false);
        attention.look();
        assert!(attention.is_dormant());
        assert_eq!(attention.after_post(Fence::Full), Bell::Socket);
        assert_eq!(attention.after_post(Fence::Full), Bell::Silent);
        attention.retire();
        attention.revive();
        assert_eq!(attention.after_post(Fence::Full), Bell::Silent);
    }

    #[test]
    fn waking_a_spare_changes_the_word_on_which_it_sleeps() {
        let word = AtomicU32::new(0);
        let attention = Attention::new(&word);
        assert!(!attention.wake_spare());
        let expected = attention.spare();
        assert!(attention.wake_spare());
        assert_ne!(word.load(Ordering::Relaxed), expected);
        assert!(!attention.wake_spare());
    }

    #[test]
    fn who_has_donated_is_called_in_any_case() {
        let word = AtomicU32::new(0);
        let attention = Attention::new(&word);
        let expected = attention.park(false);
        assert_eq!(attention.recall(), Bell::Wake);
        assert_ne!(word.load(Ordering::Relaxed), expected);
        let expected = attention.spare();
        assert_eq!(attention.recall(), Bell::Wake);
        assert_ne!(word.load(Ordering::Relaxed), expected);
        attention.set_aside();
        assert_eq!(attention.recall(), Bell::Socket);
    }
}
