//! The server's side of the raw limits.
//!
//! ```text
//! client                                  responder (a kernel thread of the server)
//! Kind, Cpu, Rounds, First := ...
//! Order := n, wake                        sleeps on Order
//!                                         moves to Cpu
//! sleeps on Taken                         Taken := n, wake
//! for k in First..First + Rounds: ping    for k in First..First + Rounds: pong
//! ```
//!
//! Between orders it sleeps, so that it takes no processor from the other subjects' turns.

use crate::BenchError;
use crate::raw::shared_words::{FutexWord, SharedWord, SharedWords};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use underpass_os::futex::{self, FutexScope, Watched};
use underpass_os::{clock, cpu};

/// How the two sides answer each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// Each writes a line that the other reads.
    TwoLine = 1,
    /// Both write the same line.
    OneLine = 2,
    /// Each wakes the other in the kernel and sleeps there.
    Futex = 3,
    /// Each writes the next line of a ring that the other reads. This is what the cache lines of a
    /// call cost, without the call.
    Rings = 4,
    /// As `TwoLine`, but a side that waits gives its processor away by `sched_yield`.
    Yield = 5,
}

impl ReplyKind {
    fn from_word(word: u64) -> Result<Self, BenchError> {
        [Self::TwoLine, Self::OneLine, Self::Futex, Self::Rings, Self::Yield]
            .into_iter()
            .find(|&kind| kind as u64 == word)
            .ok_or_else(|| format!("the responder knows no order {word}").into())
    }
}

/// How long the other side may be silent before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(10);

/// Polls between two readings of the clock. A round takes far fewer if both sides run.
const POLLS: u32 = 1 << 20;
/// Yields between two readings of the clock.
const YIELDS: u32 = 1 << 10;

/// Serves orders until the process ends.
///
/// # Errors
/// If the client hangs in the middle of an order, or the order is invalid.
pub fn respond(lines: &SharedWords) -> Result<(), BenchError> {
    let mut seen = 0;
    let mut here = None;
    loop {
        let order = sleep_until_changed(lines.futex_word(FutexWord::Order), seen);
        seen = order;
        // Relaxed: `sleep_until_changed` acquired the order, and its parts were written before.
        let read = |word| lines.word(word).load(Ordering::Relaxed);
        let (kind, first) = (ReplyKind::from_word(read(SharedWord::Kind))?, read(SharedWord::First));
        let last = first + read(SharedWord::Rounds);
        let cpu = read(SharedWord::Cpu) as usize;
        if here != Some(cpu) {
            cpu::confine(&[cpu])?;
            here = Some(cpu);
        }
        let taken = lines.futex_word(FutexWord::Taken);
        // SYNC with `Taken` load in `sleep_until`: nothing but the fact.
        taken.store(order, Ordering::Release);
        futex::wake(taken, FutexScope::Shared, 1);
        match kind {
            ReplyKind::TwoLine => two_lines(lines, first..last)?,
            ReplyKind::OneLine => one_line(lines, first..last)?,
            ReplyKind::Futex => by_kernel(lines, first..last)?,
            ReplyKind::Rings => two_rings(lines, first..last)?,
            ReplyKind::Yield => by_yields(lines, first..last)?,
        }
    }
}

fn two_lines(lines: &SharedWords, rounds: std::ops::Range<u64>) -> Result<(), BenchError> {
    let (ping, pong) = (lines.word(SharedWord::Ping), lines.word(SharedWord::Pong));
    for round in rounds {
        spin_until(ping, round)?;
        // SYNC with `Pong` load in the client's `spin_until`: nothing but the round.
        pong.store(round, Ordering::Release);
    }
    Ok(())
}

fn one_line(lines: &SharedWords, rounds: std::ops::Range<u64>) -> Result<(), BenchError> {
    let line = lines.word(SharedWord::Ping);
    for round in rounds {
        spin_until(line, 2 * round)?;
        // SYNC with `Ping` load in the client's `spin_until`: nothing but the round.
        line.store(2 * round + 1, Ordering::Release);
    }
    Ok(())
}

