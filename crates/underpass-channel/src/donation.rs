//! The word on which a server's listener waits for a donated processor. The protocol and its proof are in `README.md`.

use underpass_seam::atomic::{AtomicBool, AtomicU32, Ordering};

/// The listener of this word's CPU sleeps, or is about to: clear the bit and wake it.
const LISTENING: u32 = 1;

/// One donation word, in the region. The listener sets its bit, who donates clears it.
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

    /// *Listen:* says that the listener is about to sleep; gives the value to sleep on.
    pub fn listen(&self) -> u32 {
        // Relaxed: the sleep begins only if the word holds this value still, which the kernel looks at.
        let word = self.word.load(Ordering::Relaxed);
        if word & LISTENING != 0 {
            word
        } else {
            self.word.fetch_or(LISTENING, Ordering::Relaxed) | LISTENING
        }
    }

    /// *Donate:* whether the listener sleeps; then it is the caller's to wake.
    pub fn donate(&self) -> bool {
        // A look first: where nobody listens, nothing is written.
        if self.word.load(Ordering::Relaxed) & LISTENING == 0 {
            return false;
        }
        // SYNC with `word` load in `came`: that the donor is about to sleep, and what it has posted.
        self.word.fetch_and(!LISTENING, Ordering::AcqRel) & LISTENING != 0
    }

    /// The listener will not sleep on this word; `false` if a processor has come already.
    pub fn withdraw(&self) -> bool {
        // SYNC with `word` fetch_and in `donate`.
        self.word.fetch_and(!LISTENING, Ordering::AcqRel) & LISTENING != 0
    }

    /// Whether a processor came since [`listen`](Self::listen).
    pub fn came(&self) -> bool {
        // SYNC with `word` fetch_and in `donate`.
        self.word.load(Ordering::Acquire) & LISTENING == 0
    }

    /// The word, to sleep on.
    pub fn word(&self) -> &'a AtomicU32 {
        self.word
    }
}

/// The client's private note that calls wait at a server without a processor, for which nobody has called it.
#[derive(Debug, Default)]
pub struct Owed {
    noted: AtomicBool,
}

impl Owed {
    /// *D2:* a call was posted, and the server is away.
    pub fn note(&self) {
        // SYNC with `noted` swap in `settle`: the post. Who settles it for the poster has the server look after that.
        // A swap, so that a note over a note leaves the other's to be read.
        self.noted.swap(true, Ordering::Release);
    }

    /// Whether there is something to settle: a hint.
    #[inline]
    pub fn is_noted(&self) -> bool {
        // Relaxed: `settle` orders it.
        self.noted.load(Ordering::Relaxed)
    }

    /// *D4:* the caller sees to it now that the server looks at all that was posted before the notes until now.
    pub fn settle(&self) {
        // SYNC with `noted` swap in `note`.
        self.noted.swap(false, Ordering::Acquire);
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_donated_once_to_who_listens() {
        let word = AtomicU32::new(0);
        let donation = Donation::new(&word);
        assert!(!donation.donate());
        let expected = donation.listen();
        assert_eq!(donation.listen(), expected);
        assert!(!donation.came());
        assert!(donation.donate());
        assert!(!donation.donate());
        assert!(donation.came());
        assert_ne!(word.load(Ordering::Relaxed), expected);
    }

    #[test]
    fn who_listens_no_more_is_given_nothing() {
        let word = AtomicU32::new(0);
        let donation = Donation::new(&word);
        donation.listen();
        assert!(donation.withdraw());
        assert!(!donation.donate());
        donation.listen();
        assert!(donation.donate());
        assert!(!donation.withdraw());
    }
}
