//! Numbers that look random, and are the same again for the same seed.

/// xorshift64*.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// Those of `seed`.
    pub fn of(seed: u64) -> Self {
        // Seeds that differ little are to have nothing in common, and 0 is none.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next one.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The next, below `most`, which is not 0.
    pub fn below(&mut self, most: usize) -> usize {
        (self.draw() >> 32) as usize % most
    }

    /// One of `these`, of which there are some.
    pub fn among<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }
}
