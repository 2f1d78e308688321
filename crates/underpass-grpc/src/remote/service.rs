//! The server's side: from a request to a call of an export.

use crate::remote::address::{IMPORT, SERVICE, name_and_method};
use crate::remote::codec::BytesCodec;
use crate::remote::incoming::ConnectedClient;
use crate::remote::metadata;
use crate::remote::status::{no_proof, other_instance, status_of};
use crate::remote::stream_messages::MOST_BESIDE;
use crate::remote::stream_service::StreamMethod;
use crate::responder::BoxError;
use crate::timeout::grpc_timeout;
use bytes::Bytes;
use http::Response as HttpResponse;
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::server::TcpConnectInfo;
use tonic::{Request, Response, Status};
use tower_service::Service;
use underpass::remote::{CallInStreams, RemoteExport, RemoteMessage, RemotePeer, RunningCall};
use underpass::{CallError, ExportError, Outcome};
use underpass_wire::Procedure;

/// The exports of a [`RemoteServer`](crate::remote::RemoteServer) as a service, for a tonic server
/// that listens for other services too: `Server::builder().add_service(..)`. Clones share the
/// exports.
///
/// That server's TLS verifies certificates, and passes them on. If it has no TLS, or its clients
/// need no certificates, exports that want them refuse all clients.
///
/// *Tokens need TLS.* A server without TLS, at an address that other machines reach, lets anybody
/// on the way read them. So a request with a token is refused if it came without TLS from another
/// machine. The service does not see that behind a listener that is not tonic's own for TCP, or
/// behind a proxy on this machine: such a one has to use TLS itself.
#[derive(Clone)]
pub struct RemoteService {
    exports: Arc<HashMap<String, RemoteExport>>,
    /// The most bytes of a message.
    most_bytes: usize,
}

/// What a server exports under a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exports {
    pub(super) hashes: Vec<u64>,
    pub(super) text: String,
    pub(super) instance: Option<u128>,
}

impl Exports {
    fn of(export: &RemoteExport) -> Bytes {
        let interface = export.interface();
        underpass_wire::to_bytes(&(interface.hashes(), interface.text(), export.instance())).into()
    }

    /// # Errors
    /// The bytes are none.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let read =
            underpass_wire::from_bytes(bytes).map_err(|e| format!("the server's answer can't be read: {e}"));
        let (hashes, text, instance) = read?;
        Ok(Self { hashes, text, instance })
    }
}

impl RemoteService {
    /// # Errors
    /// Two exports have one name.
    pub(super) fn new(exports: Vec<RemoteExport>, most_bytes: usize) -> Result<Self, ExportError> {
        let mut by_name = HashMap::new();
        for export in exports {
            let name = export.name().to_owned();
            if by_name.insert(name.clone(), export).is_some() {
                return Err(ExportError::Remote(name, "it is exported twice".to_owned()));
            }
        }
        Ok(Self { exports: Arc::new(by_name), most_bytes })
    }

    pub(super) fn exports(&self) -> impl Iterator<Item = &RemoteExport> {
        self.exports.values()
    }

    /// What a request asks for, if its client has proved who it is, and if there is room for its
    /// call. Nothing of the message was read yet.
    fn asked<B>(&self, request: &http::Request<B>) -> Result<Asked, Status> {
        let none = || Status::unimplemented("there is no such method");
        let (name, method) = name_and_method(request.uri().path()).ok_or_else(none)?;
        let not_exported = || Status::not_found(format!("{name:?} is not exported to other machines here"));
        let export = self.exports.get(&name).ok_or_else(not_exported)?;
        let token = metadata::token(request.headers());
        let client = Client::of(request.extensions());
        if token.is_some() && export.peers().takes_tokens() && client.is_in_the_clear {
            return Err(no_proof("tokens are not taken without TLS, except from this very machine"));
        }
        let peer = export.identify(client.peer, token).map_err(no_proof)?;
        if let Some(connected) = client.connected {
            connected.has_proved();
        }
        let call = export.begin(peer).map_err(|error| status_of(&error))?;
        let call = call.within(metadata::context(request.headers()));
        // The question for the interface has no arguments.
        let most_bytes = if method == IMPORT { 0 } else { self.most_bytes };
        Ok(Asked { export: export.clone(), call, method: method.to_owned(), most_bytes })
    }
}

