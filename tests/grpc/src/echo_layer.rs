//! A layer that sends two headers of the request back: one as a header, one as a trailer.

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Frame;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::body::Body;
use tower_layer::Layer;
use tower_service::Service;

/// Comes back as a header.
pub const INITIAL: &str = "x-grpc-test-echo-initial";
/// Comes back as a trailer.
pub const TRAILING: &str = "x-grpc-test-echo-trailing-bin";

/// The layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct EchoLayer;

/// The service that it makes.
#[derive(Clone, Debug)]
pub struct EchoService<S>(S);

impl<S> Layer<S> for EchoLayer {
    type Service = EchoService<S>;

    fn layer(&self, below: S) -> EchoService<S> {
        EchoService(below)
    }
}

/// A body with one more trailer.
struct Trailed {
    body: Body,
    trailer: Option<HeaderValue>,
}

type Responding<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

impl<S, B> Service<Request<B>> for EchoService<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Responding<S::Error>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(task)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let [initial, trailer] = [INITIAL, TRAILING].map(|name| request.headers().get(name).cloned());
        let responding = self.0.call(request);
        Box::pin(async move {
            let mut response = responding.await?;
            if let Some(initial) = initial {
                response.headers_mut().insert(INITIAL, initial);
            }
            Ok(response.map(|body| Body::new(Trailed { body, trailer })))
        })
    }
}

impl http_body::Body for Trailed {
    type Data = bytes::Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, tonic::Status>>> {
        let trailed = self.get_mut();
        let frame = std::task::ready!(Pin::new(&mut trailed.body).poll_frame(task));
        let name = HeaderName::from_static(TRAILING);
        Poll::Ready(match frame {
            Some(Ok(frame)) if frame.is_trailers() => {
                let mut trailers = frame.into_trailers().unwrap_or_default();
                trailers.extend(trailed.trailer.take().map(|value| (name, value)));
                Some(Ok(Frame::trailers(trailers)))
            }
            None => {
                let trailer = trailed.trailer.take();
                trailer.map(|value| Ok(Frame::trailers(HeaderMap::from_iter([(name, value)]))))
            }
            frame => frame,
        })
    }
}
