//! Measures several subjects beside each other.
//!
//! Hosts move virtual CPUs, and clocks change with heat. So the cost of a cache line at noon says
//! little about a call at five past. Subjects take turns of a few milliseconds, and each is
//! compared with its neighbour in time. In every other round the turns go backwards, which cancels
//! a steady drift.

use crate::{BenchError, Effort, Summary};
use std::time::{Duration, Instant};

/// An operation whose cost is measured.
///
/// Both methods first warm up without timing: the peer must be awake and the caches warm when the
/// clock starts.
pub trait Subject {
    /// Its name in results.
    fn name(&self) -> &str;

    /// Performs `operations` and returns the ns that they took together.
    ///
    /// # Errors
    /// If an operation failed or the peer hangs.
    fn batch(&mut self, operations: u64) -> Result<u64, BenchError>;

    /// Whether it works for a window of time. `batch` then returns what `operations` would take at
    /// the rate of the window, and needs no calibration.
    fn is_windowed(&self) -> bool {
        false
    }

    /// Performs `operations` and adds the ns of each to `samples`. Each includes one reading of the
    /// clock.
    ///
    /// # Errors
    /// If an operation failed or the peer hangs.
    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError>;
}

/// The measurements of one subject.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The subject.
    pub name: String,
    /// The ns an operation took in each round.
    pub rounds: Vec<f64>,
    /// The ns that single operations took.
    pub singles: Summary,
}

impl Measured {
    /// The rounds, sorted.
    pub fn slices(&self) -> Summary {
        Summary::of(self.rounds.iter().copied())
    }
}

/// The measurements of subjects that took turns.
#[derive(Clone, Debug)]
pub struct Contest {
    /// In the order of the subjects.
    pub measured: Vec<Measured>,
}

/// Rounds of batches for each round of single operations.
const ROUNDS_A_SAMPLING: usize = 5;

/// The most operations in a slice. No machine does more in one, unless there is nothing to do.
const MOST_OPERATIONS: u64 = 1 << 32;

/// The operations of a slice of a subject that works for a window of time: so many that the ns of
/// all of them have digits enough.
const WINDOWED: u64 = 1 << 20;

/// How often a calibration that seems finished is repeated.
const TRIALS: usize = 2;

/// The most operations that are timed one by one in a slice: a sample is 8 bytes.
const MOST_SAMPLES: u64 = 20_000;

