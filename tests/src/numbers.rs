//! Pseudo-random numbers, which are the same for the same seed.

/// xorshift64*.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// The generator of `seed`.
    pub fn of(seed: u64) -> Self {
        // Similar seeds must give unrelated numbers, and the state must not be 0.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The next number below `most`, which is not 0.
    pub fn below(&mut self, most: usize) -> usize {
        (self.draw() >> 32) as usize % most
    }

    /// One of `these`, which is not empty.
    pub fn among<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }
}
