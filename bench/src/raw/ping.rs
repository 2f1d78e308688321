//! The client's side of the raw limits: the least that a call between two processes can cost.

use crate::BenchError;
use crate::measure::contest::Subject;
pub use crate::raw::responder::ReplyKind;
use crate::raw::responder::{sleep_until, spin_until, yield_until};
use crate::raw::shared_words::{FutexWord, SharedWord, SharedWords};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;
use underpass_os::clock::now_ns;
use underpass_os::futex::{self, FutexScope};

/// Orders to the responder. Each shared page has one such value.
#[derive(Debug)]
pub struct Orders {
    lines: SharedWords,
    given: Cell<u32>,
    round: Cell<u64>,
}

impl Orders {
    /// Orders for the responder at the other end of `lines`.
    pub fn new(lines: SharedWords) -> Self {
        Self { lines, given: Cell::new(0), round: Cell::new(1) }
    }

    /// Orders the responder on `cpu` to answer `rounds` rounds of `kind`. Returns the number of the
    /// first round, once the responder is ready.
    fn give(&self, kind: ReplyKind, cpu: usize, rounds: u64) -> Result<u64, BenchError> {
        let first = self.round.get();
        self.round.set(first + rounds);
        let order = self.given.get().wrapping_add(1);
        self.given.set(order);
        let write = |word, value| self.lines.word(word).store(value, Ordering::Relaxed);
        write(SharedWord::Kind, kind as u64);
        write(SharedWord::Cpu, cpu as u64);
        write(SharedWord::Rounds, rounds);
        write(SharedWord::First, first);
        let word = self.lines.futex_word(FutexWord::Order);
        // SYNC with `Order` load in `sleep_until_changed`: the four words above.
        word.store(order, Ordering::Release);
        futex::wake(word, FutexScope::Shared, 1);
        sleep_until(self.lines.futex_word(FutexWord::Taken), order)?;
        Ok(first)
    }

    #[inline]
    fn round(&self, kind: ReplyKind, round: u64) -> Result<(), BenchError> {
        match kind {
            ReplyKind::TwoLine => {
                // SYNC with `Ping` load in the responder's `spin_until`: nothing but the round.
                self.lines.word(SharedWord::Ping).store(round, Ordering::Release);
                spin_until(self.lines.word(SharedWord::Pong), round)
            }
            ReplyKind::Rings => {
                // SYNC as above.
                self.lines.turn(0, round).store(round, Ordering::Release);
                spin_until(self.lines.turn(1, round), round)
            }
            ReplyKind::OneLine => {
                // SYNC as above.
                self.lines.word(SharedWord::Ping).store(2 * round, Ordering::Release);
                spin_until(self.lines.word(SharedWord::Ping), 2 * round + 1)
            }
            ReplyKind::Yield => {
                // SYNC with `Ping` load in the responder's `yield_until`: nothing but the round.
                self.lines.word(SharedWord::Ping).store(round, Ordering::Release);
                yield_until(self.lines.word(SharedWord::Pong), round)
            }
            ReplyKind::Futex => {
                let ping = self.lines.futex_word(FutexWord::Ping);
                // SYNC with `Ping` load in the responder's `sleep_until`: nothing but the round.
                ping.store(round as u32, Ordering::Release);
                futex::wake(ping, FutexScope::Shared, 1);
                sleep_until(self.lines.futex_word(FutexWord::Pong), round as u32)
            }
        }
    }
}

/// A ping-pong between this kernel thread and the responder.
#[derive(Clone, Copy, Debug)]
pub struct Ping<'a> {
    name: &'static str,
    orders: &'a Orders,
    kind: ReplyKind,
    cpu: usize,
}

impl<'a> Ping<'a> {
    /// A ping-pong called `name`, with the responder on `cpu`.
    pub fn new(name: &'static str, orders: &'a Orders, kind: ReplyKind, cpu: usize) -> Self {
        Self { name, orders, kind, cpu }
    }

