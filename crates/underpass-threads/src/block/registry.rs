//! All control blocks of the domain, in a table that only grows, and those among them that stand
//! for no thread.

use crate::block::control::Control;
use crate::diagnose::debugger_table;
use crate::lists::linked::Stock;
use crate::sched::no_preempt::critical;
use crate::sched::scheduler;
use std::sync::{Mutex, OnceLock, PoisonError};
use underpass_seam::atomic::{AtomicU32, Ordering};

/// Blocks of the first chunk; each further chunk has twice as many.
pub(crate) const FIRST: u32 = 64;
pub(crate) const CHUNKS: usize = 25;
/// Blocks that go to or from an activation at a time.
const BATCH: usize = 64;

/// Numbers carry the place of their block in the low half and its generation in the high half.
const PLACE_BITS: u32 = 32;

static TABLE: [OnceLock<Box<[Control]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
/// Blocks that were ever handed out: places below it are in the table.
static MADE: AtomicU32 = AtomicU32::new(0);
static UNUSED: Mutex<Vec<&'static Control>> = Mutex::new(Vec::new());

pub(crate) fn first_number(index: u32) -> u64 {
    u64::from(index)
}

pub(crate) fn next_number(number: u64) -> u64 {
    // It can't overflow: see `is_used_up`.
    number + (1 << PLACE_BITS)
}

/// Whether a block has no number left: it rests for ever, so that no number comes twice. Blocks are
/// used again last in, first out, so one may stand for four thousand million threads within
/// minutes.
fn is_used_up(number: u64) -> bool {
    number >> PLACE_BITS == u64::from(u32::MAX)
}

fn chunk_of(index: u32) -> (usize, usize) {
    let chunk = (index / FIRST + 1).ilog2();
    let begin = FIRST * ((1 << chunk) - 1);
    (chunk as usize, (index - begin) as usize)
}

fn at(index: u32) -> &'static Control {
    let (chunk, place) = chunk_of(index);
    let blocks = TABLE[chunk].get_or_init(|| {
        let begin = FIRST * ((1 << chunk) - 1);
        let blocks: Box<[Control]> =
            (0..FIRST << chunk).map(|place| Control::unused(begin + place)).collect();
        debugger_table::made(chunk, &blocks);
        blocks
    });
    &blocks[place]
}

/// The block of thread `number`, if it still stands for it.
pub(crate) fn find(number: u64) -> Option<&'static Control> {
    let index = number as u32;
    // Relaxed: a number was learned from who made the block.
    if number >> PLACE_BITS == 0 || index >= MADE.load(Ordering::Relaxed) {
        return None;
    }
    Some(at(index)).filter(|control| control.id() == number)
}

/// Every block that stands for a thread at about this moment.
pub(crate) fn all() -> impl Iterator<Item = &'static Control> {
    // Relaxed in `holders`: a guess, which who asks checks.
    let made = MADE.load(Ordering::Acquire);
    (0..made).map(at).filter(|control| control.holders.load(Ordering::Relaxed) > 0)
}

/// A block for a new thread.
#[inline]
pub(crate) fn take(flags: u32) -> &'static Control {
    let own = scheduler::with(|own| own.unused().pop()).flatten();
    let control = own.unwrap_or_else(take_from_all);
    control.renew(flags);
    control
}

#[cold]
fn take_from_all() -> &'static Control {
    // Schedulers take this lock: who is preempted must not hold it.
    let _held = critical();
    let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
    if unused.is_empty() {
        let made = MADE.load(Ordering::Relaxed);
        unused.extend((made..made + BATCH as u32).rev().map(at));
        // SYNC with `MADE` load in `all`: the blocks.
        MADE.store(made + BATCH as u32, Ordering::Release);
    }
    let first = unused.pop().expect("some were made just now");
    scheduler::with(|own| {
        let some = unused.len().min(BATCH / 2);
        let from = unused.len() - some;
        unused.drain(from..).for_each(|control| own.unused().push(control));
    });
    first
}

/// Nobody holds `control` any more.
#[inline]
pub(crate) fn give_back(control: &'static Control) {
    // Relaxed: who takes it next got it from a list that synchronizes.
    control.holders.store(0, Ordering::Relaxed);
    if is_used_up(control.id()) {
        return;
    }
    let kept = scheduler::with(|own| {
        own.unused().push(control);
        own.unused().len() > 2 * BATCH
    });
    if kept != Some(false) {
        give_to_all(kept.is_none().then_some(control));
    }
}

#[cold]
fn give_to_all(one: Option<&'static Control>) {
    let _held = critical();
    let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
    unused.extend(one);
    if one.is_none() {
        scheduler::with(|own| unused.extend(std::iter::from_fn(|| own.unused().pop()).take(BATCH)));
    }
}

/// The blocks that one activation keeps for its next threads.
pub(crate) type Unused = Stock<Control>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_every_place_once() {
        let mut next = [0; CHUNKS];
        for index in 0..100_000 {
            let (chunk, place) = chunk_of(index);
            assert_eq!(place, next[chunk], "place {index}");
            next[chunk] += 1;
            assert!(place < (FIRST as usize) << chunk);
        }
    }

    #[test]
    fn a_number_finds_its_block_until_it_is_used_again() {
        let control = take(0);
        let number = control.id();
        assert!(find(number).is_some_and(|found| std::ptr::eq(found, control)));
        control.renew(0);
        assert!(find(number).is_none());
        assert!(find(0).is_none() && find(u64::MAX).is_none());
        give_back(control);
    }

    #[test]
    fn a_block_whose_numbers_are_used_up_rests_for_ever() {
        let control = Box::leak(Box::new(Control::unused(7)));
        control.set_number(u64::from(u32::MAX - 1) << PLACE_BITS | 7);
        control.renew(0);
        assert_eq!(control.id() >> PLACE_BITS, u64::from(u32::MAX));
        give_back(control);
        let taken = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!taken.iter().any(|other| std::ptr::eq(*other, control)));
    }
}
