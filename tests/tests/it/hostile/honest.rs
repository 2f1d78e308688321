//! The cost of a liar for honest clients beside it.
//!
//! The cost is the time of their calls beside the liar, relative to the time beside an honest
//! process that is as busy. A process that shares a processor has to wait for its turn in any case.

use std::fmt;
use std::time::{Duration, Instant};

/// The number of alternating turns of the liar and of the process that it is compared with. If the
/// machine is slower for a while, it is so for both.
pub const TURNS: u32 = 10;

/// How long the calls took, in ns.
#[derive(Debug, Default)]
struct Times(Vec<u64>);

impl Times {
    /// The value, in µs, below which the share `of` of the calls lies. The calls are sorted.
    fn at(&self, of: f64) -> f64 {
        let index = (self.0.len() as f64 * of) as usize;
        self.0.get(index).map_or(f64::NAN, |&ns| ns as f64 / 1e3)
    }
}

/// How long the calls of honest clients took.
#[derive(Debug, Default)]
pub struct Compared {
    alone: Times,
    beside_the_busy: Times,
    beside_the_liar: Times,
}

impl Compared {
    /// Prints the measurements. Asserts that in as much time, the honest clients made at least a
    /// twentieth of the calls beside the liar that they made beside an honest process.
    ///
    /// This bounds what a liar can take from others. It allows for a machine that is busy with
    /// something else in one of the turns.
    pub fn assert_served(&self, liar: &str) {
        println!("{liar}; the calls of two honest ones\n{self}");
        let [beside_the_liar, beside_the_busy] =
            [&self.beside_the_liar, &self.beside_the_busy].map(|times| times.0.len());
        assert!(
            beside_the_busy > 0 && beside_the_liar * 20 >= beside_the_busy,
            "{liar} starves others: {self}"
        );
    }
}

/// For people: a line for each, and the cost of the liar.
impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { alone, beside_the_busy: busy, beside_the_liar: liar } = self;
        let who = ["alone", "beside somebody honest who is as busy as the liar", "beside the liar"];
        for (who, times) in who.into_iter().zip([alone, busy, liar]) {
            let (calls, p50, p99) = (times.0.len(), times.at(0.5), times.at(0.99));
            writeln!(f, "  {who}: {calls} calls of 40 bytes, p50 {p50:.1} us, p99 {p99:.1} us")?;
        }
        let lies = [0.5, 0.99].map(|of| liar.at(of) / busy.at(of));
        write!(f, "  the lies: p50 x {:.2}, p99 x {:.2}", lies[0], lies[1])
    }
}

/// A turn of an honest process that is as busy as the liar: as long, and with as many bindings.
#[derive(Debug)]
pub struct Turn {
    lasts: Duration,
    bindings: u32,
}

impl Turn {
    /// Makes `each` keep one binding after another, for as long as its argument says.
    pub fn spend(&self, mut each: impl FnMut(&dyn Fn() -> bool)) {
        let ends = Instant::now() + self.lasts;
        for left in (1..=self.bindings).rev() {
            let now = Instant::now();
            let ends = now + ends.saturating_duration_since(now) / left;
            each(&|| Instant::now() < ends);
        }
    }
}

/// Compares the time of the honest clients' calls, as `beside` measures it: in [`TURNS`] turns
/// while a liar does `lie`, for as long while a process is `busy`, and for as long while there is
/// neither. A turn of `lie` returns how many bindings it had.
pub fn compare(
    mut beside: impl FnMut(&mut dyn FnMut()) -> Vec<u64>,
    mut lie: impl FnMut() -> u32,
    mut busy: impl FnMut(&Turn),
) -> Compared {
    let mut compared = Compared::default();
    for _ in 0..TURNS {
        let (begun, mut bindings) = (Instant::now(), 0);
        compared.beside_the_liar.0.extend(beside(&mut || bindings = lie()));
        let lasts = begun.elapsed();
        let turn = Turn { lasts, bindings };
        compared.beside_the_busy.0.extend(beside(&mut || busy(&turn)));
        compared.alone.0.extend(beside(&mut || std::thread::sleep(lasts)));
    }
    for times in [&mut compared.alone, &mut compared.beside_the_busy, &mut compared.beside_the_liar] {
        times.0.sort_unstable();
    }
    compared
}