    /// Orders a few rounds more than `operations` and runs those. Returns the rounds to be timed.
    fn warm_up(&self, operations: u64) -> Result<std::ops::Range<u64>, BenchError> {
        let more = operations / 8 + 2;
        let first = self.orders.give(self.kind, self.cpu, more + operations)?;
        for round in first..first + more {
            self.orders.round(self.kind, round)?;
        }
        Ok(first + more..first + more + operations)
    }
}

impl Subject for Ping<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        let rounds = self.warm_up(operations)?;
        let start = now_ns();
        // The kind is chosen outside the loop.
        match self.kind {
            ReplyKind::TwoLine => {
                rounds.into_iter().try_for_each(|n| self.orders.round(ReplyKind::TwoLine, n))?
            }
            ReplyKind::OneLine => {
                rounds.into_iter().try_for_each(|n| self.orders.round(ReplyKind::OneLine, n))?
            }
            ReplyKind::Rings => {
                rounds.into_iter().try_for_each(|n| self.orders.round(ReplyKind::Rings, n))?
            }
            ReplyKind::Futex => {
                rounds.into_iter().try_for_each(|n| self.orders.round(ReplyKind::Futex, n))?
            }
            ReplyKind::Yield => {
                rounds.into_iter().try_for_each(|n| self.orders.round(ReplyKind::Yield, n))?
            }
        }
        Ok(now_ns() - start)
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
        let rounds = self.warm_up(operations)?;
        let mut before = now_ns();
        for round in rounds {
            self.orders.round(self.kind, round)?;
            let now = now_ns();
            samples.push((now - before) as f64);
            before = now;
        }
        Ok(())
    }
}

/// Round trips by the kernel. Each starts when both sides have slept for a while.
#[derive(Debug)]
pub struct LatePing<'a> {
    name: &'static str,
    orders: &'a Orders,
    cpu: usize,
    pause: Duration,
}

impl<'a> LatePing<'a> {
    /// Such round trips called `name`, with the responder on `cpu`. This kernel thread sleeps for
    /// `pause` before each round.
    pub fn new(name: &'static str, orders: &'a Orders, cpu: usize, pause: Duration) -> Self {
        Self { name, orders, cpu, pause }
    }
}

impl Subject for LatePing<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        // The first round waits until the responder has moved to its CPU. It is not timed.
        let first = self.orders.give(ReplyKind::Futex, self.cpu, 1 + operations)?;
        self.orders.round(ReplyKind::Futex, first)?;
        let mut ns = 0;
        for round in first + 1..=first + operations {
            std::thread::sleep(self.pause);
            let start = now_ns();
            self.orders.round(ReplyKind::Futex, round)?;
            ns += now_ns() - start;
        }
        Ok(ns)
    }

    /// Each round is timed by itself already.
    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Placement;
    use crate::raw::responder::respond;

    /// A client and a responder in one process. The protocol is the same.
    fn orders() -> Orders {
        let (lines, file) = SharedWords::create().unwrap();
        let theirs = SharedWords::adopt(&file).unwrap();
        std::thread::spawn(move || respond(&theirs));
        Orders::new(lines)
    }

    #[test]
    fn the_responder_answers_every_kind_on_every_cpu() {
        let orders = orders();
        let place = Placement::choose().unwrap();
        let cpus = [place.far.unwrap_or(place.near), place.near];
        let kinds =
            [ReplyKind::Futex, ReplyKind::TwoLine, ReplyKind::OneLine, ReplyKind::Rings, ReplyKind::Yield];
        for (kind, cpu) in kinds.into_iter().zip(cpus.into_iter().cycle()) {
            let mut ping = Ping::new("test", &orders, kind, cpu);
            let mut samples = Vec::new();
            for operations in [1, 3, 2] {
                ping.batch(operations).unwrap();
                ping.single(operations, &mut samples).unwrap();
            }
            assert_eq!(samples.len(), 6, "{kind:?}");
        }
        let mut late = LatePing::new("test", &orders, place.near, Duration::from_millis(1));
        assert!(late.batch(2).unwrap() > 0);
    }
}