impl Contest {
    /// Lets `subjects` take turns for as long as `effort` says, and reports `progress` (0 to 1).
    ///
    /// # Errors
    /// The first error of a subject.
    pub fn hold(
        subjects: &mut [&mut dyn Subject],
        effort: Effort,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Self, BenchError> {
        let mut operations = Vec::new();
        for subject in subjects.iter_mut() {
            operations.push(match subject.is_windowed() {
                true => WINDOWED,
                false => calibrate(*subject, effort.slice)?,
            });
            progress(0.0);
        }
        Self::of(subjects, &operations, effort, progress)
    }

    /// As [`hold`](Self::hold), where the operations of each subject in a slice are known.
    ///
    /// # Errors
    /// The first error of a subject.
    ///
    /// # Panics
    /// If `operations` are fewer than `subjects`.
    pub fn of(
        subjects: &mut [&mut dyn Subject],
        operations: &[u64],
        effort: Effort,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Self, BenchError> {
        let mut rounds = vec![Vec::new(); subjects.len()];
        let mut samples = vec![Vec::new(); subjects.len()];
        let start = Instant::now();
        for round in 0..effort.most {
            let spent = start.elapsed();
            if round >= effort.least && spent > effort.budget {
                break;
            }
            progress(done(round, spent, effort));
            for turn in turns(subjects.len(), round) {
                let ns = subjects[turn].batch(operations[turn])?;
                rounds[turn].push(ns as f64 / operations[turn] as f64);
            }
            if round % ROUNDS_A_SAMPLING == 0 {
                for turn in turns(subjects.len(), round) {
                    let some = operations[turn].min(MOST_SAMPLES);
                    samples[turn].reserve(some as usize);
                    subjects[turn].single(some, &mut samples[turn])?;
                }
            }
        }
        let results = subjects.iter().zip(rounds).zip(samples);
        let measured = results.map(|((subject, rounds), samples)| Measured {
            name: subject.name().to_owned(),
            rounds,
            singles: Summary::of(samples),
        });
        Ok(Self { measured: measured.collect() })
    }

    /// The ratios of subject `of` to subject `to`, one for each round.
    ///
    /// # Panics
    /// If there is no subject of such a number.
    pub fn ratios(&self, of: usize, to: usize) -> Summary {
        let (of, to) = (&self.measured[of].rounds, &self.measured[to].rounds);
        Summary::of(of.iter().zip(to).map(|(of, to)| of / to))
    }
}

/// The number of operations that fill a slice. The first operations warm up.
///
/// # Errors
/// The first error of the subject.
pub fn calibrate(subject: &mut dyn Subject, slice: Duration) -> Result<u64, BenchError> {
    let slice = slice.as_nanos() as u64;
    let mut operations = 1;
    loop {
        let mut ns = subject.batch(operations)?;
        // One batch may have been interrupted, but not all of them.
        for _ in 0..TRIALS {
            if ns < slice / 4 {
                break;
            }
            ns = ns.min(subject.batch(operations)?);
        }
        if ns >= slice / 4 || operations >= MOST_OPERATIONS {
            return Ok((u128::from(operations) * u128::from(slice) / u128::from(ns.max(1))).max(1) as u64);
        }
        operations = operations.saturating_mul(2);
    }
}

fn turns(subjects: usize, round: usize) -> Box<dyn Iterator<Item = usize>> {
    if round.is_multiple_of(2) { Box::new(0..subjects) } else { Box::new((0..subjects).rev()) }
}

fn done(round: usize, spent: Duration, effort: Effort) -> f64 {
    let by_rounds = round as f64 / effort.most as f64;
    let by_time = spent.as_secs_f64() / effort.budget.as_secs_f64();
    by_rounds.max(by_time.min(round as f64 / effort.least as f64)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subject of known cost, on a machine that gets slower with every slice.
    struct Pretended<'a> {
        name: &'static str,
        cost: f64,
        slowness: &'a std::cell::Cell<f64>,
        fails: bool,
    }

    impl Subject for Pretended<'_> {
        fn name(&self) -> &str {
            self.name
        }
        fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
            if self.fails {
                return Err("stuck".into());
            }
            self.slowness.set(self.slowness.get() * 1.05);
            Ok((self.cost * operations as f64 * self.slowness.get()) as u64)
        }
        fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
            samples.extend((0..operations).map(|_| self.cost));
            Ok(())
        }
    }

    const EFFORT: Effort = Effort { least: 40, most: 40, ..Effort::QUICK };

    #[test]
    fn a_machine_that_slows_down_does_not_change_the_ratio() {
        let slowness = std::cell::Cell::new(1.0);
        let mut limit = Pretended { name: "limit", cost: 100.0, slowness: &slowness, fails: false };
        let mut twice = Pretended { name: "twice", cost: 200.0, slowness: &slowness, fails: false };
        let contest = Contest::hold(&mut [&mut limit, &mut twice], EFFORT, &mut |_| {}).unwrap();
        let ratio = contest.ratios(1, 0).median();
        assert!((1.99..2.01).contains(&ratio), "{ratio}");
        let spread = contest.measured[0].slices();
        assert!(spread.max() / spread.min() > 2.0, "the machine did slow down");
    }

    #[test]
    fn progress_goes_forward_and_stays_in_bounds() {
        let slowness = std::cell::Cell::new(1.0);
        let mut subject = Pretended { name: "a", cost: 1e4, slowness: &slowness, fails: false };
        let mut told = Vec::new();
        Contest::hold(&mut [&mut subject], EFFORT, &mut |share| told.push(share)).unwrap();
        assert!(told.is_sorted() && told.iter().all(|share| (0.0..=1.0).contains(share)), "{told:?}");
    }

    #[test]
    fn a_failure_ends_it() {
        let slowness = std::cell::Cell::new(1.0);
        let mut subject = Pretended { name: "a", cost: 1.0, slowness: &slowness, fails: true };
        let failed = Contest::hold(&mut [&mut subject], EFFORT, &mut |_| {}).unwrap_err();
        assert_eq!(failed.to_string(), "stuck");
    }
}
