//! How long its caller wants the call that a handler serves. The handler can ask, and the calls
//! that it makes in turn inherit the deadline.
//!
//! A bounded call (`call/client/bounded.rs`) is noted in a thread-local, and so is a call for which
//! a thread says that it works. Any other call is found by the thread that runs it. Until the first
//! call of that kind has been seen, each call that this domain makes pays one load of a flag for
//! it.

use crate::binding::peer::caller;
use crate::call::abandon::Abandon;
use crate::control::timer::{self, ClerkTimer};
use crate::dispatch::late::AsyncCall;
use crate::dispatch::late::signal::{Signal, SignalWatch};
use crate::dispatch::section_numbers::{MadeBy, SectionNumbers};
use crate::dispatch::server::{ServerEnd, Told, served};
use std::cell::RefCell;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use underpass_os::clock;
use underpass_seam::atomic::{AtomicBool, Ordering, fence};
use underpass_threads::{apart, finish, let_calls_end, me};

underpass_threads::thread_local! {
    /// The bounded call that the thread runs, or for which it works.
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// Whether this domain has ever served a bounded call.
static ANY_BOUNDED: AtomicBool = AtomicBool::new(false);

/// The call that a thread serves.
#[derive(Clone)]
struct Current {
    wanted: Cancellation,
    /// The thread works for the call, but does not run it: the calls that it makes are freed one by
    /// one.
    works: bool,
}

/// How long the result of some work is wanted: what a handler knows of its caller's deadline, and
/// whether the caller has given up. It can be passed to other threads.
///
/// Made by [`cancellation`]. Outside of calls it never says that it is cancelled.
#[derive(Clone, Default)]
pub struct Cancellation {
    call: Option<Arc<Call>>,
    /// What calls carry that are made on behalf of this one.
    numbers: SectionNumbers,
}

/// A call that has come.
struct Call {
    end: Arc<ServerEnd>,
    slot: u16,
    /// How many calls over the slot had ended before it.
    number: u64,
    /// The deadline of a bounded call, as the client said when the call came. What the client
    /// writes later changes nothing.
    deadline_ns: Option<u64>,
    /// Frees the calls that threads make on behalf of this one. Made with the first of them.
    nested: OnceLock<Abandon>,
    /// Of a call that an executor runs: what its handler shares with the end.
    asynchronous: OnceLock<Arc<AsyncCall>>,
    /// Of any other call: wakes the tasks that wait until nobody wants it. Made with the first of
    /// them.
    signal: OnceLock<Arc<Signal>>,
}

impl Call {
    fn new(end: Arc<ServerEnd>, slot: u16, deadline_ns: Option<u64>) -> Self {
        let number = end.calls_ended(slot);
        let (nested, asynchronous, signal) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { number, end, slot, deadline_ns, nested, asynchronous, signal }
    }

    /// The one that an executor runs over `end`, or that is replied to later.
    fn of_async(end: Arc<ServerEnd>, call: &Arc<AsyncCall>) -> Self {
        let (slot, number) = call.origin();
        let (nested, asynchronous, signal) = (OnceLock::new(), OnceLock::from(call.clone()), OnceLock::new());
        Self { number, end, slot, deadline_ns: None, nested, asynchronous, signal }
    }

    /// The one that the calling thread runs.
    fn of_thread() -> Option<Self> {
        let end = served()?;
        let slot = end.slot_of(me().id())?;
        Some(Self::new(end, slot, None))
    }

    /// Whether nobody waits for it any more: its caller has given it up, or has died.
    fn is_given_up(&self) -> bool {
        let gone = || self.end.is_closed() || self.end.is_row_closed(self.slot);
        self.has(|| gone() || self.end.channel().cancel_word(self.slot).read().is_cancelled())
            || self.asynchronous.get().is_some_and(|call| {
                let gone = || self.end.is_closed() || self.end.is_closed_row(call.row().tag());
                call.signal.is_given_up() || (call.turn.is_late() && gone())
            })
    }

    /// Whether its caller has given it up.
    fn is_given_up_by_caller(&self) -> bool {
        self.has(|| self.end.channel().cancel_word(self.slot).read().is_cancelled())
            || self.asynchronous.get().is_some_and(|call| call.signal.is_given_up())
    }

    /// Whether `given_up`, and that was said of this call and not of a later one of its slot.
    fn has(&self, given_up: impl FnOnce() -> bool) -> bool {
        let given_up = given_up();
        // SYNC with the store in `CancelWord::cancel`: if this call had ended before that store,
        // its end is seen here, and the word belonged to another call.
        fence(Ordering::Acquire);
        given_up && self.end.calls_ended(self.slot) == self.number
    }

    /// Frees the calls that are made on behalf of this one.
    fn nested(&self) -> &Abandon {
        let nested = self.nested.get_or_init(|| {
            let nested = Abandon::new();
            self.end.nests(self.slot, self.number, Told::Nested(nested.clone()));
            nested
        });
        // Check the word only after `nests`. The client writes the word before it sends its
        // message. So a cancellation is either seen here, or its message finds `nested` registered.
        if self.is_given_up_by_caller() {
            nested.abandon();
        }
        nested
    }

    /// Wakes the tasks that wait until nobody wants the call.
    fn signal(&self) -> &Signal {
        if let Some(call) = self.asynchronous.get() {
            return &call.signal;
        }
        self.signal.get_or_init(|| {
            let signal = Arc::new(Signal::default());
            self.end.nests(self.slot, self.number, Told::Tasks(signal.clone()));
            signal
        })
    }

    fn has_passed(&self) -> bool {
        self.deadline_ns.is_some_and(|deadline| deadline <= clock::now_ns())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(nested) = self.nested.get() {
            self.end.nests_no_more(&Told::Nested(nested.clone()));
        }
        if let Some(signal) = self.signal.get() {
            self.end.nests_no_more(&Told::Tasks(signal.clone()));
        }
    }
}

impl Cancellation {
    /// Whether nobody wants the call's result any more: its deadline has passed, or its caller has
    /// given it up or has died. Takes a few ns, and no system call.
    ///
    /// The answer rests on the caller's own word: a lying caller deceives nobody but itself.
    pub fn is_cancelled(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.is_given_up() || call.has_passed())
    }

    /// Whether the caller has given the call up, or its deadline has passed. If the caller has
    /// died, this does not say so.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.is_given_up_by_caller() || call.has_passed())
    }

    /// Waits until nobody wants the call's result any more. Use it to end other work together with
    /// the call, such as a task that the handler has started. Never completes if the call ends
    /// first.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        Cancelled { call: self.call.clone(), watch: SignalWatch::default(), timer: None }
    }

    /// The caller's deadline, if it has one.
    pub fn deadline(&self) -> Option<Instant> {
        let left = self.deadline_ns()?.saturating_sub(clock::now_ns());
        Instant::now().checked_add(Duration::from_nanos(left))
    }

    /// For the bounded call that the calling thread dispatches, if it does. Its handler shares
    /// `call` with the end.
    #[inline]
    pub(crate) fn of_bounded(call: &Arc<AsyncCall>) -> Option<Self> {
        // Relaxed: a thread that dispatches a bounded call has set it itself.
        if ANY_BOUNDED.load(Ordering::Relaxed) { Self::of_current(call) } else { None }
    }

    fn of_current(call: &Arc<AsyncCall>) -> Option<Self> {
        let own = current().filter(|current| !current.works)?.wanted;
        if let Some(own) = &own.call {
            // Nobody else has set it: the call is dispatched once.
            let _ = own.asynchronous.set(call.clone());
        }
        Some(own)
    }

    /// For `call`, which is not bounded. It may have been dispatched long ago.
    pub(crate) fn of_async(end: &Arc<ServerEnd>, call: &Arc<AsyncCall>) -> Self {
        Self::of(Call::of_async(end.clone(), call), SectionNumbers::default())
    }

    fn of(call: Call, numbers: SectionNumbers) -> Self {
        Self { call: Some(Arc::new(call)), numbers }
    }

    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.call.as_ref()?.deadline_ns
    }

    /// Runs `work` on behalf of this call. [`is_cancelled`] and [`deadline`] then answer for this
    /// call. Calls that `work` makes inherit its deadline, and end with
    /// [`CallError::Cancelled`](crate::CallError::Cancelled) when the caller gives up. Use it in
    /// threads to which a handler gives work.
    pub fn scope<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.call.is_some() {
            let_calls_end();
        }
        let _within = enter(self.clone(), true);
        apart(|| self.numbers.within(work))
    }

    /// As [`scope`](Self::scope), for the poll of a task: applies to the calls that the task makes.
    pub(crate) fn poll<R>(&self, poll: impl FnOnce() -> R) -> R {
        let _within = enter(self.clone(), true);
        self.numbers.within(poll)
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

/// The future of [`Cancellation::cancelled`].
struct Cancelled {
    call: Option<Arc<Call>>,
    watch: SignalWatch,
    timer: Option<ClerkTimer>,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Outside of calls it waits for ever.
        let Some(call) = self.call.clone() else { return Poll::Pending };
        let is_over = || call.is_given_up() || call.has_passed();
        if is_over() {
            return Poll::Ready(());
        }
        self.watch.wakes(call.signal(), cx.waker());
        if let (None, Some(deadline)) = (&self.timer, call.deadline_ns) {
            // Not the call itself: it holds the binding.
            let signal = match call.asynchronous.get() {
                Some(asynchronous) => Ok(asynchronous.clone()),
                None => Err(call.signal.get().cloned()),
            };
            self.timer = Some(timer::set(deadline, move || match signal {
                Ok(asynchronous) => asynchronous.signal.wake(),
                Err(signal) => signal.iter().for_each(|signal| signal.wake()),
            }));
        }
        // After the waker was entered: see `Signal`.
        if is_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(call) = &self.call {
            self.watch.ends(call.signal());
        }
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
    }
}