/// A request whose client is known.
pub(super) struct Asked {
    export: RemoteExport,
    call: RunningCall,
    method: String,
    /// The most bytes of its message.
    pub(super) most_bytes: usize,
}

impl Asked {
    async fn answer(self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        if self.method == IMPORT {
            self.call.admit().await.map_err(Status::permission_denied)?;
            return Ok(Response::new(Exports::of(&self.export)));
        }
        self.check(request.metadata())?;
        let procedure = self.procedure().ok_or_else(unknown)?.index;
        let (beside, _, bytes) = request.into_parts();
        let arguments = metadata::message(&beside, bytes)?;
        let called = self.call.call(procedure, arguments).await;
        let result = called.map_err(|error| status_of(&error))?;
        let mut response = Response::new(());
        let bytes = metadata::put_message(response.metadata_mut(), result);
        Ok(response.map(|()| bytes))
    }

    /// The procedure, if there is one of that name.
    fn procedure(&self) -> Option<&'static Procedure> {
        self.export.interface().procedures.iter().find(|procedure| procedure.name == self.method)
    }

    /// Whether the method is one that passes streams.
    fn passes_streams(&self) -> bool {
        self.procedure().is_some_and(|procedure| self.export.interface().passes_streams(procedure))
    }

    /// Runs the call of a procedure that passes streams.
    ///
    /// # Errors
    /// What became of it, if there is no result.
    pub(super) async fn call_with_streams(
        self,
        arguments: RemoteMessage,
    ) -> Result<(RemoteMessage, CallInStreams), CallError> {
        let unsupported = CallError::Unsupported(Outcome::NotStarted);
        let procedure = self.procedure().ok_or(unsupported)?.index;
        self.call.call_with_streams(procedure, arguments).await
    }

    /// Whether client and server mean the same interface, and the same state.
    ///
    /// # Errors
    /// They do not.
    pub(super) fn check(&self, metadata: &tonic::metadata::MetadataMap) -> Result<(), Status> {
        if self.export.interface().common(&metadata::versions(metadata)?).is_none() {
            let why = "the server has another version of the interface now; import it again".to_owned();
            return Err(status_of(&CallError::Decode(Outcome::NotStarted, why)));
        }
        match self.export.instance() {
            Some(instance) if metadata::instance(metadata)? != Some(instance) => Err(other_instance()),
            _ => Ok(()),
        }
    }
}

/// There is no such method.
fn unknown() -> Status {
    status_of(&CallError::Unsupported(Outcome::NotStarted))
}

/// The method of a request, for tonic's codec.
struct Method {
    asked: Option<Asked>,
    /// Whether the message has come.
    come: Arc<AtomicBool>,
}

/// How long a client may take to send its message. A call counts from its beginning.
const SENDING: Duration = Duration::from_secs(60);

/// Ends when the time for the message is over, if it has not come by then.
async fn late(come: &AtomicBool) {
    tokio::time::sleep(SENDING).await;
    // Relaxed: the same task has set it.
    if come.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

impl UnaryService<Bytes> for Method {
    type Response = Bytes;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        // Relaxed: see `late`.
        self.come.store(true, Ordering::Relaxed);
        let (asked, left) = (self.asked.take(), grpc_timeout(request.metadata().as_ref()));
        Box::pin(async move {
            let Some(asked) = asked else { return Err(Status::internal("a request was answered twice")) };
            match left {
                None => asked.answer(request).await,
                Some(left) => tokio::time::timeout(left, asked.answer(request))
                    .await
                    .unwrap_or_else(|_| Err(status_of(&CallError::Deadline(Outcome::Unknown)))),
            }
        })
    }
}

/// What the listener knows of a client.
struct Client {
    peer: RemotePeer,
    /// Anybody on the way can read what it sends. Not known of each listener.
    is_in_the_clear: bool,
    connected: Option<ConnectedClient>,
}

