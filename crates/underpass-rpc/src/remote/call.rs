//! A stub's call to another machine.

use crate::call::abandon::{Freed, Frees, UnderWay};
use crate::call::client::CallTerms;
use crate::dispatch::deadline::{Cancellation, cancellation};
use crate::dispatch::late::signal::SignalWatch;
use crate::dispatch::local_handlers::{LocalAnswer, LocalMessage, WantedCall, result_of};
use crate::dispatch::section_numbers::SectionNumbers;
use crate::error::{CallError, Outcome};
use crate::remote::message::RemoteMessage;
use crate::remote::transport::RemoteBinding;
use crate::trace_context::TraceContext;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::Duration;
use underpass_os::{clock, fork};
use underpass_wire::{Decode, Encode};

/// A call that a transport carries: what it says, and the right and the duty to answer it once.
pub struct RemoteCall {
    procedure: u16,
    arguments: RemoteMessage,
    deadline_ns: Option<u64>,
    /// The call on behalf of which it is made.
    inherited: Cancellation,
    context: Option<TraceContext>,
    /// A task awaits the answer.
    by_task: bool,
    answer: Arc<LocalAnswer>,
}

impl RemoteCall {
    /// Whether a task awaits the answer. Otherwise a thread waits for it, and may hold up the
    /// executor whose thread it is.
    pub fn is_by_task(&self) -> bool {
        self.by_task
    }

    /// The trace context of its caller, for the transport to pass on.
    pub fn trace_context(&self) -> Option<&TraceContext> {
        self.context.as_ref()
    }

    /// The index of the procedure among those of the interface.
    pub fn procedure(&self) -> u16 {
        self.procedure
    }

    /// Takes the arguments. A second time there are none.
    pub fn take_arguments(&mut self) -> RemoteMessage {
        std::mem::take(&mut self.arguments)
    }

    /// How long its caller still waits. `None`: without limit.
    pub fn time_left(&self) -> Option<Duration> {
        let left = self.deadline_ns?.saturating_sub(clock::now_ns());
        Some(Duration::from_nanos(left))
    }

    /// Waits until nobody wants the result any more.
    pub fn unwanted(&self) -> impl Future<Output = ()> + Send + use<> {
        let (answer, inherited) = (self.answer.clone(), self.inherited.cancelled());
        let deadline_ns = self.deadline_ns;
        async move {
            let mut inherited = pin!(inherited);
            let mut watch = Watched { answer: &answer, watch: SignalWatch::default() };
            poll_fn(|cx| {
                if inherited.as_mut().poll(cx).is_ready() {
                    // A deadline that was inherited may be what has passed.
                    let late = deadline_ns.is_some_and(|deadline| deadline <= clock::now_ns());
                    let error = if late { CallError::Deadline } else { CallError::Cancelled };
                    answer.give(Err(error(Outcome::Unknown)));
                    return Poll::Ready(());
                }
                watch.watch.wakes(&answer.signal, cx.waker());
                // After the waker was entered: see `Signal`.
                if answer.signal.is_given_up() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }

    /// Gives the result of the procedure, as it was encoded there, or says why there is none.
    pub fn answer(self, result: Result<RemoteMessage, CallError>) {
        let local = |message: RemoteMessage| {
            let failed = |e: io::Error| CallError::NoResources(Outcome::Executed, e.to_string());
            message.into_local().map_err(failed)
        };
        self.answer.give(result.and_then(local));
    }
}

/// The place of one task among those that learn that a call is unwanted.
struct Watched<'a> {
    answer: &'a LocalAnswer,
    watch: SignalWatch,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.watch.ends(&self.answer.signal);
    }
}

impl Drop for RemoteCall {
    fn drop(&mut self) {
        // Nothing changes if it was answered.
        self.answer.give(Err(CallError::Dropped(Outcome::Unknown)));
    }
}

impl fmt::Debug for RemoteCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCall").field("procedure", &self.procedure).finish_non_exhaustive()
    }
}

/// Answers a call that its caller's program abandons.
struct Abandoned(Arc<LocalAnswer>);

impl Wake for Abandoned {
    fn wake(self: Arc<Self>) {
        self.0.give(Err(CallError::Abandoned(Outcome::Unknown)));
        self.0.signal.give_up();
    }
}

/// The one call of a place.
struct FreesRemote(Waker);

impl Frees for FreesRemote {
    fn free(&self, _: Option<u16>) -> Vec<Freed> {
        // The answer takes a lock, so it is given later.
        vec![Freed::Task(self.0.clone())]
    }
}

/// A caller's hold on its call. If it is dropped, the transport learns of it.
struct Waiting {
    wanted: WantedCall,
    _under_way: Option<UnderWay>,
}

/// Hands a call to its transport. `by_task`: a task awaits the answer.
fn begin(
    binding: &dyn RemoteBinding,
    terms: &CallTerms,
    procedure: u16,
    arguments: &(impl Encode + ?Sized),
    by_task: bool,
) -> Result<Waiting, CallError> {
    // A forked child has no threads that carry calls.
    fork::check().map_err(|_| CallError::Forked)?;
    let failed = |e: io::Error| CallError::NoResources(Outcome::NotStarted, e.to_string());
    let arguments = LocalMessage::of(arguments).and_then(RemoteMessage::of).map_err(failed)?;
    let deadline_ns = terms.deadline().map_err(|e| *e)?;
    let answer = Arc::<LocalAnswer>::default();
    let frees = terms.abandon.is_some().then(|| {
        let waker = Waker::from(Arc::new(Abandoned(answer.clone())));
        Arc::new(FreesRemote(waker)) as Arc<dyn Frees>
    });
    let under_way = UnderWay::new(frees, terms.abandon.as_ref(), None, SectionNumbers::default());
    let wanted = WantedCall(answer.clone());
    let waiting = Waiting { wanted, _under_way: under_way.map_err(|e| *e)? };
    let (inherited, context) = (cancellation(), TraceContext::current());
    binding.start(RemoteCall { procedure, arguments, deadline_ns, inherited, context, by_task, answer });
    Ok(waiting)
}

/// A call by a thread, which waits for the result.
///
/// # Errors
/// Those of a call over a binding.
#[cold]
#[inline(never)]
pub(crate) fn call<R: Decode>(
    binding: &dyn RemoteBinding,
    terms: &CallTerms,
    procedure: u16,
    arguments: &(impl Encode + ?Sized),
) -> Result<R, CallError> {
    let waiting = begin(binding, terms, procedure, arguments, false)?;
    result_of(waiting.wanted.0.wait())
}

/// A call by a task.
///
/// # Errors
/// Those of a call over a binding.
pub(crate) async fn call_from_task<R: Decode>(
    binding: &dyn RemoteBinding,
    terms: &CallTerms,
    procedure: u16,
    arguments: &(impl Encode + ?Sized),
) -> Result<R, CallError> {
    let waiting = begin(binding, terms, procedure, arguments, true)?;
    result_of(poll_fn(|cx| waiting.wanted.0.poll(cx.waker())).await)
}
