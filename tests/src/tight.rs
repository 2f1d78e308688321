//! An interface with small A-stacks, which expects few concurrent calls.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use crate::until;
use std::sync::atomic::{AtomicU32, Ordering};
use underpass::{CallError, Wire, thread};

/// Why there is no result, in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum Trying {
    /// There are too many concurrent calls.
    Overloaded,
    /// The procedure panicked.
    Panicked,
    /// Any other reason.
    Other,
}

impl From<CallError> for Trying {
    fn from(e: CallError) -> Self {
        match e {
            CallError::Overloaded => Self::Overloaded,
            CallError::Panicked(why) if why.len() == 1000 => Self::Panicked,
            _ => Self::Other,
        }
    }
}

/// The interface that the A-stack tests call.
#[underpass::interface(calls = 2)]
pub trait Tight {
    /// Adds up 200 bytes.
    fn sum(&self, numbers: [u64; 25]) -> Result<u64, Trying>;
    /// Waits until `others` calls are in progress here.
    fn meet(&self, others: u32) -> Result<(), Trying>;
    /// Panics with a message that is longer than an A-stack of this interface.
    fn panic(&self) -> Result<(), Trying>;
}

/// The implementation of [`Tight`].
#[derive(Debug, Default)]
pub struct Gathering {
    met: AtomicU32,
}

impl Tight for Gathering {
    fn sum(&self, numbers: [u64; 25]) -> Result<u64, Trying> {
        Ok(numbers.iter().sum())
    }

    fn meet(&self, others: u32) -> Result<(), Trying> {
        self.met.fetch_add(1, Ordering::SeqCst);
        until("the others", || {
            thread::yield_now();
            (self.met.load(Ordering::SeqCst) >= others).then_some(())
        });
        Ok(())
    }

    fn panic(&self) -> Result<(), Trying> {
        panic!("{}", "!".repeat(1000));
    }
}
