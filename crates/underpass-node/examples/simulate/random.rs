//! Numbers that look random, and are the same in each run.

/// A generator by Marsaglia (xorshift).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(31) % end.max(1)
    }

    /// A number from `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// A time with this mean, distributed exponentially.
    pub fn time(&mut self, mean: u64) -> u64 {
        let even = (self.below(1 << 30) + 1) as f64 / (1_u64 << 30) as f64;
        (-even.ln() * mean as f64) as u64 + 1
    }
}
