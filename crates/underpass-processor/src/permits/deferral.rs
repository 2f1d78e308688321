//! Raven's deferral: the steps on the word of one kernel thread, apart from kernel threads and
//! signals. P2 of the README is about them.

use underpass_seam::LocalWord;

/// Set while there is *no* mark, so that the word is zero when the last critical section ends and
/// there is one.
pub const UNMARKED: u32 = 1 << 31;

/// What the protocol needs of a word: that each change is one step to the signals that interrupt
/// who changes it.
pub trait Word {
    /// What it holds.
    fn get(&self) -> u32;
    /// Adds one.
    fn increment(&self);
    /// Adds `n`, wrapping around; says whether that made it zero.
    #[must_use = "if this is true, there is a mark to answer"]
    fn add(&self, n: u32) -> bool;
    /// Keeps only the bits of `mask`.
    fn keep(&self, mask: u32);
    /// Sets the bits of `mask`.
    fn set(&self, mask: u32);
}

impl Word for LocalWord {
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

/// How many critical sections there are.
#[inline]
pub fn count(word: &impl Word) -> u32 {
    word.get() & !UNMARKED
}

/// Ends a critical section; `true` if it is the last and there is a mark, which is to be
/// [`answer`]ed.
#[inline]
#[must_use = "if this is true, there is a mark to answer"]
pub fn leave(word: &impl Word) -> bool {
    word.add(u32::MAX)
}

/// Leaves a thread's critical sections for those of its scheduler, which is one; gives how many
/// there were, for [`resume`].
#[inline]
pub fn suspend(word: &impl Word) -> u32 {
    let held = count(word);
    if word.add(1u32.wrapping_sub(held)) {
        unreachable!("one section is left");
    }
    held
}

/// Goes from the scheduler's one critical section back to the `held` ones of a thread; otherwise as
/// [`leave`].
#[inline]
#[must_use = "if this is true, there is a mark to answer"]
pub fn resume(word: &impl Word, held: u32) -> bool {
    word.add(held.wrapping_sub(1))
}

/// The last section has ended and found a mark.
pub fn answer(word: &impl Word, give_way: impl Fn()) {
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

/// The mark has been answered, or is about to be: before its cause is looked at, so that a later
/// one marks anew.
#[inline]
pub fn unmark(word: &impl Word) {
    word.set(UNMARKED);
}

/// The signal's handler, on top of who owns the word: gives way, or leaves a mark for the end of
/// the last critical section.
pub fn on_signal(word: &impl Word, give_way: impl FnOnce()) {
    if count(word) == 0 {
        give_way();
    } else {
        word.keep(!UNMARKED);
    }
}
