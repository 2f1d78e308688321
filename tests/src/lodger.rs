//! A server whose threads outlast the calls that start them.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use underpass::{CallError, counters, thread};

/// The interface that the test of returned processors calls.
#[underpass::interface]
pub trait Lodger {
    /// Starts a thread that is ready until its domain has returned a processor. The call itself
    /// returns at once.
    fn stay(&self) -> Result<(), CallError>;
    /// How many of these threads have ended.
    fn ended(&self) -> Result<u32, CallError>;
}

/// The implementation of [`Lodger`].
#[derive(Debug, Default)]
pub struct Lodgings {
    ended: Arc<AtomicU32>,
}

impl Lodger for Lodgings {
    fn stay(&self) -> Result<(), CallError> {
        let (returned, ended) = (counters().donations_returned, self.ended.clone());
        drop(thread::spawn(move || {
            while counters().donations_returned == returned {
                thread::yield_now();
            }
            ended.fetch_add(1, Ordering::SeqCst);
        }));
        Ok(())
    }

    fn ended(&self) -> Result<u32, CallError> {
        Ok(self.ended.load(Ordering::SeqCst))
    }
}
