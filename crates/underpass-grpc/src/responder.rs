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
pub(crate) type Responding = Pin<Box<dyn Future<Output = Result<Response<Body>, Status>> + Send>>;

/// What answers requests.
pub(crate) trait Responder: Send + Sync {
    /// Answers a request.
    fn respond(&self, request: Request<Body>) -> Responding;
}

/// A service that several threads use: each call has a clone of its own.
pub(crate) struct Cloned<S>(Mutex<S>);

impl<S> Cloned<S> {
    pub(crate) fn new(service: S) -> Self {
        Self(Mutex::new(service))
    }
}

impl<S, B> Responder for Cloned<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn respond(&self, request: Request<Body>) -> Responding {
        let mut service = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move {
            std::future::poll_fn(|task| service.poll_ready(task)).await.map_err(status)?;
            let response = service.call(request).await.map_err(status)?;
            Ok(response.map(Body::new))
        })
    }
}

fn status(error: impl Into<BoxError>) -> Status {
    Status::from_error(error.into())
}
