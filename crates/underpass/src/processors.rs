//! How many processors this domain uses, and what they do.

use underpass_processor::Pool;

pub use underpass_processor::ActivationCounts;

/// Makes this domain run at most `count` activations at once. Without it, it runs one for each CPU
/// that it may use.
///
/// With 0 it serves calls only on processors that its callers donate (URPC's S = 0): a call then
/// runs where its caller has stopped. Threads outside of calls still have one processor.
///
/// The CPUs that it may use follow from the affinity of its process and the quota of its control
/// groups, which it reads again while it runs. `$UNDERPASS_PROCESSORS` sets the same maximum, and
/// this function takes precedence. It may be called at any time: an activation beyond the new
/// maximum finishes its time slice first.
///
/// Returns `true` if it was called before the first thread was spawned and the first interface
/// exported.
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

/// Says that the program wants so many processors in all from now on, beside what its threads need.
/// With 0, which is the beginning, its threads alone say what is needed.
///
/// This matters only where an activation server divides the processors of the machine (`underpass
/// node`; OThreads, section 3.3). Without one, the domain has its [maximum](set) all the time. What
/// a program wants and does not use counts against it.
///
/// # Examples
/// ```
/// use underpass::processors;
/// processors::want(4);
/// // Here the program starts threads that share one computation.
/// processors::want(0);
/// ```
pub fn want(count: u32) {
    Pool::claim(count);
}

/// How many processors this domain may run on at this moment: what it holds by the count of the
/// activation server, or its [maximum](set) if there is none. 0 before the first thread is spawned
/// or the first interface exported.
///
/// # Examples
/// ```
/// use underpass::{processors, thread};
/// assert!(thread::spawn(processors::granted).join().unwrap() >= 1);
/// ```
pub fn granted() -> usize {
    Pool::get().map_or(0, Pool::maximum)
}

/// What the activations of this domain do at this moment. `None` before the first thread is spawned
/// or the first interface exported.
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
