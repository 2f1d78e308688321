//! Words beside the messages. By one the server tells how many requests it has taken. By another a
//! client tells until when it wants a call, and that it has given the call up. Further ones hold
//! the numbers of the sections that make a call.
//!
//! What the peer wrote in any of them is untrusted. The proof that both words together tell whether
//! a call was started is in `README.md`, *Not started*.

use crate::attention::Fence;
use crate::layout::SECTION_NUMBERS;
use underpass_seam::atomic::{AtomicU64, Ordering, fence};

/// The call was given up. No deadline has this value.
const CANCELLED: u64 = u64::MAX;
/// In the word of a call that was not given up: the call carries section numbers. No deadline has
/// this bit.
const NUMBERED: u64 = 1 << 63;

/// How many requests the server has taken, modulo 2³². The server writes it under the lock of its
/// end. The client reads it at the end of a binding or of a call.
#[derive(Debug)]
pub struct TakenCount<'a> {
    word: &'a AtomicU64,
}

impl<'a> TakenCount<'a> {
    /// The count at `word`.
    #[inline]
    pub fn new(word: &'a AtomicU64) -> Self {
        Self { word }
    }

    /// *Take, T2:* `count` requests have been taken. Call it before anything is done for the last
    /// of them.
    #[inline(always)]
    pub fn note(&self, count: u32) {
        // Relaxed, then a fence: what the procedure does comes after the store. On x86-64 the fence
        // orders the compiler only.
        self.word.store(count.into(), Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// The count, as the server says.
    pub fn count(&self) -> u32 {
        // SYNC with the fence in `note`: if this side sees what a started procedure did, it sees
        // the count as well.
        self.word.load(Ordering::Acquire) as u32
    }
}

/// Until when the client of a bounded call wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// For ever.
    Forever,
    /// Until this time of the client's monotonic clock, in ns.
    Until(u64),
    /// The client has given the call up.
    NoMore,
}

impl Wanted {
    /// Whether the client has given the call up.
    #[inline]
    pub fn is_cancelled(self) -> bool {
        self == Self::NoMore
    }
}

/// The word in which the client says until when it wants the call of a slot. The client writes it
/// while the slot is leased. The server reads it when it takes the call, and the call's handler
/// whenever it asks.
#[derive(Debug)]
pub struct CancelWord<'a> {
    word: &'a AtomicU64,
}

impl<'a> CancelWord<'a> {
    /// The slot's word at `word`.
    #[inline]
    pub fn new(word: &'a AtomicU64) -> Self {
        Self { word }
    }

    /// Before the post: until when the client wants the call. `numbered`: the call carries section
    /// numbers, which were written before.
    #[inline]
    pub fn set_deadline(&self, deadline_ns: Option<u64>, numbered: bool) {
        // Together with the bit it must not be `CANCELLED`.
        let deadline = deadline_ns.map_or(0, |deadline| deadline.clamp(1, NUMBERED - 2));
        // Relaxed: the post publishes it.
        self.word.store(deadline | if numbered { NUMBERED } else { 0 }, Ordering::Relaxed);
    }

    /// *Give up, G1:* the client doesn't want the call any more.
    pub fn cancel(&self) {
        // SYNC with the fence of the server's view of an earlier call of the slot: this side had
        // seen that call's end. The barrier that follows orders the rest.
        self.word.store(CANCELLED, Ordering::Release);
    }

    /// Until when the client wants the call.
    #[inline]
    pub fn read(&self) -> Wanted {
        // Relaxed: the post published what was written before it. The handler sees later changes
        // some time after they were made.
        match self.word.load(Ordering::Relaxed) {
            CANCELLED => Wanted::NoMore,
            word => match word & !NUMBERED {
                0 => Wanted::Forever,
                deadline_ns => Wanted::Until(deadline_ns),
            },
        }
    }

    /// Whether the call carries section numbers. Of a call that was given up, nobody needs them.
    #[inline]
    pub fn is_numbered(&self) -> bool {
        // Relaxed: as in `read`.
        self.word.load(Ordering::Relaxed) & NUMBERED != 0
    }

    /// *Take, T3:* as [`read`](Self::read), after the call was counted as taken. If the client has
    /// found a cancelled call untaken, this returns [`Wanted::NoMore`].
    #[inline]
    pub fn read_after_take(&self, with: Fence) -> Wanted {
        // Pairs with the client's barrier G2, between `cancel` and its read of the count.
        with.pass();
        self.read()
    }
}

/// The numbers of the sections that make the call of a slot, the latest first. 0
/// stands for none, and ends them. The client writes them before the post, if there are any.
#[derive(Debug)]
pub struct SectionWords<'a> {
    words: [&'a AtomicU64; SECTION_NUMBERS],
}

impl<'a> SectionWords<'a> {
    /// The slot's words.
    pub fn new(words: [&'a AtomicU64; SECTION_NUMBERS]) -> Self {
        Self { words }
    }

    /// Before the post.
    pub fn write(&self, numbers: [u64; SECTION_NUMBERS]) {
        for (word, number) in self.words.iter().zip(numbers) {
            // Relaxed: the post publishes it.
            word.store(number, Ordering::Relaxed);
            if number == 0 {
                break;
            }
        }
    }

    /// After the take.
    pub fn read(&self) -> [u64; SECTION_NUMBERS] {
        let mut numbers = [0; SECTION_NUMBERS];
        for (number, word) in numbers.iter_mut().zip(self.words) {
            // Relaxed: the post published it.
            *number = word.load(Ordering::Relaxed);
            if *number == 0 {
                break;
            }
        }
        numbers
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_wanted_for_ever_or_until_a_time_or_no_more() {
        let word = AtomicU64::new(7);
        let cancel_word = CancelWord::new(&word);
        for (deadline_ns, read) in [
            (None, Wanted::Forever),
            (Some(5), Wanted::Until(5)),
            (Some(0), Wanted::Until(1)),
            (Some(u64::MAX), Wanted::Until((1 << 63) - 2)),
        ] {
            for numbered in [false, true] {
                cancel_word.set_deadline(deadline_ns, numbered);
                assert_eq!((cancel_word.read(), cancel_word.is_numbered()), (read, numbered));
            }
        }
        cancel_word.cancel();
        assert!(cancel_word.read().is_cancelled());
        assert!(cancel_word.read_after_take(Fence::Full).is_cancelled());
    }

    #[test]
    fn a_slot_keeps_as_many_numbers_as_it_was_given() {
        let words = [const { AtomicU64::new(9) }; SECTION_NUMBERS];
        let words = SectionWords::new(words.each_ref());
        for numbers in [[1, 2, 3, 4], [5, 6, 0, 0], [0; SECTION_NUMBERS]] {
            words.write(numbers);
            assert_eq!(words.read(), numbers);
        }
    }
}
