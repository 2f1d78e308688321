//! Wilcoxon's signed-rank test, with its exact distribution: whether differences scatter around
//! zero. It assumes only that they would scatter symmetrically.

/// Differences of pairs, ranked by their size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SignedRanks {
    /// All differences, ascending.
    differences: Vec<f64>,
    /// Twice the rank of each difference that is not zero. Equal ones share the mean of their
    /// ranks, so that twice the rank is a whole number.
    ranks: Vec<usize>,
    /// Twice the sum of the ranks of the negative differences, or of the positive ones if that is
    /// less.
    lesser: usize,
}

impl SignedRanks {
    pub(crate) fn of(differences: impl IntoIterator<Item = f64>) -> Self {
        let mut differences: Vec<f64> = differences.into_iter().collect();
        differences.sort_by(f64::total_cmp);
        let mut sizes: Vec<f64> = differences.iter().copied().filter(|&d| d != 0.0).collect();
        sizes.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let ranks: Vec<usize> = sizes.iter().map(|size| doubled_rank(&sizes, size.abs())).collect();
        let sum = |negative: bool| {
            let signed = sizes.iter().zip(&ranks).filter(|(size, _)| (**size < 0.0) == negative);
            signed.map(|(_, rank)| rank).sum::<usize>()
        };
        let lesser = sum(true).min(sum(false));
        Self { differences, ranks, lesser }
    }

    /// The number of pairs.
    pub(crate) fn pairs(&self) -> usize {
        self.differences.len()
    }

    /// The probability that the lesser sum of ranks is as small as it is, or smaller, if the signs
    /// are a matter of chance.
    pub(crate) fn p(&self) -> f64 {
        let below: f64 = distribution(&self.ranks).iter().take(self.lesser + 1).sum();
        (2.0 * below).min(1.0)
    }

    /// The least probability that so many differences can have.
    pub(crate) fn least_p(&self) -> f64 {
        2.0 * 0.5f64.powi(self.differences.len() as i32)
    }

    /// The middle of all means of two differences (Hodges and Lehmann).
    pub(crate) fn estimate(&self) -> f64 {
        crate::Summary::of(self.means()).median()
    }

    /// The interval that holds the true difference with a probability of at least `1 - level`. Both
    /// ends are infinite if there are too few differences.
    pub(crate) fn interval(&self, level: f64) -> (f64, f64) {
        let ranks: Vec<usize> = (1..=self.differences.len()).map(|rank| 2 * rank).collect();
        let shares = distribution(&ranks);
        let mut below = 0.0;
        let outside = shares.iter().step_by(2).take_while(|share| {
            below += **share;
            below <= level / 2.0
        });
        let Some(last) = outside.count().checked_sub(1) else {
            return (f64::NEG_INFINITY, f64::INFINITY);
        };
        let mut means = self.means();
        means.sort_by(f64::total_cmp);
        (means[last], means[means.len() - 1 - last])
    }

    /// The means of any two differences, and of each with itself.
    fn means(&self) -> Vec<f64> {
        let all = &self.differences;
        let pairs = (0..all.len()).flat_map(|a| (a..all.len()).map(move |b| (a, b)));
        pairs.map(|(a, b)| f64::midpoint(all[a], all[b])).collect()
    }
}

/// Twice the rank of `size` among `sizes`, which ascend.
fn doubled_rank(sizes: &[f64], size: f64) -> usize {
    let smaller = sizes.iter().filter(|other| other.abs() < size).count();
    let same = sizes.iter().filter(|other| other.abs() == size).count();
    2 * smaller + same + 1
}

/// The probability of each sum of those of `ranks` whose sign is positive, where every sign has the
/// probability of one half.
fn distribution(ranks: &[usize]) -> Vec<f64> {
    let mut shares = vec![0.0; ranks.iter().sum::<usize>() + 1];
    shares[0] = 1.0;
    let mut most = 0;
    for &rank in ranks {
        most += rank;
        for sum in (0..=most).rev() {
            let with = sum.checked_sub(rank).map_or(0.0, |without| shares[without]);
            shares[sum] = f64::midpoint(shares[sum], with);
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_have_the_probabilities_of_the_tables() {
        let p = |differences: &[f64]| SignedRanks::of(differences.iter().copied()).p();
        assert_eq!(p(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 0.03125);
        // The sum of the negative ranks is 3. As small are those of {}, {1}, {2}, {3} and {1, 2}.
        assert_eq!(p(&[1.0, 2.0, -3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), 10.0 / 256.0);
        assert_eq!(p(&[1.0, -1.0]), 1.0);
        assert_eq!(p(&[]), 1.0);
        assert_eq!(p(&[0.0, 0.0]), 1.0, "pairs that don't differ");
    }

    #[test]
    fn equal_sizes_share_their_ranks() {
        let ranks = SignedRanks::of([1.0, -1.0, 2.0]);
        assert_eq!((ranks.ranks.clone(), ranks.lesser), (vec![3, 3, 6], 3));
    }

    #[test]
    fn all_probabilities_are_one_together() {
        for ranks in [vec![], vec![2, 4, 6], vec![3, 3, 6], (1..=40).map(|n| 2 * n).collect()] {
            let sum: f64 = distribution(&ranks).iter().sum();
            assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        }
    }

    #[test]
    fn the_interval_holds_the_estimate_and_grows_narrow() {
        let some = |n: i32| SignedRanks::of((0..n).map(|i| 1.0 + f64::from(i % 5) / 10.0));
        let width = |n| {
            let (ranks, (low, high)) = (some(n), some(n).interval(0.05));
            assert!(low <= ranks.estimate() && ranks.estimate() <= high);
            high - low
        };
        assert_eq!(width(5), f64::INFINITY);
        assert!(width(40) < width(8));
    }

    #[test]
    fn six_differences_lie_between_their_ends() {
        // The table's value for n = 6 and 5 % is 0: the interval is the whole range.
        let (low, high) = SignedRanks::of([3.0, 1.0, 4.0, 1.5, 9.0, 2.6]).interval(0.05);
        assert_eq!((low, high), (1.0, 9.0));
    }
}
