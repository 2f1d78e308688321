//! How long its caller wants the call that a handler is at: for the handler to see, and for the calls that it makes in turn.
//!
//! Only a bounded call (`client/bounded.rs`) has such a place. Others cost one look at a flag of this domain, for each call that it makes.

use crate::server::ServerEnd;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass_os::clock;
use underpass_seam::atomic::{AtomicBool, Ordering};

/// Whether a call with a deadline ever came to this domain: else there is nothing to inherit, and nobody looks for it.
static INHERITS: AtomicBool = AtomicBool::new(false);

underpass_threads::thread_local! {
    /// The bounded call that the thread is at.
    static CURRENT: RefCell<Cancellation> = RefCell::new(Cancellation::default());
}

/// How long somebody wants what the holder does: the view that a handler has of its caller's deadline, and of the caller's giving up. It can be passed to
/// other threads.
///
/// Made by [`cancellation`]. That of a call without a deadline, or of no call at all, never says that it is cancelled.
#[derive(Clone, Default)]
pub struct Cancellation {
    call: Option<Arc<Call>>,
}

/// A bounded call that has come.
struct Call {
    end: Arc<ServerEnd>,
    slot: u16,
    /// As the client said when the call came; what it says later changes nothing.
    deadline_ns: Option<u64>,
    /// It has ended: the slot's word is another's.
    over: AtomicBool,
}

impl Call {
    fn is_given_up(&self) -> bool {
        let given_up = self.end.is_closed() || self.end.channel().wanted(self.slot).ask().is_none();
        // SYNC with `over` store in `Serving::drop`: what is read above was this call's.
        given_up && !self.over.load(Ordering::Acquire)
    }
}

impl Cancellation {
    /// Whether nobody wants the call's result any more: its deadline has passed, its caller has given it up or has died. Some ns to ask, and no system call.
    ///
    /// What the caller says is the caller's word: it can deceive nobody but itself.
    pub fn is_cancelled(&self) -> bool {
        let passed = || self.deadline_ns().is_some_and(|deadline| deadline <= clock::now_ns());
        self.call.as_ref().is_some_and(|call| call.is_given_up() || passed())
    }

    /// The caller's deadline, if it has one.
    pub fn deadline(&self) -> Option<Instant> {
        let left = self.deadline_ns()?.saturating_sub(clock::now_ns());
        Instant::now().checked_add(Duration::from_nanos(left))
    }

    /// The call that it is about is to have its reply: the slot's word will be another's.
    pub(crate) fn end(&self) {
        if let Some(call) = &self.call {
            // SYNC with `over` load in `is_given_up`.
            call.over.store(true, Ordering::Release);
        }
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.call.as_ref()?.deadline_ns
    }

    /// Runs `work` for this call: what it asks by [`is_cancelled`] and [`deadline`] is about it, and the calls that it makes inherit its deadline.
    /// For threads that a handler has work for.
    pub fn scope<R>(&self, work: impl FnOnce() -> R) -> R {
        let _within = enter(self.clone());
        work()
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation")
            .field("deadline", &self.deadline())
            .field("is_cancelled", &self.is_cancelled())
            .finish()
    }
}

/// What the thread was at before, until dropped.
struct Within(Option<Cancellation>);

fn enter(cancellation: Cancellation) -> Within {
    let before = CURRENT.try_with(|current| current.replace(cancellation));
    Within(before.ok())
}

impl Drop for Within {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            let _ = CURRENT.try_with(|current| current.replace(before));
        }
    }
}

/// A handler runs, until dropped.
pub(crate) struct Serving {
    call: Cancellation,
    _within: Within,
}

impl Serving {
    /// The calling thread begins with the bounded call of `slot`.
    pub(crate) fn begin(end: Arc<ServerEnd>, slot: u16, deadline_ns: Option<u64>) -> Self {
        if deadline_ns.is_some() && !INHERITS.load(Ordering::Relaxed) {
            // Relaxed: the thread that has something to inherit is this one, or is told of it by this one.
            INHERITS.store(true, Ordering::Relaxed);
        }
        let call = Arc::new(Call { end, slot, deadline_ns, over: AtomicBool::new(false) });
        let call = Cancellation { call: Some(call) };
        let within = enter(call.clone());
        Self { call, _within: within }
    }

    /// The call goes on elsewhere, where its end is seen to.
    pub(crate) fn hand_over(mut self) {
        self.call = Cancellation::default();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.call.end();
    }
}

/// Whether calls of this domain may have a deadline to inherit.
#[inline(always)]
pub(crate) fn inherits() -> bool {
    INHERITS.load(Ordering::Relaxed)
}

/// The deadline that a call of this thread inherits, in ns.
pub(crate) fn inherited_ns() -> Option<u64> {
    CURRENT.try_with(|current| current.borrow().deadline_ns()).ok().flatten()
}

/// How long the caller wants the call that the calling thread is a handler of. Elsewhere, one that is never cancelled.
///
/// Calls that a handler makes on its own thread inherit its deadline by themselves. A thread that it starts has none, unless the handler passes it this and it
/// works in its [`scope`](Cancellation::scope).
///
/// # Examples
/// ```
/// let here = underpass_rpc::cancellation(); // no handler
/// assert!(!here.is_cancelled() && here.deadline().is_none());
/// let there = std::thread::spawn(move || here.scope(underpass_rpc::is_cancelled));
/// assert!(!there.join().unwrap());
/// ```
pub fn cancellation() -> Cancellation {
    CURRENT.try_with(|current| current.borrow().clone()).unwrap_or_default()
}

/// In a handler: whether nobody wants its result any more, because the deadline of its caller has passed, or the caller has given the call up or has died. For a
/// long computation to ask now and then; a handler that does not ask runs on, and its result is discarded.
///
/// Only of a call with a deadline, or one that can be abandoned: of any other it says no.
///
/// # Examples
/// ```
/// fn count(numbers: impl Iterator<Item = u64>) -> Option<u64> {
///     let mut sum = 0;
///     for (n, number) in numbers.enumerate() {
///         if n % 1024 == 0 && underpass_rpc::is_cancelled() {
///             return None;
///         }
///         sum += number;
///     }
///     Some(sum)
/// }
/// assert_eq!(count(0..10_000), Some(49_995_000)); // no handler
/// ```
pub fn is_cancelled() -> bool {
    cancellation().is_cancelled()
}

/// In a handler: until when its caller waits, if it waits for so long only.
///
/// # Examples
/// ```
/// assert_eq!(underpass_rpc::deadline(), None); // no handler
/// ```
pub fn deadline() -> Option<Instant> {
    cancellation().deadline()
}

/// Runs `work` apart from the call that the calling thread is a handler of: calls that it makes do not inherit its deadline. For what must be brought to an end
/// whether the caller waits or not.
///
/// # Examples
/// ```
/// underpass_rpc::detached(|| assert_eq!(underpass_rpc::deadline(), None));
/// ```
pub fn detached<R>(work: impl FnOnce() -> R) -> R {
    Cancellation::default().scope(work)
}
