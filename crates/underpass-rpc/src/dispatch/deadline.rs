//! How long its caller wants the call that a handler is at: for the handler to see, and for the
//! calls that it makes in turn.
//!
//! A bounded call (`client/bounded.rs`) is noted where its thread finds it, as is what a thread
//! works for that says so; who looks for any other finds it by the thread that runs it. While
//! nothing of that kind was ever seen, a call that this domain makes costs one look at a flag for
//! it.

use crate::call::abandon::Abandon;
use crate::dispatch::server::{ServerEnd, served};
use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use underpass_os::clock;
use underpass_seam::atomic::{Ordering, fence};
use underpass_threads::{apart, finish, let_calls_end, me};

underpass_threads::thread_local! {
    /// The bounded call that the thread runs, or what it works for.
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// What a thread is at.
#[derive(Clone)]
struct Current {
    wanted: Cancellation,
    /// It works for it, and does not run it: calls that it makes are freed by themselves.
    works: bool,
}

/// How long somebody wants what the holder does: the view that a handler has of its caller's
/// deadline, and of the caller's giving up. It can be passed to other threads.
///
/// Made by [`cancellation`]. That of no call at all never says that it is cancelled.
#[derive(Clone, Default)]
pub struct Cancellation {
    call: Option<Arc<Call>>,
}

/// A call that has come.
struct Call {
    end: Arc<ServerEnd>,
    slot: u16,
    /// How many calls over the slot had ended before it.
    number: u64,
    /// As the client of a bounded one said when the call came; what it says later changes nothing.
    deadline_ns: Option<u64>,
    /// Frees what threads call that work for it, once there is such.
    nested: OnceLock<Abandon>,
}

impl Call {
    fn new(end: Arc<ServerEnd>, slot: u16, deadline_ns: Option<u64>) -> Self {
        Self { number: end.calls_ended(slot), end, slot, deadline_ns, nested: OnceLock::new() }
    }

    /// The one that the calling thread runs.
    fn of_thread() -> Option<Self> {
        let end = served()?;
        let slot = end.slot_of(me().id())?;
        Some(Self::new(end, slot, None))
    }

    fn is_given_up(&self) -> bool {
        let given_up =
            self.end.is_closed() || self.end.channel().cancel_word(self.slot).read().is_cancelled();
        // SYNC with the store in `CancelWord::cancel`: had this call ended before that, its end is
        // seen, and the word was another's.
        fence(Ordering::Acquire);
        given_up && self.end.calls_ended(self.slot) == self.number
    }

    /// What frees calls that are made for it.
    fn nested(&self) -> &Abandon {
        let nested = self.nested.get_or_init(|| {
            let nested = Abandon::new();
            self.end.nests(self.slot, self.number, nested.clone());
            nested
        });
        // After `nests`, as the client says so first and is heard then.
        if self.end.channel().cancel_word(self.slot).read().is_cancelled() && self.is_given_up() {
            nested.abandon();
        }
        nested
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(nested) = self.nested.get() {
            self.end.nests_no_more(nested);
        }
    }
}

impl Cancellation {
    /// Whether nobody wants the call's result any more: its deadline has passed, its caller has
    /// given it up or has died. Some ns to ask, and no system call.
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

    /// That of the call of `slot`, which the calling thread runs.
    pub(crate) fn of_call(end: &Arc<ServerEnd>, slot: u16) -> Self {
        current()
            .filter(|current| !current.works)
            .map(|current| current.wanted)
            .unwrap_or_else(|| Self { call: Some(Arc::new(Call::new(end.clone(), slot, None))) })
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.call.as_ref()?.deadline_ns
    }

    /// Runs `work` for this call: what it asks by [`is_cancelled`] and [`deadline`] is about it,
    /// and the calls that it makes inherit its deadline, and end with
    /// [`CallError::Cancelled`](crate::CallError::Cancelled) when its caller gives it up. For
    /// threads that a handler has work for.
    pub fn scope<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.call.is_some() {
            let_calls_end();
        }
        let _within = enter(self.clone(), true);
        apart(work)
    }

    /// As [`scope`](Self::scope), for what an executor polls: the tasks' calls that it makes.
    pub(crate) fn poll<R>(&self, poll: impl FnOnce() -> R) -> R {
        let _within = enter(self.clone(), true);
        poll()
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
pub(crate) struct Within(Option<Option<Current>>);

fn enter(wanted: Cancellation, works: bool) -> Within {
    let before = CURRENT.try_with(|current| current.replace(Some(Current { wanted, works })));
    Within(before.ok())
}

impl Drop for Within {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            let _ = CURRENT.try_with(|current| current.replace(before));
        }
    }
}

