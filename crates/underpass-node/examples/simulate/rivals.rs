//! Two policies that were not chosen, for domains that always compute.

use crate::fair_shares::{Wish, fair_shares};
use crate::random::Random;

/// What domains got: their processor time in slices, and the longest wait of any in slices.
#[derive(Debug)]
pub struct Outcome {
    pub served: Vec<f64>,
    pub longest_wait: u64,
}

/// Each domain has its share in whole processors, for as long as nothing changes (Tucker & Gupta).
/// What the division leaves goes to the largest remainders.
pub fn partition(wishes: &[Wish], processors: u32, slices: u64) -> Outcome {
    let shares = fair_shares(wishes, processors);
    let mut whole: Vec<f64> = shares.iter().map(|share| share.floor()).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|&a, &b| shares[b].fract().total_cmp(&shares[a].fract()));
    let left = f64::from(processors) - whole.iter().sum::<f64>();
    for &index in order.iter().take(left as usize) {
        if whole[index] < wishes[index].1 {
            whole[index] += 1.0;
        }
    }
    let starved = whole.contains(&0.0);
    Outcome {
        served: whole.iter().map(|processors| processors * slices as f64).collect(),
        longest_wait: if starved { slices } else { 0 },
    }
}

/// In each slice each processor is drawn for, with the weights as chances.
pub fn lottery(wishes: &[Wish], processors: u32, slices: u64, random: &mut Random) -> Outcome {
    let mut sums = Vec::with_capacity(wishes.len());
    let mut sum = 0;
    for wish in wishes {
        sum += wish.0 as u64;
        sums.push(sum);
    }
    let mut served = vec![0.0; wishes.len()];
    let (mut last, mut longest_wait) = (vec![0_u64; wishes.len()], 0);
    for slice in 1..=slices {
        let mut running = vec![0.0; wishes.len()];
        let mut drawn = 0;
        // A domain that can't use one more is drawn again; so few are left out.
        for _ in 0..processors * 20 {
            let ticket = random.below(sum);
            let index = sums.partition_point(|&end| end <= ticket);
            if drawn < processors && running[index] < wishes[index].1 {
                running[index] += 1.0;
                drawn += 1;
            }
        }
        for (index, running) in running.into_iter().enumerate() {
            served[index] += running;
            if running > 0.0 {
                last[index] = slice;
            }
            longest_wait = longest_wait.max(slice - last[index]);
        }
    }
    Outcome { served, longest_wait }
}
