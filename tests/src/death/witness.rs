//! The interface between the dying processes and their survivors.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use crate::marks::{Mark, Marks};
use underpass::CallError;

/// Leaves a mark of each call.
#[underpass::interface]
pub trait Witness {
    /// Marks that call `id` began, makes `want` bytes from it, and marks that it ended.
    fn testify(&self, id: u64, want: u32, bytes: &[u8]) -> Result<Vec<u8>, CallError>;
}

/// The result of `testify`.
pub fn testimony(id: u64, want: u32, bytes: &[u8]) -> Vec<u8> {
    let seed = bytes.iter().fold(id as u8, |sum, byte| sum.wrapping_add(*byte));
    (0..want).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect()
}

/// A call of this number leaves no mark. The clients that nobody kills use it.
pub const HONEST: u64 = u64::MAX;

/// The implementation of [`Witness`].
#[derive(Debug)]
pub struct Sworn {
    pub marks: Marks,
}

impl Witness for Sworn {
    fn testify(&self, id: u64, want: u32, bytes: &[u8]) -> Result<Vec<u8>, CallError> {
        if id == HONEST {
            return Ok(testimony(id, want, bytes));
        }
        let fresh = self.marks.of(id) == Mark::Nothing;
        self.marks.set(id, if fresh { Mark::Began } else { Mark::Twice });
        let testimony = testimony(id, want, bytes);
        if fresh {
            self.marks.set(id, Mark::Ended);
        }
        Ok(testimony)
    }
}
