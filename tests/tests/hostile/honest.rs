//! What honest clients pay for a liar beside them.
//!
//! That is what their calls take beside it, of what they take beside somebody honest who is as
//! busy: who shares a processor waits for its turn, whatever the other says.

use std::fmt;
use std::time::{Duration, Instant};

/// The liar and who is compared with it take turns so often: a machine that is slower for a while
/// is so for each.
pub const TURNS: u32 = 10;

/// How long calls took, in ns.
#[derive(Debug, Default)]
struct Times(Vec<u64>);

impl Times {
    /// That below which so many of them are, of one, in µs. They are in order.
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
    /// Prints what was measured. Asserts that the honest clients made at least a twentieth of the
    /// calls beside the liar that they made, in as much time, beside somebody honest.
    ///
    /// This bounds what a liar can take from others, and allows for a machine that is busy with
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

/// For people: a line each, and what the liar cost.
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

/// A turn of somebody honest who is as busy as the liar: as long as its own, with as many bindings.
#[derive(Debug)]
pub struct Turn {
    lasts: Duration,
    bindings: u32,
}

impl Turn {
    /// Has `each` keep a binding, one after the other, as long as what it is given says so.
    pub fn spend(&self, mut each: impl FnMut(&dyn Fn() -> bool)) {
        let ends = Instant::now() + self.lasts;
        for left in (1..=self.bindings).rev() {
            let now = Instant::now();
            let ends = now + ends.saturating_duration_since(now) / left;
            each(&|| Instant::now() < ends);
        }
    }
}

/// What the calls of honest clients take, as `beside` has them tell, while somebody does `lie` in
/// [`TURNS`] turns, each of which gives how many bindings it had; while somebody is `busy` as long,
/// and while nobody is.
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
