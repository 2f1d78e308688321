//! The error of a wait that was cancelled.

use std::error::Error;
use std::fmt;
use std::io;

/// The calling thread was asked to end while it waited.
///
/// As an [`io::Error`] it is the source of one of kind [`Other`](io::ErrorKind::Other), since `std`
/// takes [`Interrupted`](io::ErrorKind::Interrupted) as a reason to try again, for example in
/// `read_exact`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the wait ended because the thread was cancelled; let the thread end")
    }
}

impl Error for Cancelled {}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Cancelled> for io::Error {
    fn from(cancelled: Cancelled) -> Self {
        Self::other(cancelled)
    }
}
