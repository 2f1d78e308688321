//! How many processors this domain uses, and what they do.

use underpass_processor::Pool;

pub use underpass_processor::ActivationCounts;

/// Has this domain run `count` activations at once at the most, instead of as many as it may use
/// CPUs.
///
/// With 0 it serves calls on processors that its callers donate, and on no others (URPC's S = 0): a
/// call then runs where its caller has stopped. Threads that no call runs still have one processor.
///
/// What it may use follows from the affinity of its process and the quota of its control groups,
/// and is read again while it runs. `$UNDERPASS_PROCESSORS` says the same as this, and this takes
/// precedence. It may be changed at any time: who runs beyond the new maximum finishes its time
/// slice.
///
/// Returns whether this came before the first thread was spawned or interface exported.
///
/// # Examples
/// ```
/// assert!(underpass::processors::set(1));
/// underpass::thread::spawn(|| ()).join().unwrap();
/// assert_eq!(underpass::processors::activation_counts().unwrap().maximum, 1);
/// ```
pub fn set(count: u32) -> bool {
    Pool::configure(count)
}

/// What the activations of this domain do at this moment; `None` before the first thread was
/// spawned or interface exported.
///
/// # Examples
/// ```
/// use underpass::{processors, thread};
///
/// assert_eq!(processors::activation_counts(), None);
/// let seen = thread::spawn(|| processors::activation_counts().unwrap()).join().unwrap();
/// assert!(1 <= seen.running && seen.running <= seen.maximum);
/// ```
pub fn activation_counts() -> Option<ActivationCounts> {
    Some(Pool::get()?.activation_counts())
}
