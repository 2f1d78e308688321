//! Calls of async handlers from their own domain, by a stub that was made of them as a value.
//!
//! Arguments and result are encoded, as between two domains: the handler runs on its executor for
//! longer than its caller's borrows may last. Files and interfaces go beside the bytes. The handler
//! has one [`LocalHandler`], which gives one answer, whatever the executor does.
//!
//! *No wake-up is lost.* The answer and the caller's waker are under one lock. A task enters its
//! waker and looks for the answer under one hold of it. The handler enters the answer and takes the
//! waker under one hold. So the second of the two finds what the first has left.

use crate::binding::interface_exchange::{GivenInterface, TakenInterface};
use crate::binding::peer::within_binding;
use crate::binding::record::BindingRecord;
use crate::call::task_wakeup::wake_task;
use crate::carried::CarriedError;
use crate::dispatch::async_handler::Spawn;
use crate::dispatch::incoming::{IncomingCall, Refused, Status};
use crate::dispatch::late::signal::{Signal, SignalWatch};
use crate::error::{CallError, Outcome};
use crate::payload::interfaces::given;
use crate::payload::shared::SharedLater;
use crate::trace_context::{TraceContext, within};
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};
use underpass_sync::{Condvar, Mutex, MutexGuard};
use underpass_threads::panic_message;
use underpass_wire::{ArgumentPlace, Carried, Decode, DecodeError, Encode, Sink, Source};

/// What the server stub of async handlers asks of a call, wherever it comes from.
pub trait HandlerCall {
    /// As [`IncomingCall::procedure`].
    fn procedure(&self) -> u16;

    /// As [`IncomingCall::argument`].
    ///
    /// # Errors
    /// The bytes that came are no value of the type.
    fn argument<C: Carried>(&mut self, argument: &mut ArgumentPlace<C::Itself>) -> Result<(), Refused>;

    /// As [`IncomingCall::shared_later`].
    ///
    /// # Errors
    /// What came is no such argument, or the binding is closed.
    fn shared_later(&mut self) -> Result<SharedLater, Refused>;

    /// As [`IncomingCall::end`].
    ///
    /// # Errors
    /// There are bytes, files or interfaces left over.
    fn end(&mut self) -> Result<(), Refused>;

    /// As [`IncomingCall::later`].
    ///
    /// # Errors
    /// The binding is closed.
    fn later<V: Carried<Itself: Send + 'static>, E: CarriedError<Itself: Send + 'static>>(
        &mut self,
        spawn: &Spawn,
        handler: impl Future<Output = Result<V::Itself, E::Itself>> + Send + 'static,
    ) -> Result<(), Refused>;

    /// As [`IncomingCall::unknown`].
    ///
    /// # Errors
    /// There is no such procedure.
    fn unknown(&mut self) -> Result<(), Refused>;
}

impl HandlerCall for IncomingCall<'_> {
    #[inline]
    fn procedure(&self) -> u16 {
        self.procedure()
    }

    #[inline]
    fn argument<C: Carried>(&mut self, argument: &mut ArgumentPlace<C::Itself>) -> Result<(), Refused> {
        self.argument::<C>(argument)
    }

    #[inline]
    fn shared_later(&mut self) -> Result<SharedLater, Refused> {
        self.shared_later()
    }

    #[inline]
    fn end(&mut self) -> Result<(), Refused> {
        self.end()
    }

    #[inline]
    fn later<V: Carried<Itself: Send + 'static>, E: CarriedError<Itself: Send + 'static>>(
        &mut self,
        spawn: &Spawn,
        handler: impl Future<Output = Result<V::Itself, E::Itself>> + Send + 'static,
    ) -> Result<(), Refused> {
        self.later::<V, E>(spawn, handler)
    }

    #[cold]
    fn unknown(&mut self) -> Result<(), Refused> {
        self.unknown()
    }
}

/// The server stub of async handlers, for callers in their own domain. Generated.
pub trait DispatchLocal: Send + Sync + 'static {
    /// Hands one call to the executor.
    ///
    /// # Errors
    /// The arguments could not be passed.
    fn dispatch_local(&self, call: &mut LocalCall) -> Result<(), Refused>;
}

