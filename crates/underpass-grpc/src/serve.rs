//! Services of tonic's for `underpass::Server`.

use crate::alongside::Alongside;
use crate::grpc_server::GrpcServer;
use crate::hand_off::HandOff;
use crate::responder::{Cloned, Responder, ServesGrpc};
use crate::transport::GrpcTransportAsync;
use std::sync::Arc;
use tokio::runtime::Handle;
use underpass::Server;

/// How a server of this machine serves: on which runtime, and how calls get there.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is served before `service` or `alongside`"]
pub struct ServeOptions {
    runtime: Option<Handle>,
    hand_off: HandOff,
}

impl ServeOptions {
    /// The runtime of the calling task, and [`HandOff::PollFirst`].
    pub fn new() -> Self {
        Self::default()
    }

    /// The runtime on which handlers run. Without it, it is that of the task that calls
    /// [`service`](Self::service) or [`alongside`](Self::alongside).
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// How a call gets to the runtime.
    pub fn hand_off(mut self, hand_off: HandOff) -> Self {
        self.hand_off = hand_off;
        self
    }

    /// A service that [`underpass::Server`] can export: what tonic's `Routes` serve, or any tower
    /// service of gRPC requests.
    ///
    /// # Panics
    /// If no runtime was given, outside of a task.
    pub fn service(self, routes: impl ServesGrpc) -> underpass::Service {
        self.serve(Arc::new(Cloned::new(routes)))
    }

    /// A layer that exports the same services as `name`, beside the listener of a tonic server. The
    /// exports are those of `server`, with its limits and its mode. `adjust` changes the service,
    /// for example to `authorize` clients.
    ///
    /// # Errors
    /// The name can't be exported. The error names the remedy.
    ///
    /// # Panics
    /// If no runtime was given, outside of a task.
    ///
    /// # Examples
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # let dir = std::env::temp_dir().join(format!("underpass-doc-grpc-alongside-{}", std::process::id()));
    /// # let server = underpass::Server::new().directory(&dir);
    /// # runtime.block_on(async {
    /// use underpass_grpc::ServeOptions;
    ///
    /// // let server = underpass::Server::new();
    /// let layer = ServeOptions::new().alongside(server, "greeter", |service| {
    ///     service.authorize(|peer| peer.uid() == 1000)
    /// })?;
    /// # drop(layer);
    /// # Ok::<(), underpass::Error>(())
    /// # })?;
    /// # std::fs::remove_dir_all(dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn alongside(
        self,
        server: Server,
        name: impl Into<String>,
        adjust: impl FnOnce(underpass::Service) -> underpass::Service,
    ) -> underpass::Result<Alongside> {
        let (slot, alongside) = Alongside::unserved();
        let running = server.export(name, adjust(self.serve(slot))).start()?;
        Ok(alongside.exported(running))
    }

    fn serve(self, responder: Arc<dyn Responder>) -> underpass::Service {
        let runtime = self.runtime.unwrap_or_else(Handle::current);
        let (server, hand_off) = (GrpcServer::new(responder, runtime.clone()), self.hand_off);
        GrpcTransportAsync::serve(server, move |handler| hand_off.start(&runtime, handler))
    }
}

/// A service that [`underpass::Server`] can export, of tonic's `Routes` or any tower service of
/// gRPC requests: for a server without TCP. Handlers run on the runtime of the calling task.
///
/// # Panics
/// Outside of a task.
///
/// # Examples
/// ```
/// use std::convert::Infallible;
/// use tonic::body::Body;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-grpc-service-{}", std::process::id()));
/// # runtime.block_on(async {
///
/// // Usually `Routes::new(GreeterServer::new(greeter))`.
/// #[derive(Clone)]
/// struct NothingYet;
/// impl tower_service::Service<http::Request<Body>> for NothingYet {
///     type Response = http::Response<Body>;
///     type Error = Infallible;
///     type Future = std::future::Ready<Result<http::Response<Body>, Infallible>>;
///     fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
///         std::task::Poll::Ready(Ok(()))
///     }
///     fn call(&mut self, _: http::Request<Body>) -> Self::Future {
///         std::future::ready(Ok(tonic::Status::unimplemented("not yet").into_http()))
///     }
/// }
///
/// let server = underpass::Server::new();
/// # let server = server.directory(&dir);
/// let running = server.export("greeter", underpass_grpc::service(NothingYet)).start()?;
/// # drop(running);
/// # Ok::<(), underpass::Error>(())
/// # })?;
/// # std::fs::remove_dir_all(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn service(routes: impl ServesGrpc) -> underpass::Service {
    ServeOptions::new().service(routes)
}

/// A layer that exports a tonic server's services as `name` too, beside its listener:
/// `.layer(underpass_grpc::alongside("greeter")?)`. Put it before other layers, so that calls of
/// both kinds pass those. Handlers run on the runtime of the calling task.
///
/// What tonic does outside of layers does not reach these calls: `Server::timeout` and the limits
/// of concurrency. The export ends with the server.
///
/// # Errors
/// The name can't be exported. The error names the remedy.
///
/// # Panics
/// Outside of a task.
///
/// # Examples
/// See the [crate](crate).
pub fn alongside(name: impl Into<String>) -> underpass::Result<Alongside> {
    ServeOptions::new().alongside(Server::new(), name, |service| service)
}