fn two_rings(lines: &SharedWords, rounds: std::ops::Range<u64>) -> Result<(), BenchError> {
    for round in rounds {
        spin_until(lines.turn(0, round), round)?;
        // SYNC with `turn` load in the client's `spin_until`: nothing but the round.
        lines.turn(1, round).store(round, Ordering::Release);
    }
    Ok(())
}

fn by_yields(lines: &SharedWords, rounds: std::ops::Range<u64>) -> Result<(), BenchError> {
    let (ping, pong) = (lines.word(SharedWord::Ping), lines.word(SharedWord::Pong));
    for round in rounds {
        yield_until(ping, round)?;
        // SYNC with `Pong` load in the client's `yield_until`: nothing but the round.
        pong.store(round, Ordering::Release);
    }
    Ok(())
}

fn by_kernel(lines: &SharedWords, rounds: std::ops::Range<u64>) -> Result<(), BenchError> {
    let (ping, pong) = (lines.futex_word(FutexWord::Ping), lines.futex_word(FutexWord::Pong));
    for round in rounds {
        sleep_until(ping, round as u32)?;
        // SYNC with `Pong` load in the client's `sleep_until`: nothing but the round.
        pong.store(round as u32, Ordering::Release);
        futex::wake(pong, FutexScope::Shared, 1);
    }
    Ok(())
}

/// Polls `word` until it holds `value`, without any pause, because this measures a limit.
///
/// # Errors
/// If that takes longer than the patience allows.
#[inline]
pub fn spin_until(word: &AtomicU64, value: u64) -> Result<(), BenchError> {
    let mut since = None;
    loop {
        for _ in 0..POLLS {
            // SYNC with the store of the same round by the other side: nothing but the round.
            if word.load(Ordering::Acquire) == value {
                return Ok(());
            }
        }
        if since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return Err(stuck());
        }
        // If both sides were on one CPU, the other could not run.
        cpu::give_way();
    }
}

/// Gives the processor away until `word` holds `value`.
///
/// # Errors
/// If that takes longer than the patience allows.
pub fn yield_until(word: &AtomicU64, value: u64) -> Result<(), BenchError> {
    let mut since = None;
    loop {
        for _ in 0..YIELDS {
            // SYNC with the store of the same round by the other side: nothing but the round.
            if word.load(Ordering::Acquire) == value {
                return Ok(());
            }
            cpu::give_way();
        }
        if since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return Err(stuck());
        }
    }
}

/// Sleeps on `word` until it holds `value`.
///
/// # Errors
/// If that takes longer than the patience allows.
pub fn sleep_until(word: &AtomicU32, value: u32) -> Result<(), BenchError> {
    // SYNC with the store of the same value by the other side: what it did before.
    let mut found = word.load(Ordering::Acquire);
    if found == value {
        return Ok(());
    }
    let deadline = clock::deadline_ns(PATIENCE);
    while found != value {
        if clock::now_ns() > deadline {
            return Err(stuck());
        }
        futex::wait(Watched { word, expected: found, scope: FutexScope::Shared }, Some(deadline));
        // SYNC as above.
        found = word.load(Ordering::Acquire);
    }
    Ok(())
}

/// Sleeps on `word` until it holds another value than `seen`, however long that takes. Returns the
/// new value.
fn sleep_until_changed(word: &AtomicU32, seen: u32) -> u32 {
    loop {
        // SYNC with `Order` store in `Orders::give`: what the order is.
        let found = word.load(Ordering::Acquire);
        if found != seen {
            return found;
        }
        futex::wait(Watched { word, expected: seen, scope: FutexScope::Shared }, None);
    }
}

#[cold]
fn stuck() -> BenchError {
    format!("the other side has not answered for {} s", PATIENCE.as_secs()).into()
}