/// Where a stream is in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPlace {
    /// The number of bytes up to the end of its description.
    pub at: usize,
    /// The number of files before the three that lead to it.
    pub file: usize,
}

/// A value with its files and interfaces, in memory.
#[derive(Default)]
pub(crate) struct LocalMessage {
    pub(crate) bytes: Vec<u8>,
    /// How many of the bytes were read.
    read: usize,
    pub(crate) files: VecDeque<OwnedFd>,
    /// The streams among the files.
    pub(crate) streams: Vec<StreamPlace>,
    pub(crate) interfaces: VecDeque<GivenInterface>,
    failed: Option<io::Error>,
}

impl LocalMessage {
    /// A message of these bytes, with these files beside them.
    pub(crate) fn new(bytes: Vec<u8>, files: VecDeque<OwnedFd>) -> Self {
        Self { bytes, files, ..Self::default() }
    }

    /// The message that carries `value`.
    ///
    /// # Errors
    /// There is no room for a file.
    pub(crate) fn of(value: &(impl Encode + ?Sized)) -> io::Result<Self> {
        let mut message = Self { bytes: Vec::with_capacity(value.size()), ..Self::default() };
        value.encode(&mut message);
        match message.failed.take() {
            None => Ok(message),
            Some(e) => Err(e),
        }
    }

    /// Checks that all of it was read.
    ///
    /// # Errors
    /// Something is left.
    pub(crate) fn check_end(&self) -> Result<(), DecodeError> {
        match (self.remaining(), self.files.len(), self.interfaces.len()) {
            (0, 0, 0) => Ok(()),
            (0, 0, interfaces) => Err(DecodeError::InterfacesLeftOver(interfaces)),
            (0, files, _) => Err(DecodeError::FilesLeftOver(files)),
            (left, ..) => Err(DecodeError::LeftOver(left)),
        }
    }

    /// The value that it carries.
    ///
    /// # Errors
    /// It carries none of that type.
    pub(crate) fn into_value<R: Decode>(mut self) -> Result<R, DecodeError> {
        let value = R::decode(&mut self)?;
        self.check_end()?;
        Ok(value)
    }
}

impl Sink for LocalMessage {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn put_file(&mut self, file: BorrowedFd<'_>) {
        match file.try_clone_to_owned() {
            Ok(file) => self.files.push_back(file),
            Err(e) => self.failed = Some(e),
        }
    }

    fn put_stream(&mut self, files: [BorrowedFd<'_>; 3]) {
        self.streams.push(StreamPlace { at: self.bytes.len(), file: self.files.len() });
        files.into_iter().for_each(|file| self.put_file(file));
    }

    fn put_interface(&mut self, interface: &dyn Any) {
        self.interfaces.extend(given(interface));
    }
}

impl Source for LocalMessage {
    fn remaining(&self) -> usize {
        self.bytes.len() - self.read
    }

    fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
        let now = self.bytes[self.read..].get(..out.len()).ok_or(DecodeError::Truncated)?;
        out.copy_from_slice(now);
        self.read += out.len();
        Ok(())
    }

    fn take_file(&mut self) -> Result<OwnedFd, DecodeError> {
        self.files.pop_front().ok_or(DecodeError::NoFile)
    }

    fn take_interface(&mut self) -> Result<Box<dyn Any>, DecodeError> {
        Ok(Box::new(match self.interfaces.pop_front().ok_or(DecodeError::NoInterface)? {
            GivenInterface::Here(implementation) => TakenInterface::Home(implementation),
            GivenInterface::There(bound) => TakenInterface::There(bound),
        }))
    }
}

/// One call within a domain, as the server stub of its async handlers sees it.
pub struct LocalCall {
    procedure: u16,
    arguments: LocalMessage,
    answer: Arc<LocalAnswer>,
    record: Arc<BindingRecord>,
}

/// What the caller and the handler of one call share.
#[derive(Default)]
pub(crate) struct LocalAnswer {
    state: Mutex<AnswerState>,
    /// Threads wait here for the answer.
    answered: Condvar,
    /// The caller wants it no more.
    pub(crate) signal: Signal,
}

