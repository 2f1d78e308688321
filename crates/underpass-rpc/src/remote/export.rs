//! A service for clients on other machines.

use crate::binding::grant::Grant;
use crate::binding::implementation::Implementation;
use crate::binding::name;
use crate::binding::object::Binding;
use crate::binding::peer::{Peer, within_binding};
use crate::binding::record::BindingRecord;
use crate::binding::service::{ExportOptions, Service};
use crate::dispatch::detached_call::DetachedCall;
use crate::dispatch::local_handlers::{DispatchLocal, LocalAnswer, LocalMessage, WantedCall, begin_with};
use crate::error::{CallError, ExportError, Outcome};
use crate::remote::message::RemoteMessage;
use crate::remote::peers::{RemotePeer, RemotePeers};
use crate::trace_context::{TraceContext, within};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use underpass_os::random;
use underpass_threads::{Builder, JoinHandle, panic_message};
use underpass_wire::Descriptor;

/// The most calls of one export that run at the same time, over all remote clients.
const MOST_CALLS: usize = 1024;

/// Bytes of the stack of a call, unless the service says otherwise.
const STACK: usize = 2 << 20;

/// The error of a call whose client the service refuses, though it had let the client import.
const REFUSED: CallError = CallError::Revoked(Outcome::NotStarted);

/// A service that clients on other machines may call: a transport has it and runs the calls that
/// come. Clones share the implementation and the limit of calls at the same time.
#[derive(Clone)]
pub struct RemoteExport(Arc<Exported>);

struct Exported {
    name: Arc<str>,
    implementation: Implementation,
    options: ExportOptions,
    peers: RemotePeers,
    /// Tells this server's state from that of another.
    instance: u128,
    running: AtomicUsize,
}

/// The place of a call among those that run. Its last holder frees it.
struct CallPlace(Arc<Exported>);

