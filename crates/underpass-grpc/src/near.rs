//! Calls to a server on this machine.

use crate::body_stream::{BodyReader, BodyWriter};
use crate::frame_bytes::FrameBytes;
use crate::gather::{BodyRest, gather};
use crate::header_bytes::HeaderBytes;
use crate::outcome;
use crate::timeout::grpc_timeout;
use crate::transport::{AnswerEnd, GrpcAnswer, GrpcRequest, GrpcTransportClient};
use crate::whole_body::WholeBody;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::{Code, Status};
use underpass::{CallError, Outcome};

/// The way to one name, and the binding to its server. Clones share the binding.
#[derive(Clone, Debug)]
pub(crate) struct Near(Arc<NearServer>);

#[derive(Debug)]
struct NearServer {
    name: String,
    /// How long a call may wait for its response's beginning.
    timeout: Option<Duration>,
    /// How long an import waits for the name.
    connect_timeout: Option<Duration>,
    bound: RwLock<Option<Arc<Bound>>>,
    /// Held by the task that imports.
    importing: tokio::sync::Mutex<()>,
}

/// A binding.
#[derive(Debug)]
struct Bound {
    client: GrpcTransportClient,
    /// A call has failed because the binding has ended. The next call imports again.
    ended: AtomicBool,
}

/// The task that writes a request's rest. It ends when the call is over.
#[derive(Debug)]
struct RequestWriter(JoinHandle<()>);

impl Drop for RequestWriter {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a response's body keeps alive: the binding, over which its streams go, and the writer of
/// the request.
type ResponseKeeps = (Arc<Bound>, Option<RequestWriter>);

impl Near {
    pub(crate) fn new(name: String, timeout: Option<Duration>, connect_timeout: Option<Duration>) -> Self {
        Self(Arc::new(NearServer {
            name,
            timeout,
            connect_timeout,
            bound: RwLock::default(),
            importing: tokio::sync::Mutex::default(),
        }))
    }

    /// Imports the name, unless that was done.
    ///
    /// # Errors
    /// There is no server, or it refuses this client.
    pub(crate) async fn connect(&self) -> Result<(), Status> {
        self.bound().await.map(|_| ())
    }

    /// The binding, if there is one that has not ended.
    fn known(&self) -> Option<Arc<Bound>> {
        let bound = self.0.bound.read().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: a task that reads the old value calls in vain, and is told so.
        bound.clone().filter(|bound| !bound.ended.load(Ordering::Relaxed))
    }

    async fn bound(&self) -> Result<Arc<Bound>, Status> {
        if let Some(bound) = self.known() {
            return Ok(bound);
        }
        let _importing = self.0.importing.lock().await;
        if let Some(bound) = self.known() {
            return Ok(bound);
        }
        let server = self.0.clone();
        let import = move || match server.connect_timeout {
            Some(time) => GrpcTransportClient::import_within(&server.name, time),
            None => GrpcTransportClient::import(&server.name),
        };
        // An import blocks.
        let imported = tokio::task::spawn_blocking(import).await;
        let client = imported
            .map_err(|_| Status::unavailable("the runtime ends"))?
            .map_err(|error| outcome::of_import(&error))?;
        let bound = Arc::new(Bound { client, ended: AtomicBool::new(false) });
        *self.0.bound.write().unwrap_or_else(PoisonError::into_inner) = Some(bound.clone());
        Ok(bound)
    }

    /// Makes a gRPC call. A future that is dropped gives it up.
    ///
    /// # Errors
    /// What became of the call, if there is no response.
    pub(crate) async fn call(self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let bound = self.bound().await?;
        let (head, mut body) = request.into_parts();
        let headers = HeaderBytes::of(&head.headers)?;
        let gathered = gather(&mut body).await?;
        let path = head.uri.path().to_owned();
        let request = GrpcRequest { path, headers, body: FrameBytes::from(gathered.data) };
        let limits = [grpc_timeout(&head.headers), self.0.timeout];
        let limited = limits.into_iter().flatten().min().map(|time| bound.client.with_deadline(time));
        let client = limited.as_ref().unwrap_or(&bound.client);
        // tonic's requests have no trailers.
        let (answer, writer) = match gathered.rest {
            BodyRest::Ended(_) => (client.whole_async(request).await, None),
            BodyRest::GoesOn => {
                let opened = BodyWriter::open();
                let (writer, rest) = opened.map_err(|error| outcome::of_open(&error, Outcome::NotStarted))?;
                let writer = RequestWriter(tokio::spawn(writer.write(body)));
                (client.begun_async(request, rest).await, Some(writer))
            }
        };
        match answer {
            Ok(answer) => response::<ResponseKeeps>(answer, (bound, writer)),
            Err(error) => {
                bound.note(&error);
                Err(outcome::of_call(&error))
            }
        }
    }
}

impl Bound {
    fn note(&self, error: &CallError) {
        use CallError::{Captured, Closed, Forked, PeerDied, ProtocolViolation, Revoked};
        if matches!(error, PeerDied(_) | Closed(_) | Revoked(_) | Captured(_) | Forked | ProtocolViolation(_))
        {
            // Relaxed: see `known`.
            self.ended.store(true, Ordering::Relaxed);
        }
    }
}

/// The response that an answer tells of.
///
/// # Errors
/// The server's bytes are no response.
pub(crate) fn response<K: Send + Unpin + 'static>(
    answer: GrpcAnswer,
    keeps: K,
) -> Result<Response<Body>, Status> {
    let executed = |status| outcome::with_outcome(status, Outcome::Executed);
    let status = StatusCode::from_u16(answer.status)
        .map_err(|_| executed(Status::internal("the server sent a status that is none")))?;
    let headers = answer.headers.into_headers().map_err(executed)?;
    let data = answer.body.into_bytes();
    let body = match answer.end {
        AnswerEnd::Nothing => whole(data, None),
        AnswerEnd::Trailers(trailers) => whole(data, Some(trailers.into_headers().map_err(executed)?)),
        AnswerEnd::Frames(rest) => Body::new(BodyReader::new(data, rest, Code::Unavailable, keeps)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

fn whole(data: Bytes, trailers: Option<HeaderMap>) -> Body {
    Body::new(WholeBody::new(data, trailers))
}
