//! The client's side of an import from another machine.

use crate::remote::address::{IMPORT, RemoteAddress};
use crate::remote::codec::BytesCodec;
use crate::remote::metadata;
use crate::remote::runtime::runtime;
use crate::remote::service::Exports;
use crate::remote::status::failure_of;
use crate::remote::tls::chain;
use bytes::Bytes;
use http::uri::PathAndQuery;
use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};
use underpass::remote::{RemoteBinding, RemoteCall, RemoteMessage};
use underpass::{CallError, Descriptor, ImportError, Outcome, TraceContext};
use underpass_wire::Procedure;

/// Gives the token of the next call.
type Token = dyn Fn() -> String + Send + Sync;

/// What carries calls: channels, each with the runtime that has its connections.
pub(super) struct Carriers {
    /// That of the transport's own runtime.
    pub(super) own: Channel,
    /// The program's runtime, if it gave one.
    pub(super) given: Option<(Handle, Channel)>,
}

impl Carriers {
    /// What carries this call of a method. `None`: there is no runtime.
    fn of(&self, call: &RemoteCall, method: &RemoteMethod) -> Option<(Handle, Channel)> {
        let current = || Handle::try_current().ok().map(|current| current.id());
        // A thread may hold up its runtime until the call has ended, which a task does not. Streams
        // go on after the call.
        let goes_with_task = call.is_by_task() && !method.passes_streams;
        match &self.given {
            Some((given, channel)) if goes_with_task && current() == Some(given.id()) => {
                Some((given.clone(), channel.clone()))
            }
            _ => Some((runtime().ok()?.clone(), self.own.clone())),
        }
    }
}

/// An import that is under way.
pub(super) struct Import {
    pub(super) carriers: Carriers,
    pub(super) address: RemoteAddress,
    /// The address as it was written.
    pub(super) text: String,
    pub(super) interface: &'static Descriptor,
    pub(super) token: Option<Arc<Token>>,
    /// The most bytes of a message.
    pub(super) most_bytes: usize,
}

impl Import {
    /// Asks the server once which interface it exports. Returns which instance of the server it is,
    /// if the interface is stateful.
    pub(super) async fn attempt(&self) -> Result<Option<u128>, ImportError> {
        let refuse = |why: String| ImportError::Remote(self.text.clone(), why);
        let path = path(&self.address, IMPORT).map_err(refuse)?;
        let request = request(Bytes::new(), self.token.as_deref()).map_err(refuse)?;
        let response = unary(&self.carriers.own, request, path, self.most_bytes);
        let response = response.await.map_err(|status| self.error(&status))?;
        let exports = Exports::read(response.get_ref()).map_err(refuse)?;
        if self.interface.common(&exports.hashes).is_none() {
            return Err(ImportError::Mismatch {
                path: PathBuf::from(&self.text),
                ours: self.interface.hash,
                theirs: exports.hashes.first().copied().unwrap_or_default(),
                differences: self.interface.differences(&exports.text),
            });
        }
        match (self.interface.stateless, exports.instance) {
            (false, None) => Err(refuse("the server does not say which instance it is".to_owned())),
            (_, instance) => Ok(instance),
        }
    }

    /// Why there is no answer.
    fn error(&self, status: &Status) -> ImportError {
        let text = || self.text.clone();
        let why = || match status.message() {
            "" => chain(status),
            message => message.to_owned(),
        };
        match status.code() {
            // The status is this side's own: there is no connection, or TLS has failed.
            _ if status.source().is_some() => ImportError::Unreachable(text(), chain(status)),
            Code::Unauthenticated | Code::PermissionDenied => {
                ImportError::NotAuthorized(text().into(), why())
            }
            Code::Unimplemented => {
                ImportError::Remote(text(), "the server there exports nothing by Underpass".to_owned())
            }
            Code::Unavailable => ImportError::Unreachable(text(), why()),
            _ => ImportError::Refused(text().into(), why()),
        }
    }
}

/// An import from another machine.
pub(super) struct HttpBinding {
    shared: Arc<SharedHttpBinding>,
    methods: Vec<RemoteMethod>,
}

/// A method of the interface.
#[derive(Clone)]
struct RemoteMethod {
    path: PathAndQuery,
    passes_streams: bool,
}

/// What calls that are under way need.
pub(super) struct SharedHttpBinding {
    pub(super) carriers: Carriers,
    text: String,
    token: Option<Arc<Token>>,
    pub(super) most_bytes: usize,
    hashes: Vec<u64>,
    instance: Option<u128>,
    /// Another instance of the server has answered.
    ended: AtomicBool,
}

impl HttpBinding {
    /// What was imported, from this instance of the server.
    pub(super) fn new(import: Import, instance: Option<u128>) -> Self {
        let Import { carriers, address, text, interface, token, most_bytes } = import;
        let method = |procedure: &Procedure| {
            // The path of the import was good, and methods are identifiers.
            let path = path(&address, procedure.name).ok()?;
            Some(RemoteMethod { path, passes_streams: interface.passes_streams(procedure) })
        };
        let methods = interface.procedures.iter().filter_map(method).collect();
        let (hashes, ended) = (interface.hashes(), AtomicBool::new(false));
        let shared = SharedHttpBinding { carriers, text, token, most_bytes, hashes, instance, ended };
        Self { shared: Arc::new(shared), methods }
    }
}

