//! An interface with arguments of each kind. Tests count how often they are copied, and change them
//! during a call.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use crate::until;
use std::sync::atomic::{AtomicBool, Ordering};
use underpass::{CallError, Copied, Shared, thread};

/// The interface that the copy tests call.
#[underpass::interface]
pub trait Scales {
    /// The sum of bytes that the client lends.
    fn lent(&self, bytes: &[u8]) -> Result<u64, CallError>;
    /// The sum of bytes that the server owns and changes.
    fn owned(&self, bytes: Vec<u8>) -> Result<u64, CallError>;
    /// The sum of bytes that the server reads in place.
    fn shared(&self, #[underpass(shared)] bytes: Shared<'_>) -> Result<u64, CallError>;
    /// The sum of bytes that the handler copies, although it need not.
    fn taken(&self, #[underpass(shared)] bytes: Shared<'_>) -> Result<u64, CallError>;
    /// Returns `len` bytes.
    fn given(&self, len: u32) -> Result<Vec<u8>, CallError>;
    /// Takes a small argument and returns a small result.
    fn small(&self, number: u64) -> Result<u64, CallError>;
    /// The bytes that this process has copied into channels and out of them. `None` where that is
    /// not counted.
    fn copied(&self) -> Result<Option<(u64, u64)>, CallError>;
    /// Sums both arguments, waits for the next `go`, and sums them again.
    fn twice(
        &self,
        kept: &[u8],
        #[underpass(shared)] shared: Shared<'_>,
    ) -> Result<[(u64, u64); 2], CallError>;
    /// Whether `twice` is waiting.
    fn waits(&self) -> Result<bool, CallError>;
    /// Lets `twice` go on.
    fn go(&self) -> Result<(), CallError>;
}

/// The implementation of [`Scales`].
#[derive(Debug, Default)]
pub struct Weigher {
    waits: AtomicBool,
    goes: AtomicBool,
}

fn sum(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.map(u64::from).sum()
}

impl Scales for Weigher {
    fn lent(&self, bytes: &[u8]) -> Result<u64, CallError> {
        Ok(sum(bytes.iter().copied()))
    }

    fn owned(&self, mut bytes: Vec<u8>) -> Result<u64, CallError> {
        bytes.reverse();
        Ok(sum(bytes.into_iter()))
    }

    fn shared(&self, bytes: Shared<'_>) -> Result<u64, CallError> {
        Ok(sum(bytes.iter()))
    }

    fn taken(&self, bytes: Shared<'_>) -> Result<u64, CallError> {
        self.lent(&bytes.to_vec())
    }

    fn given(&self, len: u32) -> Result<Vec<u8>, CallError> {
        Ok(vec![1; len as usize])
    }

    fn small(&self, number: u64) -> Result<u64, CallError> {
        Ok(number)
    }

    fn copied(&self) -> Result<Option<(u64, u64)>, CallError> {
        Ok(underpass::copied().map(|Copied { into, out_of }| (into, out_of)))
    }

    fn twice(&self, kept: &[u8], shared: Shared<'_>) -> Result<[(u64, u64); 2], CallError> {
        let sums = || (sum(kept.iter().copied()), sum(shared.iter()));
        let before = sums();
        self.waits.store(true, Ordering::SeqCst);
        until("somebody to say go", || {
            thread::yield_now();
            self.goes.load(Ordering::SeqCst).then_some(())
        });
        Ok([before, sums()])
    }

    fn waits(&self) -> Result<bool, CallError> {
        Ok(self.waits.load(Ordering::SeqCst))
    }

    fn go(&self) -> Result<(), CallError> {
        self.goes.store(true, Ordering::SeqCst);
        Ok(())
    }
}
