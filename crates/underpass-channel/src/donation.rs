//! The donation word, on which a server's listener waits for a donated processor. The protocol and
//! its proof are in `README.md`.

use underpass_seam::atomic::{AtomicU32, Ordering};

/// The listener of this word's CPU sleeps, or is about to. The donor that clears the bit wakes it.
const LISTENING: u32 = 1;
/// The listener is ready to run on its CPU, and looks at the word before it sleeps. The donor that
/// clears the bit sleeps or gives way, and wakes nobody.
const STANDING_BY: u32 = 2;
/// With either bit the listener takes a donated processor.
const TAKES: u32 = LISTENING | STANDING_BY;
/// The donor gives way: it is ready to run on this CPU. The listener clears the bit when it returns
/// the processor, and need not wake the donor.
const GIVING_WAY: u32 = 4;

/// How the listener takes the processor that was donated to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Donee {
    /// Once it is woken, which is up to the caller.
    Asleep,
    /// As soon as the donor sleeps or gives way.
    StandsBy,
}

impl Donee {
    fn of(word: u32) -> Option<Self> {
        match word & TAKES {
            0 => None,
            STANDING_BY => Some(Self::StandsBy),
            _ => Some(Self::Asleep),
        }
    }
}

/// One donation word, in the region. The listener sets `LISTENING` or `STANDING_BY`. The donor
/// clears them and may set `GIVING_WAY`, which the listener clears.
///
/// The client may write anything there. It can wake the listener for nothing, or fail to wake it.
#[derive(Debug)]
pub struct Donation<'a> {
    word: &'a AtomicU32,
}

impl<'a> Donation<'a> {
    /// The donation word at `word`.
    #[inline]
    pub fn new(word: &'a AtomicU32) -> Self {
        Self { word }
    }

    /// *Listen, L1:* announces that the listener is about to sleep. Returns the value to sleep on.
    /// `announced`: the listener has announced before that it takes donations. If a processor has
    /// come since, the returned value differs from the word, so that the sleep does not begin.
    pub fn listen(&self, announced: bool) -> u32 {
        // Relaxed, here and below: the kernel begins the sleep only if the word still has the
        // value.
        let word = self.word.load(Ordering::Relaxed);
        if word & LISTENING != 0 {
            return word;
        }
        if !announced {
            return self.word.fetch_or(LISTENING, Ordering::Relaxed) | LISTENING;
        }
        let asleep = word & !STANDING_BY | LISTENING;
        let stood_by = word & STANDING_BY != 0;
        match stood_by
            && self.word.compare_exchange(word, asleep, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            true => asleep,
            false => !self.word.load(Ordering::Relaxed),
        }
    }

    /// *Return, L6:* the listener returns the processor, and stands by if it `stays`. Returns
    /// whether the donor gives way, and so need not be woken.
    pub fn give_back(&self, stays: bool) -> bool {
        let set = if stays { STANDING_BY } else { 0 };
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let new = word & !GIVING_WAY | set;
            // SYNC with `word` load in `is_back`: the replies.
            match self.word.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return word & GIVING_WAY != 0,
                Err(now) => word = now,
            }
        }
    }

    /// *Donate, D5:* the caller is about to sleep. Returns how the listener takes the caller's
    /// processor, `None` if no listener takes it.
    pub fn donate(&self) -> Option<Donee> {
        self.clear(0)
    }

    /// *Donate, H1:* as [`donate`](Self::donate), but the caller gives way and stays ready to run.
    pub fn give_way(&self) -> Option<Donee> {
        self.clear(GIVING_WAY)
    }

    fn clear(&self, set: u32) -> Option<Donee> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            // Read first: if nobody listens, nothing is written.
            let donee = Donee::of(word)?;
            let new = word & !(TAKES | GIVING_WAY) | set;
            // SYNC with `word` load in `came`: that the donor is about to sleep or give way, and
            // what it has posted.
            match self.word.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(donee),
                Err(now) => word = now,
            }
        }
    }

    /// Whether a donor that gives way has its processor back.
    pub fn is_back(&self) -> bool {
        // SYNC with `word` compare_exchange in `give_back`: the replies.
        self.word.load(Ordering::Acquire) & GIVING_WAY == 0
    }

    /// The listener takes no more donations by this word. `false` if a processor has come already.
    pub fn withdraw(&self) -> bool {
        // SYNC with `word` compare_exchange in `clear`.
        self.word.fetch_and(!TAKES, Ordering::AcqRel) & TAKES != 0
    }

    /// Whether a processor has come since [`listen`](Self::listen), or since
    /// [`give_back`](Self::give_back) of a listener that stays.
    pub fn came(&self) -> bool {
        // SYNC with `word` compare_exchange in `clear`.
        self.word.load(Ordering::Acquire) & TAKES == 0
    }

    /// The word to sleep on.
    pub fn word(&self) -> &'a AtomicU32 {
        self.word
    }
}

