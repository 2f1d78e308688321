//! The level of weighted max-min shares.

use super::domain_entry::SCALE;

/// What the level needs to know of one domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender {
    pub(super) parts: u64,
    pub(super) minimum: u32,
    pub(super) demand: u32,
}

impl Contender {
    /// Its share at this level, in processors times [`SCALE`].
    pub(super) fn share(&self, level: i128) -> i128 {
        let (least, most) = (i128::from(self.minimum.min(self.demand)), i128::from(self.demand));
        (level * i128::from(self.parts)).clamp(least * SCALE, most * SCALE)
    }

    /// Whether it could use more than its share at this level.
    pub(super) fn competes(&self, level: i128) -> bool {
        level * i128::from(self.parts) < i128::from(self.demand) * SCALE
    }
}

/// The level at which the shares of all together are the processors. A share is the level times the
/// weight, but no less than the minimum and no more than the demand. The level is in processors
/// times [`SCALE`] for each part of a weight. `near` is where the search begins.
pub(super) fn fair_level(contenders: &[Contender], processors: u32, near: i128) -> i128 {
    let supply = i128::from(processors) * SCALE;
    let (mut low, mut high) = (0, supply);
    let mut level = near.clamp(low, high);
    // Each step halves what is left, or is a step of Newton's method within it.
    for _ in 0..64 {
        let (mut shares, mut slope) = (0, 0);
        for each in contenders {
            let share = each.share(level);
            shares += share;
            // A domain between its bounds gets more from a higher level.
            slope += if share == level * i128::from(each.parts) { i128::from(each.parts) } else { 0 };
        }
        let missing = supply - shares;
        if missing.abs() <= SCALE / 4096 || high - low <= 1 {
            break;
        }
        if missing > 0 {
            low = level;
        } else {
            high = level;
        }
        let next = if slope > 0 { level + missing / slope } else { low };
        level = if low < next && next < high { next } else { low.midpoint(high) };
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(contenders: &[Contender], processors: u32) -> Vec<i128> {
        let level = fair_level(contenders, processors, 0);
        contenders.iter().map(|each| (each.share(level) * 1000 + SCALE / 2) / SCALE).collect()
    }

    fn contender(parts: u64, minimum: u32, demand: u32) -> Contender {
        Contender { parts, minimum, demand }
    }

    #[test]
    fn shares_follow_weights() {
        assert_eq!(shares(&[contender(1, 0, 9), contender(3, 0, 9)], 4), [1000, 3000]);
    }

    #[test]
    fn what_one_does_not_want_goes_to_the_others() {
        let all = [contender(100, 0, 1), contender(1, 0, 9), contender(1, 0, 9)];
        assert_eq!(shares(&all, 4), [1000, 1500, 1500]);
    }

    #[test]
    fn a_minimum_is_a_floor() {
        let all = [contender(1, 1, 4), contender(9, 0, 4)];
        assert_eq!(shares(&all, 2), [1000, 1000]);
    }

    #[test]
    fn ten_thousand_heavy_domains_on_one_processor_have_equal_shares() {
        let all = vec![contender(64_000, 0, 1); 10_000];
        let level = fair_level(&all, 1, 0);
        let sum: i128 = all.iter().map(|each| each.share(level)).sum();
        assert!((sum - SCALE).abs() < SCALE / 1000, "{sum}");
    }
}
