//! Weighted max-min shares, found in another way than the policy finds them, to compare with.

/// A domain's weight, and how many processors it can use.
pub type Wish = (f64, f64);

/// The share of each in so many processors: the smallest demands for their weight are met first.
pub fn fair_shares(wishes: &[Wish], processors: u32) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by(|&a, &b| (wishes[a].1 / wishes[a].0).total_cmp(&(wishes[b].1 / wishes[b].0)));
    let mut left = f64::from(processors);
    let mut weights: f64 = wishes.iter().map(|wish| wish.0).sum();
    let mut shares = vec![0.0; wishes.len()];
    for index in order {
        let (weight, demand) = wishes[index];
        shares[index] = demand.min(left * weight / weights);
        left -= shares[index];
        weights -= weight;
    }
    shares
}