fn current() -> Option<Current> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// The calling thread begins with the bounded call of `slot`; it runs until what is returned is
/// dropped.
pub(crate) fn begin(end: Arc<ServerEnd>, slot: u16, deadline_ns: Option<u64>) -> Within {
    if deadline_ns.is_some() {
        let_calls_end();
    }
    enter(Cancellation { call: Some(Arc::new(Call::new(end, slot, deadline_ns))) }, false)
}

/// What bounds a call that the calling thread, or task, makes on behalf of another.
#[derive(Default)]
pub(crate) struct Inherited {
    pub(crate) deadline_ns: Option<u64>,
    /// What it is made for, other than by the thread that runs that.
    works_for: Option<Arc<Call>>,
}

impl Inherited {
    pub(crate) fn of_caller() -> Self {
        let Some(current) = current() else { return Self::default() };
        let deadline_ns = current.wanted.deadline_ns();
        Self { deadline_ns, works_for: current.wanted.call.filter(|_| current.works) }
    }

    /// What frees it.
    pub(crate) fn freed_by(&self) -> Option<&Abandon> {
        self.works_for.as_deref().map(Call::nested)
    }
}

/// How long the caller wants the call that the calling thread is a handler of. Elsewhere, one that
/// is never cancelled.
///
/// Calls that a handler makes on its own thread, or awaits as an async handler, inherit its
/// deadline by themselves, and end with [`CallError::Cancelled`](crate::CallError::Cancelled) when
/// its caller gives it up; so on along a chain of domains. A thread that it starts has neither,
/// unless the handler passes it this and it works in its [`scope`](Cancellation::scope). A caller
/// that has died is seen here and ends nothing: its handlers run on.
///
/// # Examples
/// ```
/// let here = underpass_rpc::cancellation(); // no handler
/// assert!(!here.is_cancelled() && here.deadline().is_none());
/// let there = std::thread::spawn(move || here.scope(underpass_rpc::is_cancelled));
/// assert!(!there.join().unwrap());
/// ```
pub fn cancellation() -> Cancellation {
    match current() {
        Some(current) => current.wanted,
        None => Cancellation { call: Call::of_thread().map(Arc::new) },
    }
}

/// In a handler: whether nobody wants its result any more, because the deadline of its caller has
/// passed, or the caller has given the call up or has died. For a long computation to ask now and
/// then; a handler that does not ask runs on, and its result is discarded.
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
    match current() {
        Some(current) => current.wanted.is_cancelled(),
        None => Call::of_thread().is_some_and(|call| call.is_given_up()),
    }
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

/// Runs `work` apart from the call that the calling thread is a handler of, and from the thread's
/// own cancellation: calls that it makes do not inherit the deadline, and neither the caller's
/// giving up nor [`Thread::cancel`](underpass_threads::Thread::cancel) ends them. For what must be
/// brought to an end whether anybody waits or not.
///
/// # Examples
/// ```
/// underpass_rpc::detached(|| assert_eq!(underpass_rpc::deadline(), None));
/// ```
pub fn detached<R>(work: impl FnOnce() -> R) -> R {
    finish(|| Cancellation::default().scope(work))
}
