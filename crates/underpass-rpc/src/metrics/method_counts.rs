//! The counters of one method at one place.

use super::histogram::HistogramCounts;
use super::kind::{EndKind, FailureKind};
use super::views::{FailureCount, MethodMetrics};
use underpass_seam::WriterCounter;

/// One call in so many is timed.
const SAMPLED: u64 = 64;
/// Which of them tells when it was posted.
const POSTED: u64 = SAMPLED / 2;
/// How many kinds of failures there are.
const FAILURES: usize = FailureKind::ALL.len();

/// What is measured of a call besides what is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    Nothing,
    /// How long it takes.
    Time,
    /// How long it waits for its handler. Not of the same calls, since it takes time itself.
    Post,
}

/// What a method has done at one place. Written by the holder of the place; the shared ones by any
/// thread.
#[derive(Debug, Default)]
pub(super) struct MethodCounts {
    /// The calls that began here, and of these the ones that an executor or another thread answers.
    begun: WriterCounter,
    begun_later: WriterCounter,
    returned: WriterCounter,
    returned_errors: WriterCounter,
    bytes_in: WriterCounter,
    bytes_out: WriterCounter,
    failures: [WriterCounter; FAILURES],
    latency: HistogramCounts,
    queueing: HistogramCounts,
}

impl MethodCounts {
    /// A call begins.
    #[inline(always)]
    pub(super) fn begin(&self, shared: bool) -> Sample {
        match self.begun.add(1, shared) % SAMPLED {
            0 => Sample::Time,
            POSTED => Sample::Post,
            _ => Sample::Nothing,
        }
    }

    /// A call that has begun will be answered later. Returns whether it is to be timed.
    pub(super) fn begin_later(&self, shared: bool) -> bool {
        self.begun_later.add(1, shared).is_multiple_of(SAMPLED)
    }

    /// A call ends.
    #[inline(always)]
    pub(super) fn end(&self, kind: EndKind, bytes_in: u64, bytes_out: u64, shared: bool) {
        match kind {
            EndKind::Returned => _ = self.returned.add(1, shared),
            other => self.end_otherwise(other, shared),
        }
        self.bytes_in.add(bytes_in, shared);
        self.bytes_out.add(bytes_out, shared);
    }

    #[cold]
    fn end_otherwise(&self, kind: EndKind, shared: bool) {
        let counter = match kind {
            EndKind::Returned => &self.returned,
            EndKind::ReturnedError => &self.returned_errors,
            EndKind::Failed(kind) => &self.failures[kind as usize],
        };
        counter.add(1, shared);
    }

    /// The arguments of a call that will be answered later had so many bytes.
    pub(super) fn received(&self, bytes: u64, shared: bool) {
        self.bytes_in.add(bytes, shared);
    }

    /// A timed call took `ns`.
    pub(super) fn took(&self, ns: u64, shared: bool) {
        self.latency.add(ns, shared);
    }

    /// A call waited for `ns` before its handler began.
    pub(super) fn queued(&self, ns: u64, shared: bool) {
        self.queueing.add(ns, shared);
    }

    /// Adds these counts to `sum`.
    pub(super) fn add_to(&self, sum: &mut MethodMetrics) {
        let add = |to: &mut u64, counter: &WriterCounter| *to = to.wrapping_add(counter.get());
        add(&mut sum.returned, &self.returned);
        add(&mut sum.returned_errors, &self.returned_errors);
        add(&mut sum.bytes_in, &self.bytes_in);
        add(&mut sum.bytes_out, &self.bytes_out);
        for (kind, counter) in FailureKind::ALL.iter().zip(&self.failures) {
            let calls = counter.get();
            match sum.failures.iter_mut().find(|failure| failure.kind == kind.name()) {
                Some(failure) => failure.calls = failure.calls.wrapping_add(calls),
                None if calls > 0 => sum.failures.push(FailureCount { kind: kind.name().to_owned(), calls }),
                None => {}
            }
        }
        self.latency.add_to(&mut sum.latency);
        self.queueing.add_to(&mut sum.queueing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_64_is_timed() {
        let counts = MethodCounts::default();
        for shared in [false, true] {
            let samples: Vec<_> = (0..256).map(|_| counts.begin(shared)).collect();
            for (sample, first) in [(Sample::Time, 0), (Sample::Post, 32)] {
                let which = samples.iter().enumerate().filter(|(_, one)| **one == sample);
                let which: Vec<_> = which.map(|(call, _)| call).collect();
                assert_eq!(which, [first, first + 64, first + 128, first + 192], "shared: {shared}");
            }
        }
    }

    #[test]
    fn each_kind_of_end_is_counted_by_its_name() {
        let (counts, mut sum) = (MethodCounts::default(), MethodMetrics::default());
        counts.end(EndKind::Returned, 1, 2, false);
        counts.end(EndKind::ReturnedError, 1, 2, false);
        FailureKind::ALL.iter().for_each(|kind| counts.end(EndKind::Failed(*kind), 0, 0, true));
        counts.add_to(&mut sum);
        counts.add_to(&mut sum);
        assert_eq!((sum.returned, sum.returned_errors, sum.bytes_in, sum.bytes_out), (2, 2, 4, 8));
        assert_eq!(sum.failures.len(), FAILURES);
        assert!(sum.failures.iter().all(|failure| failure.calls == 2 && !failure.kind.is_empty()));
        assert_eq!(sum.calls(), 4 + 2 * FAILURES as u64);
    }
}