impl Drop for CallPlace {
    fn drop(&mut self) {
        // Relaxed: a number.
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Gives the answer of a call when it is dropped, also by a panic of the call's thread.
struct AnswerAtEnd {
    answer: Arc<LocalAnswer>,
    result: Option<Result<LocalMessage, CallError>>,
}

impl AnswerAtEnd {
    fn new(answer: Arc<LocalAnswer>) -> Self {
        Self { answer, result: None }
    }
}

impl Drop for AnswerAtEnd {
    fn drop(&mut self) {
        self.answer.give(self.result.take().unwrap_or(Err(CallError::Dropped(Outcome::Unknown))));
    }
}

/// A call, or the question whether a client may import, of a client that has proved who it is. It
/// counts among the calls of its export that run at once.
pub struct RunningCall {
    /// The thread of the call has it too, and may run longer than anybody wants the result.
    place: Arc<CallPlace>,
    peer: Peer,
    context: Option<TraceContext>,
}

/// The record of one call. Its state is dropped with it.
struct CallRecord(Arc<BindingRecord>);

impl Drop for CallRecord {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A call with a result that was given, and with streams that go on.
pub struct CallInStreams {
    // Their state ends with the record.
    _record: Arc<CallRecord>,
    place: Arc<CallPlace>,
}

/// The thread of a call. It is asked to end if nobody wants the call any more.
struct CallThread(JoinHandle<()>);

impl Drop for CallThread {
    fn drop(&mut self) {
        if !self.0.is_finished() {
            self.0.cancel();
        }
    }
}

impl RemoteExport {
    /// The service under `name`.
    ///
    /// # Errors
    /// [`ExportError::BadName`]; or [`ExportError::Remote`] if the service does not say how remote
    /// peers prove who they are, or if it can't be called from another machine. The text names the
    /// method, and the remedy.
    pub fn new(name: impl Into<String>, mut service: Service) -> Result<Self, ExportError> {
        let name = name.into();
        name::check(&name).map_err(ExportError::BadName)?;
        service.measure_as(&name);
        let Service { implementation, options } = service;
        let refuse = |why: String| ExportError::Remote(name.clone(), why);
        let peers = options.remote.clone().ok_or_else(|| {
            refuse("it is for this machine alone; say how remote peers prove who they are, by `Service::remote_peers`".into())
        })?;
        if options.on_end.is_some() {
            let why = "it has a hook for the end of bindings, and remote peers have no bindings that last";
            return Err(refuse(why.to_owned()));
        }
        if let Some(why) = implementation.descriptor.stays_on_machine() {
            return Err(refuse(why));
        }
        let instance = match options.state {
            Some(state) => state,
            None => random::number().map_err(|e| ExportError::System("no random numbers", e))?,
        };
        let running = AtomicUsize::new(0);
        Ok(Self(Arc::new(Exported { name: name.into(), implementation, options, peers, instance, running })))
    }

    /// The name of the export.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The interface.
    pub fn interface(&self) -> &'static Descriptor {
        self.0.implementation.descriptor
    }

    /// How its remote peers prove who they are.
    pub fn peers(&self) -> &RemotePeers {
        &self.0.peers
    }

    /// Tells this server from others, if clients keep something of its state: the number of
    /// [`Service::state_id`], or a random one. `None` if the interface is stateless.
    pub fn instance(&self) -> Option<u128> {
        (!self.interface().stateless).then_some(self.0.instance)
    }

    /// The client, if it has proved who it is. [`authorize`](Service::authorize) is asked by
    /// [`RunningCall`].
    ///
    /// # Errors
    /// Why it has not.
    pub fn identify(&self, peer: RemotePeer, token: Option<&str>) -> Result<Peer, &'static str> {
        match self.0.peers.admit(peer, token) {
            Ok(peer) => Ok(Peer::elsewhere(peer)),
            Err(why) => Err(why.0),
        }
    }

    /// Counts a call of this client. A transport begins it before it reads the arguments, so that
    /// the memory for them is bounded.
    ///
    /// # Errors
    /// [`CallError::Overloaded`]: too many calls of the export run.
    pub fn begin(&self, peer: Peer) -> Result<RunningCall, CallError> {
        // Relaxed: a number.
        let before = self.0.running.fetch_add(1, Ordering::Relaxed);
        let place = Arc::new(CallPlace(self.0.clone()));
        if before < MOST_CALLS {
            Ok(RunningCall { place, peer, context: None })
        } else {
            Err(CallError::Overloaded)
        }
    }
}

impl Exported {
    /// Starts a thread for a call.
    fn thread(&self, work: impl FnOnce() + Send + 'static) -> io::Result<CallThread> {
        let stack = self.options.stack.unwrap_or(STACK);
        Builder::new().name("remote call").stack_size(stack).spawn(work).map(CallThread)
    }
}

impl RunningCall {
    /// The call, with the trace context that came along with it.
    #[must_use]
    pub fn within(self, context: Option<TraceContext>) -> Self {
        Self { context, ..self }
    }

    /// Asks the service's `authorize` whether the client may call, on a user-level thread.
    ///
    /// # Errors
    /// Why it may not.
    pub async fn admit(&self) -> Result<(), String> {
        let export = &self.place.0;
        let Some(decide) = export.options.authorize.clone() else { return Ok(()) };
        let answer = Arc::<LocalAnswer>::default();
        let (wanted, refused) = (WantedCall(answer.clone()), Arc::<OnceLock<String>>::default());
        let (refusal, peer, place) = (refused.clone(), self.peer.clone(), self.place.clone());
        let thread = export.thread(move || {
            let mut at_end = AnswerAtEnd::new(answer);
            if let Err(why) = decision(&*decide, &peer) {
                let _ = refusal.set(why);
            }
            at_end.result = Some(Ok(LocalMessage::default()));
            // The thread may run on after its client has given up: it counts until here.
            drop(place);
        });
        let _thread = thread.map_err(|e| e.to_string())?;
        let asked = poll_fn(|cx| wanted.0.poll(cx.waker())).await;
        match (asked, refused.get()) {
            (_, Some(why)) => Err(why.clone()),
            (Err(e), None) => Err(e.to_string()),
            (Ok(_), None) => Ok(()),
        }
    }

    /// Runs the call. If the future is dropped, nobody wants the call any more.
    ///
    /// # Errors
    /// What became of the call, if there is no result.
    pub async fn call(self, procedure: u16, arguments: RemoteMessage) -> Result<RemoteMessage, CallError> {
        let record = self.record();
        self.run(record, procedure, arguments).await
    }

