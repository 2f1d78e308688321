//! Calls that are repeated for a time, and the time that each takes.

use crate::{Outcome, Work};
use hdrhistogram::Histogram;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The longest call that is told apart from longer ones.
const LONGEST_NS: u64 = 100_000_000_000;

/// Calls to be made: how large, by how many callers at once, how long, how often.
#[derive(Debug)]
pub struct Load {
    bytes: usize,
    callers: usize,
    time: Duration,
    gap: Option<Duration>,
    /// When the first caller began.
    begun: OnceLock<Instant>,
}

impl Load {
    /// `callers` callers repeat calls of `bytes` bytes each way for `time`, as fast as they can, or
    /// once each `gap`. The first quarter of the time is not measured.
    pub fn new(bytes: usize, callers: usize, time: Duration, gap: Option<Duration>) -> Self {
        Self { bytes, callers, time, gap, begun: OnceLock::new() }
    }

    /// A single call without bytes.
    pub fn single() -> Self {
        Self::new(0, 1, Duration::ZERO, None)
    }

    /// How many callers there are at once.
    pub fn callers(&self) -> usize {
        self.callers
    }

    /// The bytes of a call.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What callers have done.
#[derive(Debug)]
pub struct Totals {
    /// Nanoseconds of each measured call.
    pub latencies: Histogram<u32>,
    /// All calls, with those that were not measured.
    pub made: u64,
    /// From the first measured call's beginning to the last one's end.
    pub span: Duration,
}

impl Totals {
    /// Those of several callers together.
    ///
    /// # Errors
    /// There was no caller.
    pub fn of(callers: impl IntoIterator<Item = Totals>) -> Outcome<Totals> {
        let mut callers = callers.into_iter();
        let mut all = callers.next().ok_or("nobody called")?;
        for one in callers {
            all.latencies.add(one.latencies)?;
            all.made += one.made;
            all.span = all.span.max(one.span);
        }
        Ok(all)
    }
}

/// A caller's part of a load.
struct Caller<'a> {
    load: &'a Load,
    work: Work,
    totals: Totals,
    measured_from: Instant,
    until: Instant,
    due: Instant,
    started: Instant,
}

impl<'a> Caller<'a> {
    fn new(load: &'a Load) -> Outcome<Self> {
        let latencies = Histogram::new_with_bounds(1, LONGEST_NS, 3)?;
        let totals = Totals { latencies, made: 0, span: Duration::ZERO };
        let work = Work::new(load.bytes);
        let begun = *load.begun.get_or_init(Instant::now);
        let (measured_from, until) = (begun + load.time / 4, begun + load.time);
        Ok(Self { load, work, totals, measured_from, until, due: begun, started: begun })
    }

    /// How long to wait before the next call; `None` if there is no further one. Each caller makes
    /// at least one call that is measured.
    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if now >= self.until && !self.totals.latencies.is_empty() {
            return None;
        }
        self.work.advance();
        let Some(gap) = self.load.gap else { return Some(Duration::ZERO) };
        // By the clock, so that the time of a call does not add to the gaps. A call that took
        // longer than a gap is followed by the next one at once, and not by several.
        self.due = (self.due + gap).max(now);
        Some(self.due - now)
    }

    fn begin(&mut self) {
        self.started = Instant::now();
    }

    fn end(&mut self) {
        let ended = Instant::now();
        self.totals.made += 1;
        if self.started >= self.measured_from {
            let ns = (ended - self.started).as_nanos() as u64;
            self.totals.latencies.saturating_record(ns.clamp(1, LONGEST_NS));
            self.totals.span = ended - self.measured_from;
        }
    }
}

/// One caller of `load`: it repeats `call` on the calling thread, and waits by `sleep`.
///
/// # Errors
/// The first failure of a call.
pub fn repeat(
    load: &Load,
    sleep: impl Fn(Duration),
    mut call: impl FnMut(&Work) -> Outcome,
) -> Outcome<Totals> {
    let mut caller = Caller::new(load)?;
    while let Some(wait) = caller.next() {
        if !wait.is_zero() {
            sleep(wait);
        }
        caller.begin();
        call(&caller.work)?;
        caller.end();
    }
    Ok(caller.totals)
}

/// As [`repeat`], for a task of an executor.
///
/// # Errors
/// The first failure of a call.
pub async fn repeat_async(
    load: &Load,
    sleep: impl AsyncFn(Duration),
    mut call: impl AsyncFnMut(&Work) -> Outcome,
) -> Outcome<Totals> {
    let mut caller = Caller::new(load)?;
    while let Some(wait) = caller.next() {
        if !wait.is_zero() {
            sleep(wait).await;
        }
        caller.begin();
        call(&caller.work).await?;
        caller.end();
    }
    Ok(caller.totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(work: &Work) -> Outcome {
        work.check(&crate::answer_in_place(work.request().to_vec()))
    }

    #[test]
    fn a_load_without_time_is_one_measured_call() {
        let totals = repeat(&Load::single(), |_| (), answered).unwrap();
        assert_eq!((totals.made, totals.latencies.len()), (1, 1));
    }

    #[test]
    fn a_failure_ends_a_load() {
        let mut calls = 0;
        let load = Load::new(8, 1, Duration::from_secs(3600), None);
        let failed = repeat(
            &load,
            |_| (),
            |work| {
                calls += 1;
                if calls == 3 { Err("it is gone".into()) } else { answered(work) }
            },
        );
        assert_eq!((failed.unwrap_err().to_string().as_str(), calls), ("it is gone", 3));
    }

    #[test]
    fn totals_are_those_of_all_callers() {
        let one = || repeat(&Load::single(), |_| (), answered).unwrap();
        let all = Totals::of([one(), one(), one()]).unwrap();
        assert_eq!((all.made, all.latencies.len()), (3, 3));
        assert!(Totals::of([]).is_err());
    }

    #[test]
    fn a_caller_with_a_gap_waits_for_its_turn() {
        let gap = Duration::from_millis(2);
        let load = Load::new(0, 1, 20 * gap, Some(gap));
        // Without waits there would be thousands.
        let totals = repeat(&load, std::thread::sleep, answered).unwrap();
        assert!(totals.made <= 21, "{} calls", totals.made);
    }
}