#[derive(Default)]
struct AnswerState {
    answer: Option<Result<LocalMessage, CallError>>,
    /// The task that waits.
    waker: Option<Waker>,
}

impl LocalAnswer {
    fn state(&self) -> MutexGuard<'_, AnswerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the answer, unless another was given that its caller has not taken yet.
    pub(crate) fn give(&self, answer: Result<LocalMessage, CallError>) {
        let mut state = self.state();
        state.answer.get_or_insert(answer);
        let waker = state.waker.take();
        drop(state);
        self.answered.notify_one();
        if let Some(waker) = waker {
            wake_task(waker);
        }
    }

    /// Waits for the answer. Blocks the calling thread alone.
    pub(crate) fn wait(&self) -> Result<LocalMessage, CallError> {
        let mut state = self.state();
        loop {
            if let Some(answer) = state.answer.take() {
                return answer;
            }
            if underpass_threads::cancelled() {
                return Err(CallError::Cancelled(Outcome::Unknown));
            }
            state = self.answered.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// As [`wait`](Self::wait), for a task.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<LocalMessage, CallError>> {
        let mut waker = Some(waker.clone());
        let mut state = self.state();
        match state.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                std::mem::swap(&mut state.waker, &mut waker);
                drop(state);
                Poll::Pending
            }
        }
    }
}

/// The caller's hold on a call. If it is dropped, the handler's future is dropped when its executor
/// polls it next.
pub(crate) struct WantedCall(pub(crate) Arc<LocalAnswer>);

impl Drop for WantedCall {
    fn drop(&mut self) {
        self.0.signal.give_up();
    }
}

/// Has `handlers` run a procedure for a caller of their own domain, over the binding of `record`.
fn begin(
    handlers: &dyn DispatchLocal,
    record: &Arc<BindingRecord>,
    procedure: u16,
    arguments: &(impl Encode + ?Sized),
) -> Result<WantedCall, CallError> {
    let failed = |e: io::Error| CallError::NoResources(Outcome::NotStarted, e.to_string());
    begin_with(handlers, record, procedure, LocalMessage::of(arguments).map_err(failed)?)
}

/// As [`begin`], with arguments that are encoded.
pub(crate) fn begin_with(
    handlers: &dyn DispatchLocal,
    record: &Arc<BindingRecord>,
    procedure: u16,
    arguments: LocalMessage,
) -> Result<WantedCall, CallError> {
    let answer = Arc::<LocalAnswer>::default();
    let mut call = LocalCall { procedure, arguments, answer: answer.clone(), record: record.clone() };
    // The executor may refuse the handler by a panic. The handler has told the caller of it then.
    match catch_unwind(AssertUnwindSafe(|| handlers.dispatch_local(&mut call))) {
        Ok(Ok(())) | Err(_) => Ok(WantedCall(answer)),
        Ok(Err(refused)) => Err(not_started(refused)),
    }
}

/// The error of a call that its server stub has refused.
pub(crate) fn not_started(refused: Refused) -> CallError {
    match refused.status {
        Status::NoProcedure => CallError::Unsupported(Outcome::NotStarted),
        Status::NoResources => CallError::NoResources(Outcome::NotStarted, refused.why),
        Status::NoRoomForResult => CallError::NoResources(Outcome::Executed, refused.why),
        _ => CallError::Decode(Outcome::NotStarted, refused.why),
    }
}

/// The value of an answer.
pub(crate) fn result_of<R: Decode>(answer: Result<LocalMessage, CallError>) -> Result<R, CallError> {
    answer?.into_value().map_err(|e| CallError::Decode(Outcome::Executed, e.to_string()))
}

/// A call by a thread, which waits for the result.
///
/// # Errors
/// Those of a call over a binding.
#[cold]
#[inline(never)]
pub(crate) fn call<R: Decode>(
    handlers: &dyn DispatchLocal,
    record: &Arc<BindingRecord>,
    procedure: u16,
    arguments: &(impl Encode + ?Sized),
) -> Result<R, CallError> {
    let wanted = begin(handlers, record, procedure, arguments)?;
    result_of(wanted.0.wait())
}

