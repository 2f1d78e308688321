//! What a line and an invocation take, measured between a reader and a home.
//!
//! The home keeps a few lines of memory beside the object, which it writes when a reader asks. The
//! reader then copies them twice: first out of the cache of the home's processor, then out of its
//! own. The memory is the home's, so it can lie. It then spoils the choice of its own readers.

use crate::choice::{CostFigures, InvocationCost};
use crate::layout::words_of_lines;
use crate::open::{ObjectOpen, ObjectOpenClient};
use crate::words::{HomeWords, ReadableWords, ReaderWords, Words};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;
use underpass_os::clock::now_ns;
use underpass_rpc::CallError;
use underpass_seam::atomic::Ordering;
use underpass_threads::sleep;

/// The most lines that are measured. More of them take longer in proportion.
const MOST: usize = 1_024;
/// How often to measure. The figure is the median.
const ROUNDS: usize = 15;
/// How often to wait until the home sleeps.
const NAPS: usize = 2;
/// How long to wait for that.
const MOMENT: Duration = Duration::from_millis(1);
const MOMENTS: usize = 4;
/// How long the home may take for an answer. Without one, figures are assumed.
const PATIENCE: Duration = Duration::from_millis(100);

/// The lines that a home writes to be measured. The memory is made when a reader first asks.
pub(crate) struct CalibrationLines {
    lines: usize,
    made: OnceLock<(HomeWords, OwnedFd)>,
}

impl CalibrationLines {
    pub(crate) fn of(lines: usize) -> Self {
        Self { lines: lines.min(MOST), made: OnceLock::new() }
    }

    /// The memory, for a reader.
    pub(crate) fn file(&self) -> io::Result<OwnedFd> {
        if self.made.get().is_none() {
            let made = HomeWords::publish(words_of_lines(self.lines))?;
            // If another thread was faster, its memory stays.
            let _ = self.made.set(made);
        }
        let (_, file) = self.made.get().expect("it was made above");
        file.try_clone()
    }

    /// Writes the first `lines`.
    pub(crate) fn touch(&self, lines: u32) {
        let Some((words, _)) = self.made.get() else { return };
        for line in 0..self.lines.min(lines as usize) {
            let word = words.word(words_of_lines(line));
            // Relaxed: nobody reads the numbers.
            word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }
}

/// The figures for an object of `lines`. What can't be measured is assumed.
pub(crate) fn measure(stub: &ObjectOpenClient, lines: usize) -> CostFigures {
    let mut figures = CostFigures::assumed(u32::try_from(lines).unwrap_or(u32::MAX));
    let patient = stub.with_deadline(PATIENCE);
    if let Some((local, remote)) = lines_ns(&patient, lines.min(MOST)) {
        (figures.local_ns, figures.remote_ns) = (local, remote.max(local));
    }
    let [polling, busy, asleep] = &mut figures.invocations;
    if let Some(ns) = median((0..ROUNDS).map(|_| call_ns(&patient).ok())) {
        *polling = InvocationCost::measured(ns);
        *busy = InvocationCost::assumed(4.0 * ns);
    }
    if let Some(ns) = median((0..NAPS).map(|_| woken_ns(&patient))) {
        *asleep = InvocationCost::measured(ns);
    }
    figures
}

/// What a line takes that is here, and one that the home has written.
fn lines_ns(patient: &ObjectOpenClient, lines: usize) -> Option<(f64, f64)> {
    let file = patient.calibration().ok()?;
    let words = ReaderWords::adopt(file.as_fd(), words_of_lines(lines)).ok()?;
    let mut copy = vec![MaybeUninit::uninit(); 8 * words_of_lines(lines)];
    let mut copied_ns = || {
        let begun = now_ns();
        words.read(0, &mut copy);
        (now_ns() - begun) as f64 / lines as f64
    };
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        patient.touch(lines as u32).ok()?;
        there.push(Some(copied_ns()));
        here.push(Some(copied_ns()));
    }
    // The clock takes as long for both.
    let clock = (0..ROUNDS).map(|_| {
        let begun = now_ns();
        Some((now_ns() - begun) as f64 / lines as f64)
    });
    let clock = median(clock)?;
    let (here, there) = (median(here)? - clock, median(there)? - clock);
    // Less than that is no time for a line, but the clock's step.
    Some((here.max(0.2), there.max(0.2)))
}

/// What an invocation takes that does nothing.
fn call_ns(patient: &ObjectOpenClient) -> Result<f64, CallError> {
    let begun = now_ns();
    patient.touch(0)?;
    Ok((now_ns() - begun) as f64)
}

/// The same, once the home sleeps.
fn woken_ns(patient: &ObjectOpenClient) -> Option<f64> {
    for _ in 0..MOMENTS {
        if patient.home_sleeps() {
            return call_ns(patient).ok();
        }
        sleep(MOMENT);
    }
    None
}

/// The median of those that were measured, if all were.
fn median(measured: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let mut measured = measured.into_iter().collect::<Option<Vec<_>>>()?;
    measured.sort_by(f64::total_cmp);
    measured.get(measured.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_once_a_reader_has_asked() {
        let lines = CalibrationLines::of(3);
        lines.touch(3);
        let file = lines.file().unwrap();
        let words = ReaderWords::adopt(file.as_fd(), words_of_lines(3)).unwrap();
        lines.touch(u32::MAX);
        lines.touch(2);
        let read = |line| words.word(words_of_lines(line)).load(Ordering::Relaxed);
        assert_eq!([read(0), read(1), read(2)], [2, 2, 1]);
        assert!(lines.file().is_ok(), "others get the same");
    }

    #[test]
    fn what_was_not_measured_has_no_median() {
        assert_eq!(median([Some(3.0), Some(1.0), Some(2.0)]), Some(2.0));
        assert_eq!(median([Some(3.0), None]), None);
        assert_eq!(median([]), None);
    }
}
