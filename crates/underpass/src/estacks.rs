//! The stacks on which this domain runs the calls that come (LRPC's E-stacks): how many calls may
//! hold, and what there is of them.
//!
//! A call takes no stack while it waits in its A-stack. When its turn comes it runs on that of the
//! thread that takes calls, and keeps it only if its handler waits. So a server with ten thousand
//! clients has as many stacks as calls wait in their handlers at once, up to the bound; and of
//! those that are not needed any more it keeps a few for the next ones and gives the others back to
//! the system, within seconds or as soon as memory is short.
//!
//! How large they are, [`Service::stack_size`](crate::Service::stack_size) says.

pub use underpass_threads::EStacks;

/// Begins no more calls once `bound` of them, at least one, wait in their handlers: each holds an
/// E-stack. 16,384 if nothing is said.
///
/// Calls that come then wait in their bindings' slots until one ends, also those whose handlers
/// would not wait. So handlers that wait for other calls to this domain, those that come back from
/// where they call themselves among them, need a bound that leaves room for these.
///
/// It may be changed at any time.
///
/// # Examples
/// ```
/// underpass::estacks::set(500);
/// assert_eq!(underpass::estacks::counts().bound, 500);
/// ```
pub fn set(bound: usize) {
    underpass_threads::bound_e_stacks(bound);
}

/// Counts them. The figures may be of moments that lie a little apart.
///
/// # Examples
/// ```
/// let now = underpass::estacks::counts();
/// assert_eq!((now.associated, now.shortages), (0, 0));
/// ```
pub fn counts() -> EStacks {
    underpass_threads::e_stacks()
}
