//! All control blocks of the domain, in a table that only grows.

use crate::block::control::Control;
use crate::block::thread_id::PLACE_BITS;
use crate::diagnose::debugger_table;
use std::sync::OnceLock;
use underpass_seam::atomic::{AtomicU32, Ordering};

/// Blocks in the first chunk. Each further chunk has twice as many.
pub(crate) const FIRST: u32 = 64;
pub(crate) const CHUNKS: usize = 25;

static TABLE: [OnceLock<Box<[Control]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
/// How many blocks were made. Each place below this number is in the table.
static MADE: AtomicU32 = AtomicU32::new(0);

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

/// The block of thread `number`, if the block still stands for that thread.
pub(crate) fn find(number: u64) -> Option<&'static Control> {
    let index = number as u32;
    // Relaxed: the caller learned the number from the thread that made the block.
    if number >> PLACE_BITS == 0 || index >= MADE.load(Ordering::Relaxed) {
        return None;
    }
    Some(at(index)).filter(|control| control.id() == number)
}

/// Every block that stands for a thread at about this moment.
pub(crate) fn all() -> impl Iterator<Item = &'static Control> {
    // Relaxed in `holders`: the result is a guess, which the caller checks.
    let made = MADE.load(Ordering::Acquire);
    (0..made).map(at).filter(|control| control.holders.load(Ordering::Relaxed) > 0)
}

/// Adds `count` new blocks to the end of `unused`, the one of the lowest number last. The caller
/// makes sure that no other thread does so meanwhile.
pub(crate) fn make(count: u32, unused: &mut Vec<&'static Control>) {
    let made = MADE.load(Ordering::Relaxed);
    unused.extend((made..made + count).rev().map(at));
    // SYNC with `MADE` load in `all`: the blocks.
    MADE.store(made + count, Ordering::Release);
}

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
}