/// The client's private note that calls wait at a server without a processor, and that nobody has
/// woken the server for them.
#[derive(Debug, Default)]
pub struct Owed {
    /// The bits `NOTED` and `SEEN`.
    word: AtomicU32,
}

/// Calls wait that the server is owed.
const NOTED: u32 = 1;
/// They already waited at the last periodic maintenance of a busy processor.
const SEEN: u32 = 2;

impl Owed {
    /// *D2:* notes that a call was posted while the server was away.
    pub fn note(&self) {
        // SYNC with `word` swap in `settle`: the post. The thread that settles the note has the
        // server look at its ring after that post. It is a read-modify-write, so that a second note
        // also passes on what the first one released.
        self.word.fetch_or(NOTED, Ordering::Release);
    }

    /// Whether there is a note: a hint.
    #[inline]
    pub fn is_noted(&self) -> bool {
        // Relaxed: `settle` orders it.
        self.word.load(Ordering::Relaxed) & NOTED != 0
    }

    /// As [`is_noted`](Self::is_noted), and the note was there at the last call of this function
    /// too.
    #[inline]
    pub fn is_overdue(&self) -> bool {
        // Relaxed: as above. As a read-modify-write it passes on what `note` released.
        self.is_noted() && self.word.fetch_or(SEEN, Ordering::Relaxed) & SEEN != 0
    }

    /// *D4:* takes the note. The caller now has the server look at all that was posted before the
    /// notes so far.
    pub fn settle(&self) {
        // SYNC with `word` fetch_or in `note`.
        self.word.swap(0, Ordering::Acquire);
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_donated_once_to_a_listener() {
        let word = AtomicU32::new(0);
        let donation = Donation::new(&word);
        assert_eq!(donation.donate(), None);
        let expected = donation.listen(false);
        assert_eq!(donation.listen(true), expected);
        assert!(!donation.came());
        assert_eq!(donation.donate(), Some(Donee::Asleep));
        assert_eq!(donation.donate(), None);
        assert!(donation.came());
        assert_ne!(word.load(Ordering::Relaxed), expected);
    }

    #[test]
    fn a_listener_that_withdraws_is_given_nothing() {
        let word = AtomicU32::new(0);
        let donation = Donation::new(&word);
        donation.listen(false);
        assert!(donation.withdraw());
        assert_eq!(donation.donate(), None);
        donation.give_back(true);
        assert_eq!(donation.donate(), Some(Donee::StandsBy));
        assert!(!donation.withdraw());
    }

    #[test]
    fn a_listener_that_stands_by_and_then_sleeps_misses_nothing() {
        let word = AtomicU32::new(0);
        let donation = Donation::new(&word);
        donation.give_back(true);
        let expected = donation.listen(true);
        assert_eq!(word.load(Ordering::Relaxed), expected);
        assert_eq!(donation.give_way(), Some(Donee::Asleep));
        assert!(donation.came());
        assert!(donation.give_back(true));
        assert_eq!(donation.give_way(), Some(Donee::StandsBy));
        let expected = donation.listen(true);
        assert_ne!(word.load(Ordering::Relaxed), expected, "a donation came in between");
    }

    #[test]
    fn a_donor_that_gives_way_needs_no_wake_up_and_one_that_sleeps_does() {
        let word = AtomicU32::new(0);
        let donation = Donation::new(&word);
        donation.give_back(true);
        donation.give_way();
        assert!(!donation.is_back());
        assert!(donation.give_back(true));
        assert!(donation.is_back());
        donation.give_way();
        donation.give_back(true);
        donation.donate();
        assert!(!donation.give_back(false));
        assert_eq!(donation.donate(), None);
    }

    #[test]
    fn a_debt_is_overdue_when_it_is_seen_twice() {
        let owed = Owed::default();
        assert!(!owed.is_overdue());
        owed.note();
        assert!(!owed.is_overdue());
        owed.note();
        assert!(owed.is_overdue() && owed.is_noted());
        owed.settle();
        assert!(!owed.is_noted());
        owed.note();
        assert!(!owed.is_overdue());
    }
}
