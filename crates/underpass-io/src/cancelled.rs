//! The error of a wait that was cancelled.

use std::fmt;
use std::io;

/// The calling thread was asked to end while it waited.
///
/// It is the source of an [`io::Error`] of kind [`Other`](io::ErrorKind::Other), since `std` takes
/// [`Interrupted`](io::ErrorKind::Interrupted) as a reason to try again, for example in
/// `read_exact`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thread was cancelled while it waited for I/O; let it end")
    }
}

impl std::error::Error for Cancelled {}

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

/// Whether an operation failed because its thread was cancelled.
///
/// # Examples
/// ```
/// use underpass::io::{Cancelled, is_cancelled};
///
/// assert!(is_cancelled(&std::io::Error::from(Cancelled)));
/// assert!(!is_cancelled(&std::io::ErrorKind::TimedOut.into()));
/// ```
pub fn is_cancelled(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|source| source.is::<Cancelled>())
}
