//! The yardstick: a procedure call.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Calls a procedure `count` times.
pub fn call(count: u64) -> Duration {
    let begun = Instant::now();
    for number in 0..count {
        black_box(increment(number));
    }
    begun.elapsed()
}

/// What is called: it adds one.
#[inline(never)]
fn increment(number: u64) -> u64 {
    black_box(number) + 1
}
