//! Statistics of many measurements of one thing.

/// The order statistics of some samples.
///
/// # Examples
/// ```
/// let summary = underpass_figures::Summary::of([3.0, 1.0, 2.0]);
/// assert_eq!((summary.min(), summary.median(), summary.max()), (1.0, 2.0, 3.0));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    ascending: Vec<f64>,
}

impl Summary {
    /// Sorts `samples`.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Self {
        let mut ascending: Vec<f64> = samples.into_iter().collect();
        ascending.sort_by(f64::total_cmp);
        Self { ascending }
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.ascending.len()
    }

    /// Whether there are no samples. Every statistic is NaN then.
    pub fn is_empty(&self) -> bool {
        self.ascending.is_empty()
    }

    /// The least.
    pub fn min(&self) -> f64 {
        self.ascending.first().copied().unwrap_or(f64::NAN)
    }

    /// The greatest.
    pub fn max(&self) -> f64 {
        self.ascending.last().copied().unwrap_or(f64::NAN)
    }

    /// The middle one, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let middle = self.len() / 2;
        match self.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => self.ascending[middle],
            _ => f64::midpoint(self.ascending[middle - 1], self.ascending[middle]),
        }
    }

    /// The nearest-rank quantile: the least sample that at least `share` (0 to 1) of all samples do
    /// not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.len() as f64).ceil() as usize;
        self.ascending.get(rank.max(1) - 1).copied().unwrap_or(self.max())
    }

    /// The 99th percentile.
    pub fn p99(&self) -> f64 {
        self.quantile(0.99)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(Summary::of([4.0, 1.0, 3.0, 2.0]).median(), 2.5);
        assert_eq!(Summary::of([7.0]).median(), 7.0);
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let summary = Summary::of((1..=200).rev().map(f64::from));
        assert_eq!(summary.p99(), 198.0);
        assert_eq!(summary.quantile(0.0), 1.0);
        assert_eq!(summary.quantile(1.0), 200.0);
        assert_eq!(Summary::of([5.0, 9.0]).p99(), 9.0);
    }

    #[test]
    fn one_outlier_does_not_move_the_median() {
        let mut samples = vec![100.0; 100];
        samples.push(1e9);
        assert_eq!(Summary::of(samples).median(), 100.0);
    }

    #[test]
    fn nothing_measured_is_not_a_number() {
        let none = Summary::of([]);
        assert!(none.is_empty());
        assert!([none.min(), none.median(), none.p99(), none.max()].into_iter().all(f64::is_nan));
    }
}
