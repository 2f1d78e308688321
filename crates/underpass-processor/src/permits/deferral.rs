//! Deferral of preemption, as in Raven: the steps on the word of one kernel thread, apart from
//! kernel threads and signals. P2 of the README is about them.

use underpass_seam::LocalWord;

/// Set while there is *no* mark. So the word is zero exactly if the last critical section has ended
/// and there is a mark.
pub const UNMARKED: u32 = 1 << 31;

/// What the protocol needs of a word: each change is one step for a signal that interrupts the
/// thread which changes the word.
pub trait DeferralWord {
    /// The value.
    fn get(&self) -> u32;
    /// Adds one.
    fn increment(&self);
    /// Adds `n`, wrapping around. Returns whether the result is zero.
    #[must_use = "if this is true, there is a mark to answer"]
    fn add(&self, n: u32) -> bool;
    /// Keeps only the bits of `mask`.
    fn keep(&self, mask: u32);
    /// Sets the bits of `mask`.
    fn set(&self, mask: u32);
}

impl DeferralWord for LocalWord {
    #[inline]
    fn get(&self) -> u32 {
        LocalWord::get(self)
    }

    #[inline]
    fn increment(&self) {
        LocalWord::increment(self);
    }

    #[inline]
    fn add(&self, n: u32) -> bool {
        LocalWord::add(self, n)
    }

    #[inline]
    fn keep(&self, mask: u32) {
        LocalWord::keep(self, mask);
    }

    #[inline]
    fn set(&self, mask: u32) {
        LocalWord::set(self, mask);
    }
}

/// How many critical sections are open.
#[inline]
pub fn count(word: &impl DeferralWord) -> u32 {
    word.get() & !UNMARKED
}

/// Ends a critical section. Returns `true` if it was the last and there is a mark, which the caller
/// has to [`answer`].
#[inline]
#[must_use = "if this is true, there is a mark to answer"]
pub fn leave(word: &impl DeferralWord) -> bool {
    word.add(u32::MAX)
}

/// Exchanges a thread's critical sections for the one of its scheduler. Returns how many there
/// were, for [`resume`].
#[inline]
pub fn suspend(word: &impl DeferralWord) -> u32 {
    let held = count(word);
    if word.add(1u32.wrapping_sub(held)) {
        unreachable!("one section is left");
    }
    held
}

/// Exchanges the scheduler's one critical section for the `held` ones of a thread. Returns as
/// [`leave`] does.
#[inline]
#[must_use = "if this is true, there is a mark to answer"]
pub fn resume(word: &impl DeferralWord, held: u32) -> bool {
    word.add(held.wrapping_sub(1))
}

/// Answers a mark that was found at the end of the last section.
pub fn answer(word: &impl DeferralWord, give_way: impl Fn()) {
    loop {
        // P1: no preemption while a permit may be in hand.
        word.increment();
        unmark(word);
        give_way();
        if !leave(word) {
            return;
        }
    }
}

/// Clears the mark. The caller does this before it looks at the cause of the mark, so that a later
/// cause marks again.
#[inline]
pub fn unmark(word: &impl DeferralWord) {
    word.set(UNMARKED);
}

/// What the signal handler does, on top of the thread that owns the word. It gives way, or leaves a
/// mark for the end of the last critical section.
pub fn on_signal(word: &impl DeferralWord, give_way: impl FnOnce()) {
    if count(word) == 0 {
        give_way();
    } else {
        word.keep(!UNMARKED);
    }
}
