//! The word on which a server's listener waits for a donated processor. The protocol and its proof
//! are in `README.md`.

use underpass_seam::atomic::{AtomicU32, Ordering};

/// The listener of this word's CPU sleeps, or is about to: clear the bit and wake it.
const LISTENING: u32 = 1;
/// It is ready to run on its CPU and looks before it sleeps: clear the bit and give way.
const STANDING_BY: u32 = 2;
/// Either says that the listener takes what is donated.
const TAKES: u32 = LISTENING | STANDING_BY;
/// The donor gives way, and is ready to run as soon as it is given way to: clear the bit, and don't
/// wake it.
const GIVING_WAY: u32 = 4;

/// How the listener takes the processor that was donated to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Donee {
    /// Once it is woken: the caller sees to that.
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

/// One donation word, in the region. The listener sets `LISTENING` or `STANDING_BY`, who donates
/// clears it and may set `GIVING_WAY`, which the listener clears.
///
/// The client may write anything there: it can call the listener for nothing, or fail to.
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

    /// *Listen, L1:* says that the listener is about to sleep; gives the value to sleep on.
    /// `announced`: it has said before that it takes what is donated; if a processor came since,
    /// the value is one that the word doesn't hold.
    pub fn listen(&self, announced: bool) -> u32 {
        // Relaxed, here and below: the sleep begins only if the word holds the value still, which
        // the kernel looks at.
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

    /// *Return, L6:* the listener gives the processor back, and stands by if it `stays`; says
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

    /// *Donate, D5:* how the listener takes the processor of the caller, which goes to sleep;
    /// nothing if it doesn't.
    pub fn donate(&self) -> Option<Donee> {
        self.clear(0)
    }

    /// *Donate* and give way: as [`donate`](Self::donate), but the caller is ready to run all the
    /// time.
    pub fn give_way(&self) -> Option<Donee> {
        self.clear(GIVING_WAY)
    }

    fn clear(&self, set: u32) -> Option<Donee> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            // A look first: where nobody listens, nothing is written.
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

    /// Whether the donor that gives way has its processor back.
    pub fn is_back(&self) -> bool {
        // SYNC with `word` compare_exchange in `give_back`: the replies.
        self.word.load(Ordering::Acquire) & GIVING_WAY == 0
    }

    /// The listener will take nothing by this word; `false` if a processor has come already.
    pub fn withdraw(&self) -> bool {
        // SYNC with `word` compare_exchange in `clear`.
        self.word.fetch_and(!TAKES, Ordering::AcqRel) & TAKES != 0
    }

    /// Whether a processor came since [`listen`](Self::listen), or since
    /// [`give_back`](Self::give_back) where the listener stays.
    pub fn came(&self) -> bool {
        // SYNC with `word` compare_exchange in `clear`.
        self.word.load(Ordering::Acquire) & TAKES == 0
    }

    /// The word, to sleep on.
    pub fn word(&self) -> &'a AtomicU32 {
        self.word
    }
}

/// The client's private note that calls wait at a server without a processor, for which nobody has
/// called it.
#[derive(Debug, Default)]
pub struct Owed {
    /// `NOTED` and `SEEN`.
    word: AtomicU32,
}

/// Calls wait.
const NOTED: u32 = 1;
/// They did when a busy processor last looked around.
const SEEN: u32 = 2;

impl Owed {
    /// *D2:* a call was posted, and the server is away.
    pub fn note(&self) {
        // SYNC with `word` swap in `settle`: the post. Who settles it for the poster has the server
        // look after that. A read-modify-write, so that a note over a note leaves the other's to be
        // read.
        self.word.fetch_or(NOTED, Ordering::Release);
    }

    /// Whether there is something to settle: a hint.
    #[inline]
    pub fn is_noted(&self) -> bool {
        // Relaxed: `settle` orders it.
        self.word.load(Ordering::Relaxed) & NOTED != 0
    }

    /// As [`is_noted`](Self::is_noted), and was so when this was last asked.
    #[inline]
    pub fn is_overdue(&self) -> bool {
        // Relaxed: as above, and as a read-modify-write it hands on what `note` has released.
        self.is_noted() && self.word.fetch_or(SEEN, Ordering::Relaxed) & SEEN != 0
    }

    /// *D4:* the caller sees to it now that the server looks at all that was posted before the
    /// notes until now.
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
        assert_ne!(word.load(Ordering::Relaxed), expected, "it came in between");
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
