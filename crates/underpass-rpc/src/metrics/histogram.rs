//! Histograms of times, with eight buckets for each power of two.

use std::time::Duration;
use underpass_macros::Wire;
use underpass_seam::WriterCounter;

/// Bits of a time below its highest one that tell buckets apart.
const BITS: u32 = 3;
/// Buckets for each power of two.
const STEPS: u64 = 1 << BITS;
/// The power of two from which on all times are in the last bucket: 69 s.
const HIGHEST: u32 = 36;
/// How many buckets there are.
pub(super) const BUCKETS: usize = ((HIGHEST - BITS + 1) as usize) << BITS;

/// The longest time that has a range, in ns.
pub(super) const LONGEST_NS: u64 = (1 << HIGHEST) - 1;

/// The bucket of a time in ns.
fn bucket_of(ns: u64) -> usize {
    let ns = ns.min(LONGEST_NS);
    // Below 8 ns each has a bucket of its own.
    let shift = ns.max(STEPS).ilog2() - BITS;
    (u64::from(shift) * STEPS + (ns >> shift)) as usize
}

/// The least time of a bucket, in ns.
fn least_of(bucket: usize) -> u64 {
    let (power, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    match power.checked_sub(1) {
        None => step,
        Some(shift) => (step + STEPS) << shift,
    }
}

/// The counts of a histogram.
#[derive(Debug)]
pub(super) struct HistogramCounts {
    buckets: [WriterCounter; BUCKETS],
    sum_ns: WriterCounter,
}

impl Default for HistogramCounts {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| WriterCounter::default()), sum_ns: WriterCounter::default() }
    }
}

impl HistogramCounts {
    /// Counts a time. `shared`: other threads may write.
    pub(super) fn add(&self, ns: u64, shared: bool) {
        self.buckets[bucket_of(ns)].add(1, shared);
        self.sum_ns.add(ns, shared);
    }

    /// Adds these counts to `sum`.
    pub(super) fn add_to(&self, sum: &mut LatencyHistogram) {
        for (range, bucket) in self.buckets.iter().enumerate() {
            let count = bucket.get();
            if count > 0 {
                sum.counts.resize(sum.counts.len().max(range + 1), 0);
                sum.counts[range] = sum.counts[range].saturating_add(count);
            }
        }
        sum.sum_ns = sum.sum_ns.saturating_add(self.sum_ns.get());
    }
}

/// How long calls took: how many there were in each of 272 ranges of times. There are eight ranges
/// for each power of two, so a time is known to an eighth.
///
/// # Examples
/// ```
/// let none = underpass::metrics::LatencyHistogram::default();
/// assert_eq!((none.count(), none.quantile(0.5)), (0, None));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Wire)]
#[underpass(crate = crate::metrics::generated, extensible)]
pub struct LatencyHistogram {
    /// How many calls took so long, for each range, up to the last that has any.
    pub counts: Vec<u64>,
    /// The sum of all times, in ns.
    pub sum_ns: u64,
}

impl LatencyHistogram {
    /// How many calls were timed.
    pub fn count(&self) -> u64 {
        self.ranges().fold(0, |all, (_, count)| all.saturating_add(count))
    }

    /// The time that a part `quantile` of the calls did not exceed, for example 0.99: the end of
    /// the range in which it lies. `None` if no call was timed.
    ///
    /// # Examples
    /// ```
    /// let mut times = underpass::metrics::LatencyHistogram::default();
    /// // Ranges 8 to 15 are 8 ns to 15 ns, each of 1 ns.
    /// times.counts = vec![0, 0, 0, 0, 0, 0, 0, 0, 99, 1];
    /// assert_eq!(times.quantile(0.5).unwrap().as_nanos(), 9);
    /// assert_eq!(times.quantile(1.0).unwrap().as_nanos(), 10);
    /// ```
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let all = self.count();
        let wanted = ((all as f64 * quantile.clamp(0.0, 1.0)).ceil() as u64).clamp(1, all.max(1));
        let mut below = 0u64;
        self.ranges()
            .find(|(_, count)| {
                below = below.saturating_add(*count);
                below >= wanted
            })
            .map(|(end, _)| Duration::from_nanos(end))
    }

    /// The ranges: of each the time at which it ends, in ns and exclusive, and how many calls are
    /// in it. The last range has all longer times as well.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        // A process that tells of itself may tell of any number of ranges.
        self.counts.iter().take(BUCKETS).enumerate().map(|(bucket, count)| (least_of(bucket + 1), *count))
    }

    /// The times that were counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |bucket: usize| earlier.counts.get(bucket).copied().unwrap_or(0);
        let counts = self.counts.iter().enumerate();
        Self {
            counts: counts.map(|(bucket, count)| count.saturating_sub(before(bucket))).collect(),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
        }
    }

    /// Adds the times of `other`.
    pub fn add(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_the_range_that_has_it() {
        let around = (0..HIGHEST).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]);
        for ns in (0..4096).chain(around) {
            let bucket = bucket_of(ns);
            assert!(least_of(bucket) <= ns && ns < least_of(bucket + 1), "{ns} is in {bucket}");
            let width = least_of(bucket + 1) - least_of(bucket);
            assert!(width <= 1 || width * STEPS <= least_of(bucket), "{ns} is known to an eighth");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(least_of(BUCKETS), 1 << HIGHEST);
    }

    #[test]
    fn quantiles_are_the_ends_of_ranges() {
        let counts = HistogramCounts::default();
        (0..90).for_each(|_| counts.add(100, false));
        (0..10).for_each(|_| counts.add(5000, true));
        let mut told = LatencyHistogram::default();
        counts.add_to(&mut told);
        assert_eq!((told.count(), told.sum_ns), (100, 90 * 100 + 10 * 5000));
        let at = |quantile| told.quantile(quantile).map_or(0, |time| time.as_nanos() as u64);
        assert!((101..=112).contains(&at(0.0)) && at(0.0) == at(0.9), "{}", at(0.5));
        assert!((5001..=5632).contains(&at(0.91)) && at(0.91) == at(1.0), "{}", at(0.99));
        let mut twice = told.clone();
        twice.add(&told);
        assert_eq!(twice.since(&told), told);
    }

    #[test]
    fn a_process_may_tell_anything() {
        let odd = LatencyHistogram { counts: vec![u64::MAX; 10 * BUCKETS], sum_ns: 1 };
        assert_eq!(odd.count(), u64::MAX);
        assert!(odd.quantile(f64::NAN).is_some());
    }
}
