//! The server's services, without their types.

use http::{Request, Response};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

/// An error of a service, as tower's services have it.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The response that is awaited.
pub type Responding = Pin<Box<dyn Future<Output = Result<Response<Body>, Status>> + Send>>;

/// What answers requests.
pub(crate) trait Responder: Send + Sync {
    /// Answers a request.
    fn respond(&self, request: Request<Body>) -> Responding;
}

/// A tower service of gRPC requests: tonic's `Routes`, a generated server, or one of them in
/// layers. All such services have it, so there is nothing to implement.
///
/// # Examples
/// ```
/// use tonic::service::Routes;
/// use underpass_grpc::ServesGrpc;
///
/// fn takes(_: impl ServesGrpc) {}
/// # fn routes(routes: Routes) {
/// takes(routes);
/// # }
/// ```
pub trait ServesGrpc: Clone + Send + 'static {
    /// Answers a request.
    #[doc(hidden)]
    fn answer(self, request: Request<Body>) -> Responding;
}

impl<S, B> ServesGrpc for S
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn answer(mut self, request: Request<Body>) -> Responding {
        Box::pin(async move {
            std::future::poll_fn(|task| self.poll_ready(task)).await.map_err(status)?;
            let response = self.call(request).await.map_err(status)?;
            Ok(response.map(Body::new))
        })
    }
}

/// A service that several threads use: each call has a clone of its own.
pub(crate) struct Cloned<S>(Mutex<S>);

impl<S> Cloned<S> {
    pub(crate) fn new(service: S) -> Self {
        Self(Mutex::new(service))
    }
}

impl<S: ServesGrpc> Responder for Cloned<S> {
    fn respond(&self, request: Request<Body>) -> Responding {
        let service = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        service.answer(request)
    }
}

fn status(error: impl Into<BoxError>) -> Status {
    Status::from_error(error.into())
}