/// When it is dropped, the thread serves the call again that it served before.
pub(crate) struct RestoreCurrent(Before);

/// What a thread served before.
enum Before {
    /// Unknown: the thread ends, and has no thread-local values any more.
    ThreadEnds,
    Served(Option<Current>),
}

fn enter(wanted: Cancellation, works: bool) -> RestoreCurrent {
    let before = CURRENT.try_with(|current| current.replace(Some(Current { wanted, works })));
    RestoreCurrent(before.map_or(Before::ThreadEnds, Before::Served))
}

impl Drop for RestoreCurrent {
    fn drop(&mut self) {
        if let Before::Served(before) = mem::replace(&mut self.0, Before::ThreadEnds) {
            let _ = CURRENT.try_with(|current| current.replace(before));
        }
    }
}

fn current() -> Option<Current> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// The calling thread begins with the bounded call of `slot`. It runs that call until the returned
/// value is dropped.
pub(crate) fn begin(
    end: Arc<ServerEnd>,
    slot: u16,
    deadline_ns: Option<u64>,
    numbers: SectionNumbers,
) -> RestoreCurrent {
    if deadline_ns.is_some() {
        let_calls_end();
    }
    // Relaxed: see `of_bounded`.
    ANY_BOUNDED.store(true, Ordering::Relaxed);
    enter(Cancellation::of(Call::new(end, slot, deadline_ns), numbers), false)
}

