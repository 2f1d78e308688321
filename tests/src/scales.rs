//! Arguments of each kind, for tests that count how often they are copied, and change them
//! meanwhile.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use crate::until;
use std::sync::atomic::{AtomicBool, Ordering};
use underpass::{CallError, Copied, Shared, thread};

/// What the tests of copies call.
#[underpass::interface]
pub trait Scales {
    /// The sum of bytes that are lent.
    fn lent(&self, bytes: &[u8]) -> Result<u64, CallError>;
    /// The sum of bytes that the server owns, and changes.
    fn owned(&self, bytes: Vec<u8>) -> Result<u64, CallError>;
    /// The sum of bytes that are read where they lie.
    fn shared(&self, #[underpass(shared)] bytes: Shared<'_>) -> Result<u64, CallError>;
    /// The sum of bytes that are copied by the handler, which could have done without.
    fn taken(&self, #[underpass(shared)] bytes: Shared<'_>) -> Result<u64, CallError>;
    /// So many bytes.
    fn given(&self, len: u32) -> Result<Vec<u8>, CallError>;
    /// A small argument and a small result.
    fn small(&self, number: u64) -> Result<u64, CallError>;
    /// What this process has copied into channels and out of them; nothing where that is not
    /// counted.
    fn copied(&self) -> Result<Option<(u64, u64)>, CallError>;
    /// The sums of both, and again after the next `go`.
    fn twice(
        &self,
        kept: &[u8],
        #[underpass(shared)] shared: Shared<'_>,
    ) -> Result<[(u64, u64); 2], CallError>;
    /// Whether `twice` waits.
    fn waits(&self) -> Result<bool, CallError>;
    /// Has it go on.
    fn go(&self) -> Result<(), CallError>;
}

/// Stands behind [`Scales`].
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