impl Client {
    /// The client of a request with these extensions.
    fn of(extensions: &http::Extensions) -> Self {
        #[cfg(feature = "tls")]
        if let Some(client) = Self::over_tls(extensions) {
            return client;
        }
        let connected = extensions.get::<ConnectedClient>().cloned();
        let tcp = || extensions.get::<TcpConnectInfo>().and_then(|tcp| tcp.remote_addr());
        let address = connected.as_ref().map(|client| client.address).or_else(tcp);
        // A listener for IPv6 may show addresses of IPv4 as `::ffff:127.0.0.1`.
        let is_in_the_clear = address.is_some_and(|address| !address.ip().to_canonical().is_loopback());
        Self { peer: RemotePeer::at(address), is_in_the_clear, connected }
    }

    /// The same, if the request came over TLS.
    #[cfg(feature = "tls")]
    fn over_tls(extensions: &http::Extensions) -> Option<Self> {
        use tonic::transport::server::TlsConnectInfo;
        let own = extensions.get::<TlsConnectInfo<ConnectedClient>>();
        let tcp = extensions.get::<TlsConnectInfo<TcpConnectInfo>>();
        let certificates = own.and_then(|tls| tls.peer_certs()).or_else(|| tcp?.peer_certs());
        let connected = own.map(|tls| tls.get_ref().clone());
        let address = match (&connected, tcp) {
            (Some(connected), _) => Some(connected.address),
            (None, Some(tls)) => tls.get_ref().remote_addr(),
            (None, None) => return None,
        };
        let certificates = certificates.iter().flat_map(|all| all.iter()).map(|one| one.as_ref().to_vec());
        let peer = RemotePeer::at(address).with_certificates(certificates.collect());
        Some(Self { peer, is_in_the_clear: false, connected })
    }
}

impl<B> Service<http::Request<B>> for RemoteService
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError> + Send,
{
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        match self.asked(&request) {
            Ok(asked) if asked.passes_streams() => Box::pin(async move {
                let most_bytes = asked.most_bytes.saturating_add(MOST_BESIDE);
                let mut grpc = Grpc::new(BytesCodec).max_decoding_message_size(most_bytes);
                Ok(grpc.streaming(StreamMethod(Some(asked)), request).await)
            }),
            Ok(asked) => Box::pin(async move {
                let mut grpc = Grpc::new(BytesCodec).max_decoding_message_size(asked.most_bytes);
                let come = Arc::<AtomicBool>::default();
                let method = Method { asked: Some(asked), come: come.clone() };
                tokio::select! {
                    biased;
                    response = grpc.unary(method, request) => Ok(response),
                    () = late(&come) => Ok(Status::cancelled("the message did not come").into_http()),
                }
            }),
            Err(status) => Box::pin(async move { Ok(status.into_http()) }),
        }
    }
}

impl NamedService for RemoteService {
    const NAME: &'static str = SERVICE;
}

impl fmt::Debug for RemoteService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteService").field(&self.exports.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use underpass::remote::RemotePeers;

    #[underpass::interface(stateless)]
    trait Greeter {
        fn greet(&self) -> Result<(), CallError>;
    }

    struct Polite;

    impl Greeter for Polite {
        fn greet(&self) -> Result<(), CallError> {
            Ok(())
        }
    }

    #[test]
    fn tokens_in_the_clear_are_no_proof() {
        let whose = |token: &str| (token == "right").then(|| "alice".to_owned());
        let service = Greeter::serve(Polite).remote_peers(RemotePeers::token(whose));
        let exports = vec![RemoteExport::new("greeter", service).unwrap()];
        let exports = RemoteService::new(exports, 0).unwrap();
        let asked = |address: &str| {
            let tcp = TcpConnectInfo { local_addr: None, remote_addr: Some(address.parse().unwrap()) };
            let request = http::Request::builder().uri("/underpass.Remote/greeter.greet");
            let request = request.header("authorization", "Bearer right").extension(tcp).body(()).unwrap();
            exports.asked(&request).map(drop).map_err(|status| status.code())
        };
        for here in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(asked(here), Ok(()), "{here}");
        }
        for elsewhere in ["192.0.2.1:1", "[2001:db8::1]:1", "[::ffff:192.0.2.1]:1"] {
            assert_eq!(asked(elsewhere), Err(tonic::Code::Unauthenticated), "{elsewhere}");
        }
    }
}
