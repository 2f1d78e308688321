//! Honest clients beside a liar: each calls on, checks every answer, and notes how long its calls took.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use underpass_tests::{Probe, ProbeClient};

/// What the data of each honest client consists of, and nothing else: who finds some has found theirs.
pub const MARKS: [u8; 2] = [0xa7, 0x9d];

/// How long calls took, in ns.
#[derive(Debug, Default)]
pub struct Times(Vec<u64>);

impl Times {
    /// For people: a quantile each, in µs.
    pub fn told(mut self) -> String {
        self.0.sort_unstable();
        let at = |of: f64| {
            let index = (self.0.len() as f64 * of) as usize;
            self.0.get(index).map_or(0.0, |&ns| ns as f64 / 1e3)
        };
        format!("{} calls, p50 {:.1} us, p99 {:.1} us", self.0.len(), at(0.5), at(0.99))
    }

    /// How many calls there were.
    pub fn calls(&self) -> usize {
        self.0.len()
    }
}

/// Calls in every size as long as it `goes_on`, and checks each answer.
fn call(honest: &ProbeClient, mark: u8, goes_on: impl Fn(u32) -> bool) -> Times {
    let (mut times, mut rounds) = (Times::default(), 0u32);
    while goes_on(rounds) {
        for size in [8, 40, 300, 20_000] {
            let bytes = vec![mark; size + rounds as usize % 8];
            let begun = Instant::now();
            assert_eq!(honest.echo(&bytes).as_ref(), Ok(&bytes));
            if size == 40 {
                times.0.push(begun.elapsed().as_nanos() as u64);
            }
        }
        rounds += 1;
    }
    times
}

/// What the calls of `honest` took, all at once, while `meanwhile` ran; and what that gives.
pub fn beside<R>(honest: &[ProbeClient; 2], meanwhile: impl FnOnce() -> R) -> (Times, R) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let goes_on = |_| !over.load(Ordering::Relaxed);
        let callers: Vec<_> = honest
            .iter()
            .zip(MARKS)
            .map(|(honest, mark)| scope.spawn(move || call(honest, mark, goes_on)))
            .collect();
        let given = meanwhile();
        over.store(true, Ordering::Relaxed);
        let times = callers.into_iter().flat_map(|caller| caller.join().expect("right answers").0).collect();
        (Times(times), given)
    })
}

/// What calls of `honest` take without a liar, told for people: alone, beside a thread that only computes, and beside another honest client that floods the server.
pub fn reference(honest: &[ProbeClient; 2], other: &ProbeClient) -> String {
    const ROUNDS: u32 = 100;
    let alone = std::thread::scope(|scope| {
        let callers: Vec<_> = honest
            .iter()
            .zip(MARKS)
            .map(|(honest, mark)| scope.spawn(move || call(honest, mark, |rounds| rounds < ROUNDS)))
            .collect();
        callers.into_iter().flat_map(|caller| caller.join().expect("right answers").0).collect()
    });
    let (computed, _) = beside(honest, || {
        (0..100_000 * ROUNDS).for_each(|n| _ = std::hint::black_box(n));
    });
    let (flooded, _) = beside(honest, || {
        (0..20 * ROUNDS).for_each(|_| other.null().expect("an answer"));
    });
    format!(
        "  alone: {}\n  beside a thread that computes: {}\n  beside an honest client that floods: {}",
        Times(alone).told(),
        computed.told(),
        flooded.told()
    )
}