    /// As [`call`](Self::call), for a procedure with streams. They end, and the call stops to count
    /// among those of its export, when the second value is dropped.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn call_with_streams(
        self,
        procedure: u16,
        arguments: RemoteMessage,
    ) -> Result<(RemoteMessage, CallInStreams), CallError> {
        let (record, place) = (self.record(), self.place.clone());
        let in_streams = CallInStreams { _record: record.clone(), place };
        Ok((self.run(record, procedure, arguments).await?, in_streams))
    }

    fn record(&self) -> Arc<CallRecord> {
        let binding = Binding::new(self.place.0.name.clone(), self.peer.clone(), None);
        Arc::new(CallRecord(BindingRecord::new(binding, None, Arc::default())))
    }

    async fn run(
        self,
        record: Arc<CallRecord>,
        procedure: u16,
        arguments: RemoteMessage,
    ) -> Result<RemoteMessage, CallError> {
        let export = &self.place.0;
        let local = export.implementation.stub.clone().local();
        match local.and_then(|local| local.downcast::<Arc<dyn DispatchLocal>>().ok()) {
            Some(handlers) => self.call_handler(&**handlers, record, procedure, arguments).await,
            None => self.call_procedure(record, procedure, arguments).await,
        }
    }

    /// Runs the call on the executor of async handlers.
    async fn call_handler(
        self,
        handlers: &dyn DispatchLocal,
        record: Arc<CallRecord>,
        procedure: u16,
        arguments: RemoteMessage,
    ) -> Result<RemoteMessage, CallError> {
        self.admit().await.map_err(|_| REFUSED)?;
        // A client that is refused gets no memory files.
        let arguments = arguments.into_local().map_err(no_room)?;
        let begin = || begin_with(handlers, &record.0, procedure, arguments);
        let wanted = within(self.context.as_ref(), begin)?;
        result(&wanted).await
    }

    /// Runs the call on a user-level thread.
    async fn call_procedure(
        self,
        record: Arc<CallRecord>,
        procedure: u16,
        arguments: RemoteMessage,
    ) -> Result<RemoteMessage, CallError> {
        let export = self.place.0.clone();
        let (authorize, stub) = (export.options.authorize.clone(), export.implementation.stub.clone());
        let answer = Arc::<LocalAnswer>::default();
        let wanted = WantedCall(answer.clone());
        let work = move || {
            let mut at_end = AnswerAtEnd::new(answer);
            let peer = record.0.binding().peer();
            let allowed = authorize.map_or(Ok(()), |decide| decision(&*decide, peer));
            at_end.result = Some(allowed.map_err(|_| REFUSED).and_then(|()| {
                // As in `call_handler`, and the thread makes them, not the transport's.
                let arguments = arguments.into_local().map_err(no_room)?;
                let _within = within_binding(&record.0);
                within(self.context.as_ref(), || DetachedCall::new(procedure, arguments).run(&*stub))
            }));
            // The thread may run on after its caller has given up: it counts until here. If no
            // thread can be started that drops the call's state, this panics.
            drop((record, self));
        };
        let _thread = export.thread(work).map_err(no_room)?;
        result(&wanted).await
    }
}

/// Waits for the result of a call.
async fn result(wanted: &WantedCall) -> Result<RemoteMessage, CallError> {
    let message = poll_fn(|cx| wanted.0.poll(cx.waker())).await?;
    RemoteMessage::of(message).map_err(|e| CallError::NoResources(Outcome::Executed, e.to_string()))
}

/// There is no room for the arguments.
fn no_room(e: io::Error) -> CallError {
    CallError::NoResources(Outcome::NotStarted, e.to_string())
}

/// What `decide` says of a client. If it panics, the client is refused.
fn decision(decide: &(dyn Fn(&Peer) -> Grant + Send + Sync), peer: &Peer) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(|| decide(peer))) {
        Ok(Grant { refusal: None, .. }) => Ok(()),
        Ok(Grant { refusal: Some(why), .. }) => Err(why),
        Err(panic) => Err(format!("its `authorize` panicked: {}", panic_message(&*panic))),
    }
}

impl fmt::Debug for RemoteExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteExport")
            .field("name", &self.0.name)
            .field("interface", &self.interface().name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CallInStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallInStreams").field("export", &self.place.0.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for RunningCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningCall").field("export", &self.place.0.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
