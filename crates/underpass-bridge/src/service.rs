//! Each request becomes a call of the channel.

use http::{Request, Response};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::service::Routes;
use tower_service::Service;
use underpass_grpc::Channel;

/// Passes gRPC calls on to a channel, whatever their methods. Clones share the channel.
#[derive(Clone, Debug)]
pub struct Bridge(Channel);

impl Bridge {
    /// A bridge to the server of `channel`.
    pub fn new(channel: Channel) -> Self {
        Self(channel)
    }

    /// All methods, for a tonic server.
    pub(crate) fn routes(self) -> Routes {
        let mut routes = Routes::default();
        let router = routes.axum_router_mut();
        *router = std::mem::take(router).fallback_service(self);
        routes
    }
}

impl<B> Service<Request<B>> for Bridge
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut channel = self.0.clone();
        Box::pin(async move {
            // A channel of this machine is always ready. Others say so here.
            let ready = std::future::poll_fn(|task| Service::poll_ready(&mut channel, task)).await;
            let called = match ready {
                Ok(()) => channel.call(request.map(Body::new)).await,
                Err(status) => Err(status),
            };
            Ok(called.unwrap_or_else(tonic::Status::into_http))
        })
    }
}
