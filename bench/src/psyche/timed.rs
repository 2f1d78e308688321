//! Operations that say themselves how long they took.

use crate::BenchError;
use crate::measure::contest::Subject;
use underpass_os::clock::now_ns;

/// An operation that is prepared without being timed. `body` executes that many and returns the ns
/// of all.
pub(super) struct SelfTimed<F> {
    name: String,
    body: F,
}

impl<F: FnMut(u64) -> Result<u64, BenchError>> SelfTimed<F> {
    pub(super) fn new(name: impl Into<String>, body: F) -> Self {
        Self { name: name.into(), body }
    }
}

impl<F: FnMut(u64) -> Result<u64, BenchError>> Subject for SelfTimed<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        (self.body)(operations / 8 + 1)?;
        (self.body)(operations)
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
        (self.body)(operations / 8 + 1)?;
        for _ in 0..operations {
            samples.push((self.body)(1)? as f64);
        }
        Ok(())
    }
}

/// Prepares and executes an operation so many times. Returns the ns of the operations alone,
/// without those of the clock.
pub(super) fn each(
    times: u64,
    clock_ns: u64,
    mut prepare: impl FnMut() -> Result<(), BenchError>,
    mut operation: impl FnMut() -> Result<u64, BenchError>,
) -> Result<u64, BenchError> {
    let mut spent = 0;
    for _ in 0..times {
        prepare()?;
        let begun = now_ns();
        std::hint::black_box(operation()?);
        spent += (now_ns() - begun).saturating_sub(clock_ns);
    }
    Ok(spent)
}

/// What a reading of the clock takes.
pub(super) fn clock_ns() -> u64 {
    const TIMES: u64 = 10_000;
    let begun = now_ns();
    for _ in 0..TIMES {
        std::hint::black_box(now_ns());
    }
    (now_ns() - begun) / TIMES
}
