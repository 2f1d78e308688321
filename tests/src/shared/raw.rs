//! Writes into a region what no honest member writes.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use underpass::shared::{LockError, Region};
use underpass_tests::{Commons, Numbers};

/// Words of the region's header, of a member's page, and how many pages there are.
const HEADER: usize = 512;
const PAGE: usize = 1024;
const MEMBERS: usize = 16;

/// Writes `times` numbers anywhere into the region, most of them such that they could mean
/// something.
pub fn spoil(commons: &Region<Commons>, numbers: &mut Numbers, times: u64) -> Result<(), Box<dyn Error>> {
    let inside = match commons.pair.lock() {
        Ok(pair) => pair.as_ptr().addr(),
        Err(LockError::OwnerDied(pair)) => pair.as_ptr().addr(),
        Err(e) => return Err(e.to_string().into()),
    };
    let region = underpass_os::mapping(inside).ok_or("the region is not mapped")?;
    let words = (region.end - region.start) / 8;
    for _ in 0..times {
        let index = match numbers.below(3) {
            // Pages of the first members, and then objects.
            0 => HEADER + numbers.below(3 * PAGE),
            1 => HEADER + MEMBERS * PAGE + numbers.below((words - HEADER - MEMBERS * PAGE).min(400)),
            _ => numbers.below(words),
        };
        let value = match numbers.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => numbers.draw(),
            // A bit, an index, an owner.
            3 => 1 << numbers.below(64),
            4 => numbers.below(words + 64) as u64,
            _ => {
                1 | (numbers.below(20) as u64) << 8
                    | (numbers.below(4) as u64) << 32
                    | numbers.below(16) as u64
            }
        };
        let at = (region.start + index * 8) as *mut u64;
        // SAFETY: the word lies in the mapping, which stays there as long as `commons`. Every
        // domain accesses it by atomics or opaque copies.
        let word = unsafe { AtomicU64::from_ptr(at) };
        word.store(value, Ordering::SeqCst);
    }
    Ok(())
}
