//! An object of tests. Its versions show whether they are whole.

/// Numbers that follow from the number of the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Shareable)]
#[repr(C)]
pub struct Sheet {
    /// All the same.
    pub numbers: [u64; 64],
    /// Whether they are even.
    pub even: bool,
    /// Nothing.
    pub rest: [u8; 7],
}

impl Sheet {
    /// What version `number` is.
    pub fn of(number: u64) -> Self {
        Self { numbers: [number; 64], even: number.is_multiple_of(2), rest: [0; 7] }
    }

    /// Makes the next version of this one.
    pub fn turn(&mut self) {
        *self = Self::of(self.numbers[0] + 1);
    }
}

/// An operation at interrupt level: adds its first argument to a total, and returns both.
pub const ADD: u64 = 1;
/// An operation whose handler panics.
pub const PANIC: u64 = 2;
