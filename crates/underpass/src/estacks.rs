//! The stacks on which this domain runs incoming calls (LRPC's E-stacks): their maximum, and how
//! many there are.
//!
//! A call takes no stack while it waits in its A-stack. When it begins, it runs on the stack of the
//! thread that takes calls, and keeps that stack only if its handler waits. So a server with ten
//! thousand clients has as many stacks as calls wait in their handlers at once, up to the maximum.
//! It keeps a few unused stacks for the next calls. It gives the others back to the system within
//! seconds, or as soon as memory is short.
//!
//! [`Service::stack_size`](crate::Service::stack_size) sets their size.

pub use underpass_threads::EStacks;

/// Sets how many calls may wait in their handlers at once, each with its E-stack. At least 1;
/// 16,384 by default. While so many wait, the domain begins no call.
///
/// Calls that come then wait in their bindings' slots until a call ends, even if their handlers
/// would not wait. So if handlers wait for other calls to this domain, for example for a call back,
/// the maximum must leave space for these calls.
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

/// Counts the E-stacks. The figures may be of slightly different moments.
///
/// # Examples
/// ```
/// let now = underpass::estacks::counts();
/// assert_eq!((now.associated, now.shortages), (0, 0));
/// ```
pub fn counts() -> EStacks {
    underpass_threads::e_stacks()
}