/// What bounds a call that the calling thread, or task, makes on behalf of another.
#[derive(Default)]
pub(crate) struct Inherited {
    pub(crate) deadline_ns: Option<u64>,
    /// The call on behalf of which it is made, if the caller's thread does not run that one itself.
    works_for: Option<Arc<Call>>,
    /// The sections on behalf of which it is made.
    pub(crate) numbers: SectionNumbers,
}

impl Inherited {
    pub(crate) fn of_caller(made_by: MadeBy) -> Self {
        let numbers = SectionNumbers::of_caller(made_by);
        let Some(current) = current() else { return Self { numbers, ..Self::default() } };
        let deadline_ns = current.wanted.deadline_ns();
        Self { deadline_ns, works_for: current.wanted.call.filter(|_| current.works), numbers }
    }

    /// What frees the call that is to be made.
    pub(crate) fn freed_by(&self) -> Option<&Abandon> {
        self.works_for.as_deref().map(Call::nested)
    }
}

/// How long the caller wants the call that the calling thread handles. Outside of a handler: a
/// `Cancellation` that is never cancelled.
///
/// Calls that a handler makes on its own thread, or awaits as an async handler, inherit its
/// deadline. They end with [`CallError::Cancelled`](crate::CallError::Cancelled) when the caller
/// gives up; so on along a chain of domains. A thread that the handler starts has neither, unless
/// the handler passes it this value and the thread works in its [`scope`](Cancellation::scope). If
/// the caller has died, this says so, but nothing is ended: the caller's handlers run on.
///
/// # Examples
/// ```
/// let here = underpass::cancellation(); // no handler
/// assert!(!here.is_cancelled() && here.deadline().is_none());
/// let there = std::thread::spawn(move || here.scope(underpass::is_cancelled));
/// assert!(!there.join().unwrap());
/// ```
pub fn cancellation() -> Cancellation {
    let numbers = SectionNumbers::of_caller(MadeBy::Thread);
    match current() {
        Some(current) => Cancellation { numbers, ..current.wanted },
        None => Cancellation { call: Call::of_thread().map(Arc::new), numbers },
    }
}