impl RemoteBinding for HttpBinding {
    fn start(&self, mut call: RemoteCall) {
        let Some(method) = self.methods.get(usize::from(call.procedure())).cloned() else {
            return call.answer(Err(CallError::Unsupported(Outcome::NotStarted)));
        };
        if self.has_ended() {
            return call.answer(Err(CallError::PeerDied(Outcome::NotStarted)));
        }
        // Without a runtime the call is dropped, and so answered.
        let Some((runtime, channel)) = self.shared.carriers.of(&call, &method) else { return };
        let shared = self.shared.clone();
        let work = async move {
            let (unwanted, left) = (call.unwanted(), call.time_left());
            let path = method.path;
            if method.passes_streams {
                return shared.call_with_streams(call, path, left).await;
            }
            let (arguments, context) = (call.take_arguments(), call.trace_context().cloned());
            tokio::select! {
                // The request is dropped, which resets its stream.
                () = unwanted => drop(call),
                result = shared.call(&channel, arguments, path, left, context) => call.answer(result),
            }
        };
        runtime.spawn(work);
    }

    fn has_ended(&self) -> bool {
        // Relaxed: a call that reads the old value is told so by the server.
        self.shared.ended.load(Ordering::Relaxed)
    }

    fn address(&self) -> &str {
        &self.shared.text
    }
}

impl SharedHttpBinding {
    async fn call(
        &self,
        channel: &Channel,
        arguments: RemoteMessage,
        path: PathAndQuery,
        left: Option<Duration>,
        context: Option<TraceContext>,
    ) -> Result<RemoteMessage, CallError> {
        let length = arguments.bytes.len() + arguments.sealed.iter().map(Vec::len).sum::<usize>();
        let mut request = self.request((), length, left, context.as_ref())?;
        let bytes = metadata::put_message(request.metadata_mut(), arguments);
        let request = request.map(|()| bytes);
        let begun = tokio::time::Instant::now();
        let late = || left.is_some_and(|left| begun.elapsed() >= left);
        let called = within(left, unary(channel, request, path, self.most_bytes)).await;
        match called {
            Ok(response) => {
                let (beside, bytes, _) = response.into_parts();
                metadata::message(&beside, bytes)
                    .map_err(|status| CallError::Decode(Outcome::Executed, status.message().to_owned()))
            }
            Err(status) => Err(self.failed(&status, late())),
        }
    }

    /// The request of a call, with all that goes beside its message. `length`: the bytes of that.
    pub(super) fn request<T>(
        &self,
        message: T,
        length: usize,
        left: Option<Duration>,
        context: Option<&TraceContext>,
    ) -> Result<Request<T>, CallError> {
        if left.is_some_and(|left| left.is_zero()) {
            return Err(CallError::Deadline(Outcome::NotStarted));
        }
        let refuse = |why: String| CallError::NoResources(Outcome::NotStarted, why);
        if length > self.most_bytes {
            let most = self.most_bytes;
            return Err(refuse(format!(
                "a message of {length} bytes is larger than {most}; see `Remote::largest`"
            )));
        }
        let mut request = request(message, self.token.as_deref()).map_err(refuse)?;
        metadata::put_versions(request.metadata_mut(), &self.hashes);
        metadata::put_instance(request.metadata_mut(), self.instance);
        metadata::put_context(request.metadata_mut(), context);
        if let Some(left) = left {
            request.set_timeout(left);
        }
        Ok(request)
    }

    /// The failure of a call that ended with this status. `late`: whether its time was over.
    pub(super) fn failed(&self, status: &Status, late: bool) -> CallError {
        let error = failure_of(status, late);
        // Only the server says this of a call that it has not started.
        if self.instance.is_some()
            && error == CallError::PeerDied(Outcome::NotStarted)
            && status.source().is_none()
        {
            // Relaxed: see `has_ended`.
            self.ended.store(true, Ordering::Relaxed);
        }
        error
    }
}

/// Waits for a response, but no longer than its caller does.
pub(super) async fn within<T>(
    left: Option<Duration>,
    response: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let late = |_| Err(Status::deadline_exceeded("the deadline passed"));
    match left {
        Some(left) => tokio::time::timeout(left, response).await.unwrap_or_else(late),
        None => response.await,
    }
}

/// The path of a method's requests.
fn path(address: &RemoteAddress, method: &str) -> Result<PathAndQuery, String> {
    address.path(method).parse().map_err(|_| format!("{:?} can't be a part of an address", address.name))
}

/// A request of this client.
fn request<T>(message: T, token: Option<&Token>) -> Result<Request<T>, String> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", metadata::authorization(&token())?);
    }
    Ok(request)
}

async fn unary(
    channel: &Channel,
    request: Request<Bytes>,
    path: PathAndQuery,
    most_bytes: usize,
) -> Result<Response<Bytes>, Status> {
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(most_bytes);
    grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
    grpc.unary(request, path, BytesCodec).await
}
