//! The trace context of the work that a thread does, as W3C Trace Context defines it.
//!
//! It is a variable of each user-level thread, and goes along with the calls that the thread makes.
//! Until a program sets the first one, no call looks for it.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use underpass_seam::atomic::{AtomicBool, Ordering};
use underpass_threads::let_calls_end;

underpass_threads::thread_local! {
    static CURRENT: RefCell<Option<TraceContext>> = const { RefCell::new(None) };
}

/// Whether this domain has ever had a trace context.
static ANY: AtomicBool = AtomicBool::new(false);

/// The length of a `traceparent` of version 00.
const PARENT: usize = 55;

/// Which trace some work belongs to, and the span that caused it: the `traceparent` and
/// `tracestate` of [W3C Trace Context](https://www.w3.org/TR/trace-context/).
///
/// Calls that a thread makes within [`scope`](Self::scope) have it, in other processes and on other
/// machines too. Their handlers find it by [`current`](Self::current), and calls that these make
/// have it in turn. It makes no spans by itself: tracers do, by
/// [`with_span`](Self::with_span).
///
/// # Examples
/// ```
/// use underpass::TraceContext;
///
/// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context = TraceContext::parse(parent).unwrap();
/// assert!(TraceContext::current().is_none());
/// context.scope(|| {
///     // Calls that are made here belong to the trace.
///     let current = TraceContext::current().unwrap();
///     assert!(current.is_sampled() && current.to_string() == parent);
/// });
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// The most bytes of a `tracestate`.
    pub const MOST_STATE: usize = 512;

    /// The context of a span of a trace. Bit 0 of `flags` says that the trace is sampled. `None` if
    /// one of the ids is zero, which is none.
    pub fn new(trace_id: u128, span_id: u64, flags: u8) -> Option<Self> {
        (trace_id != 0 && span_id != 0).then_some(Self { trace_id, span_id, flags, state: None })
    }

    /// Reads a `traceparent`. `None` if it is none, and its trace ends here.
    ///
    /// # Examples
    /// ```
    /// use underpass::TraceContext;
    /// assert!(TraceContext::parse("00-0-0-00").is_none());
    /// ```
    pub fn parse(traceparent: &str) -> Option<Self> {
        let text = traceparent.as_bytes();
        let field = |from: usize, to: usize| {
            let digits = text.get(from..to)?;
            let lower = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
            let dashed = to == PARENT || text.get(to) == Some(&b'-');
            let text = std::str::from_utf8(digits).ok().filter(|_| dashed && digits.iter().all(lower))?;
            u128::from_str_radix(text, 16).ok()
        };
        let (version, flags) = (field(0, 2)?, field(53, PARENT)?);
        // Later versions may append fields.
        let ends = match text.get(PARENT) {
            None => true,
            Some(next) => version != 0 && *next == b'-',
        };
        (version != 0xff && ends).then_some(())?;
        Self::new(field(3, 35)?, field(36, 52)? as u64, flags as u8)
    }

    /// The same context with this `tracestate`. A state of more than 512 bytes is left out, and
    /// so is one with characters other than printable ASCII. The standard allows that.
    #[must_use]
    pub fn with_state(mut self, tracestate: &str) -> Self {
        let printable = tracestate.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let good = printable && (1..=Self::MOST_STATE).contains(&tracestate.len());
        self.state = good.then(|| tracestate.into());
        self
    }

    /// The context of another span of the same trace.
    #[must_use]
    pub fn with_span(mut self, span_id: u64) -> Self {
        // Zero is no id.
        self.span_id = if span_id == 0 { self.span_id } else { span_id };
        self
    }

    /// The trace.
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// The span that causes what is done.
    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// The flags.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether the trace is recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 != 0
    }

    /// The `tracestate`; empty if there is none.
    pub fn state(&self) -> &str {
        self.state.as_deref().unwrap_or_default()
    }

    /// The context of the work that the calling thread does. In a handler it is that of the call,
    /// unless the handler has begun another one.
    #[inline]
    pub fn current() -> Option<Self> {
        // Relaxed: a thread that has a context has set the flag, or was started by one that has.
        if ANY.load(Ordering::Relaxed) { Self::of_thread() } else { None }
    }

    #[cold]
    #[inline(never)]
    fn of_thread() -> Option<Self> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }

    /// Runs `work` within this context. Threads that it starts do not have it by themselves.
    pub fn scope<R>(&self, work: impl FnOnce() -> R) -> R {
        let _within = Within::begin(self);
        work()
    }

    /// Polls `future` within this context.
    pub fn follow<F: Future>(&self, future: F) -> InTraceContext<F> {
        InTraceContext { context: self.clone(), future: Box::pin(future) }
    }
}