/// A call by a task.
///
/// # Errors
/// Those of a call over a binding.
pub(crate) async fn call_from_task<R: Decode>(
    handlers: &dyn DispatchLocal,
    record: &Arc<BindingRecord>,
    procedure: u16,
    arguments: &(impl Encode + ?Sized),
) -> Result<R, CallError> {
    let wanted = begin(handlers, record, procedure, arguments)?;
    result_of(poll_fn(|cx| wanted.0.poll(cx.waker())).await)
}

/// The right and the duty to answer one call within the domain.
struct LocalHandler {
    answer: Arc<LocalAnswer>,
    record: Arc<BindingRecord>,
    /// That of the caller.
    context: Option<TraceContext>,
    watch: SignalWatch,
    started: bool,
    answered: bool,
}

impl LocalHandler {
    /// Runs `handler`, and answers the call.
    async fn run<R: Encode>(mut self, handler: impl Future<Output = R> + Send) {
        // `None` once it was dropped.
        let mut handler = pin!(Some(handler));
        let outcome = poll_fn(|cx| {
            self.started = true;
            // A panic stops here: it must not harm the executor.
            let poll = || {
                let _within = within_binding(&self.record);
                let signal = &self.answer.signal;
                let poll = match signal.is_given_up() {
                    true => Poll::Pending,
                    false => within(self.context.as_ref(), || {
                        handler.as_mut().as_pin_mut().map_or(Poll::Pending, |handler| handler.poll(cx))
                    }),
                };
                if poll.is_pending() {
                    self.watch.wakes(signal, cx.waker());
                    if signal.is_given_up() {
                        handler.set(None);
                        return Poll::Ready(None);
                    }
                }
                poll.map(Some)
            };
            match catch_unwind(AssertUnwindSafe(poll)) {
                Ok(poll) => poll.map(Ok),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        })
        .await;
        let encoded = outcome.and_then(|result| {
            catch_unwind(AssertUnwindSafe(|| match result {
                Some(result) => LocalMessage::of(&result)
                    .map_err(|e| CallError::NoResources(Outcome::Executed, e.to_string())),
                None => Err(CallError::Dropped(Outcome::Unknown)),
            }))
        });
        let answer =
            encoded.unwrap_or_else(|panic| Err(CallError::Panicked(panic_message(&*panic).to_owned())));
        self.answered = true;
        self.answer.give(answer);
    }
}

impl Drop for LocalHandler {
    fn drop(&mut self) {
        self.watch.ends(&self.answer.signal);
        if !self.answered {
            let outcome = if self.started { Outcome::Unknown } else { Outcome::NotStarted };
            self.answer.give(Err(CallError::Dropped(outcome)));
        }
    }
}

impl HandlerCall for LocalCall {
    fn procedure(&self) -> u16 {
        self.procedure
    }

    fn argument<C: Carried>(&mut self, argument: &mut ArgumentPlace<C::Itself>) -> Result<(), Refused> {
        Ok(C::Itself::decode_into(argument.place(), &mut self.arguments)?)
    }

    fn shared_later(&mut self) -> Result<SharedLater, Refused> {
        Ok(SharedLater::of(Vec::decode(&mut self.arguments)?))
    }

    fn end(&mut self) -> Result<(), Refused> {
        Ok(self.arguments.check_end()?)
    }

    fn later<V: Carried<Itself: Send + 'static>, E: CarriedError<Itself: Send + 'static>>(
        &mut self,
        spawn: &Spawn,
        handler: impl Future<Output = Result<V::Itself, E::Itself>> + Send + 'static,
    ) -> Result<(), Refused> {
        let (answer, record) = (self.answer.clone(), self.record.clone());
        let watch = SignalWatch::default();
        let context = TraceContext::current();
        let own = LocalHandler { answer, record, context, watch, started: false, answered: false };
        spawn(Box::pin(own.run(handler)));
        Ok(())
    }

    fn unknown(&mut self) -> Result<(), Refused> {
        Err(Refused { status: Status::NoProcedure, why: String::new() })
    }
}

impl fmt::Debug for LocalCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCall").field("procedure", &self.procedure).finish_non_exhaustive()
    }
}
