//! Recognizes the error of a wait that was cancelled.

use std::io;
use underpass_threads::Cancelled;

/// Whether an operation failed because its thread was cancelled. Such an error is of kind
/// [`Other`](io::ErrorKind::Other), and its source is [`Cancelled`].
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