/// Until it is dropped, the thread has a context.
struct Within(Option<Option<TraceContext>>);

impl Within {
    fn begin(context: &TraceContext) -> Self {
        // From now on calls look for contexts.
        let_calls_end();
        ANY.store(true, Ordering::Relaxed);
        Self(CURRENT.try_with(|current| current.replace(Some(context.clone()))).ok())
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            let _ = CURRENT.try_with(|current| current.replace(before));
        }
    }
}

/// Runs `work` within `context`, if there is one.
pub(crate) fn within<R>(context: Option<&TraceContext>, work: impl FnOnce() -> R) -> R {
    match context {
        Some(context) => context.scope(work),
        None => work(),
    }
}

/// A future that is polled within a context. Made by [`TraceContext::follow`].
pub struct InTraceContext<F> {
    context: TraceContext,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for InTraceContext<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.context.scope(|| this.future.as_mut().poll(cx))
    }
}

impl<F> fmt::Debug for InTraceContext<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InTraceContext").field(&self.context).finish()
    }
}

/// The `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({self}, {:?})", self.state())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_read_as_the_standard_says() {
        let context = TraceContext::parse(GOOD).unwrap();
        assert_eq!(context.trace_id(), 0x4bf92f3577b34da6a3ce929d0e0e4736);
        assert_eq!((context.span_id(), context.flags()), (0xf067aa0ba902b7, 1));
        assert_eq!(context.to_string(), GOOD);
        // A later version, with a field more.
        assert_eq!(TraceContext::parse(&format!("cc{}-what", &GOOD[2..])), Some(context));
        let zeros = GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let no_span = GOOD.replace("00f067aa0ba902b7", &"0".repeat(16));
        let (later, longer) = (format!("cc{}what", &GOOD[2..]), format!("{GOOD}-what"));
        let (reserved, upper) = (format!("ff{}", &GOOD[2..]), GOOD.to_uppercase());
        let signed = GOOD.replace("-4bf9", "-+bf9");
        for bad in
            ["", "00", &GOOD[..54], "\u{e9}", &zeros, &no_span, &later, &longer, &reserved, &upper, &signed]
        {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
        for cut in 0..GOOD.len() {
            assert_eq!(
                TraceContext::parse(&GOOD.replacen(char::from(GOOD.as_bytes()[cut]), "\u{e9}", 55)),
                None
            );
        }
    }

    #[test]
    fn a_state_is_bounded() {
        let context = || TraceContext::new(1, 2, 0).unwrap();
        let longest = "k=v,".repeat(128);
        assert_eq!(context().with_state(&longest).state(), longest);
        for bad in [&format!("{longest}x"), "", "a=\n", "a=\u{e9}"] {
            assert_eq!(context().with_state(bad).state(), "");
        }
    }

    #[test]
    fn a_scope_ends_with_its_work_even_by_a_panic() {
        let [outer, inner] = [1, 2].map(|span| TraceContext::new(7, span, 0).unwrap());
        outer.scope(|| {
            let panicked = std::panic::catch_unwind(|| inner.scope(|| panic!("on purpose")));
            assert!(panicked.is_err() && TraceContext::current() == Some(outer.clone()));
            assert_eq!(inner.scope(TraceContext::current), Some(inner.clone()));
        });
        assert_eq!(TraceContext::current(), None);
        let polled = inner.follow(async { TraceContext::current() });
        let mut polled = std::pin::pin!(polled);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert_eq!(polled.as_mut().poll(&mut cx), Poll::Ready(Some(inner)));
    }
}