/// In a handler: whether nobody wants its result any more, because the caller's deadline has
/// passed, or the caller has given up or has died. A long computation should ask now and then. A
/// handler that does not ask runs on, and its result is discarded.
///
/// # Examples
/// ```
/// fn count(numbers: impl Iterator<Item = u64>) -> Option<u64> {
///     let mut sum = 0;
///     for (n, number) in numbers.enumerate() {
///         if n % 1024 == 0 && underpass::is_cancelled() {
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
        None => Call::of_thread().is_some_and(|call| call.is_given_up()) || is_cancelled_from_elsewhere(),
    }
}

/// Whether the calling thread runs a call that its caller, on another machine, does not want any
/// more.
fn is_cancelled_from_elsewhere() -> bool {
    underpass_threads::cancelled() && caller().is_some_and(|peer| peer.remote().is_some())
}

/// In a handler: waits until nobody wants its result any more, because the caller's deadline has
/// passed, or the caller has given up or has died. An async handler need not wait for the first
/// two: its future is dropped then. Use it where something else is to end together with the call,
/// or to do something before the end.
///
/// Outside of a handler, and if the call ends first, it never completes.
///
/// # Examples
/// ```
/// use std::future::Future;
/// use std::pin::pin;
/// use std::task::{Context, Waker};
///
/// // In a handler, race it against the work:
/// // tokio::select! { done = work() => done, () = underpass::cancelled() => clean_up().await }
/// let cancelled = pin!(underpass::cancelled()); // no handler
/// assert!(cancelled.poll(&mut Context::from_waker(Waker::noop())).is_pending());
/// ```
pub fn cancelled() -> impl Future<Output = ()> + Send + use<> {
    cancellation().cancelled()
}

/// In a handler: until when its caller waits, if the caller has a deadline.
///
/// # Examples
/// ```
/// assert_eq!(underpass::deadline(), None); // no handler
/// ```
pub fn deadline() -> Option<Instant> {
    cancellation().deadline()
}

/// Runs `work` detached from the call that the calling thread handles, and from the thread's own
/// cancellation. Calls that `work` makes do not inherit the deadline. Neither the caller's giving
/// up nor [`Thread::cancel`](underpass_threads::Thread::cancel) ends them. Use it for work that
/// must be completed whether anybody waits or not.
///
/// # Examples
/// ```
/// underpass::detached(|| assert_eq!(underpass::deadline(), None));
/// ```
pub fn detached<R>(work: impl FnOnce() -> R) -> R {
    // Nobody waits for the call, but the calling thread waits for `work`.
    let numbers = SectionNumbers::of_caller(MadeBy::Thread);
    finish(|| Cancellation { call: None, numbers }.scope(work))
}
