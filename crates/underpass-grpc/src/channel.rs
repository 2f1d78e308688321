//! The client's end, for generated clients.

use crate::endpoint::{Endpoint, bad_address};
use crate::near::Near;
use bytes::Bytes;
use http::{Request, Response};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

/// A channel to a gRPC server: in a domain of this machine, over HTTP/2 anywhere, or over HTTP/2
/// and a Unix socket.
///
/// It takes the place of tonic's `Channel`. Generated clients take it, with interceptors, layers,
/// compression and limits as before. Clones share one connection.
///
/// | address | goes to |
/// |---|---|
/// | `underpass:greeter` | the domain that exports this name, over shared memory |
/// | `http://host:port` | tonic's own channel |
/// | `https://host:port` | tonic's own channel with TLS (feature `tls`) |
/// | `unix:/run/greeter.sock` | tonic's own channel over a Unix socket: where there is no shared memory |
///
/// # Examples
/// ```no_run
/// use underpass_grpc::Channel;
///
/// # async fn connect() -> Result<(), tonic::Status> {
/// let channel = Channel::from_static("underpass:greeter").connect().await?;
/// // let mut client = GreeterClient::new(channel);
/// # drop(channel);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Channel(Route);

/// Where the calls of a channel go.
#[derive(Clone)]
pub(crate) enum Route {
    Near(Near),
    Far(tonic::transport::Channel),
    /// Nowhere, and why.
    None(Arc<str>),
}

/// The response that a call waits for. If it is dropped, the call is given up.
pub struct ResponseFuture(Pin<Box<dyn Future<Output = Result<Response<Body>, Status>> + Send>>);

impl Channel {
    /// The server at `address`. If that is no address, connecting and calls fail.
    pub fn from_static(address: &'static str) -> Endpoint {
        Endpoint::new(address)
    }

    /// As [`from_static`](Self::from_static), for an address that is computed.
    ///
    /// # Errors
    /// The address is no text: `INVALID_ARGUMENT`.
    pub fn from_shared(address: impl Into<Bytes>) -> Result<Endpoint, Status> {
        let address = address.into();
        let text = std::str::from_utf8(&address).map_err(|_| bad_address("the address is no text"))?;
        Ok(Endpoint::new(text))
    }

    pub(crate) fn over(way: Route) -> Self {
        Self(way)
    }

    /// Connects, if that was not done.
    ///
    /// # Errors
    /// As of [`Endpoint::connect`].
    pub(crate) async fn connected(&self) -> Result<(), Status> {
        match &self.0 {
            Route::Near(near) => near.connect().await,
            Route::Far(_) => Ok(()),
            Route::None(why) => Err(bad_address(why)),
        }
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = Status;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), Status>> {
        match &mut self.0 {
            Route::Far(far) => far.poll_ready(task).map_err(|error| Status::from_error(Box::new(error))),
            // A call that can't be made says so better than a service that is not ready.
            Route::Near(_) | Route::None(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<Body>) -> ResponseFuture {
        ResponseFuture(match &mut self.0 {
            Route::Near(near) => Box::pin(near.clone().call(request)),
            Route::Far(far) => {
                let response = far.call(request);
                Box::pin(async move { response.await.map_err(|error| Status::from_error(Box::new(error))) })
            }
            Route::None(why) => {
                let status = bad_address(why);
                Box::pin(async move { Err(status) })
            }
        })
    }
}

impl Future for ResponseFuture {
    type Output = Result<Response<Body>, Status>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(task)
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match &self.0 {
            Route::Near(near) => return f.debug_tuple("Channel").field(near).finish(),
            Route::Far(_) => "tonic's",
            Route::None(why) => why,
        };
        f.debug_tuple("Channel").field(&way).finish()
    }
}

impl fmt::Debug for ResponseFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
