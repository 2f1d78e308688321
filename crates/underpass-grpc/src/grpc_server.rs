//! The server's end: from a call to a request, and from a response to the answer.

use crate::body_stream::{BodyReader, BodyWriter};
use crate::frame_bytes::FrameBytes;
use crate::gather::{BodyRest, gather};
use crate::header_bytes::HeaderBytes;
use crate::outcome;
use crate::responder::{Responder, Responding};
use crate::transport::{AnswerEnd, BodyPiece, GrpcAnswer, GrpcRequest, GrpcTransportAsync};
use crate::whole_body::WholeBody;
use http::{Method, Request, Response, Uri, Version};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::runtime::Handle;
use tonic::body::Body;
use tonic::{Code, Status};
use underpass::stream::Stream;
use underpass::{CallError, Outcome};

/// Serves a tower service as [`GrpcTransport`](crate::transport::GrpcTransport).
pub(crate) struct GrpcServer {
    responder: Arc<dyn Responder>,
    /// Where responses are written that go on.
    runtime: Handle,
}

impl GrpcServer {
    pub(crate) fn new(responder: Arc<dyn Responder>, runtime: Handle) -> Self {
        Self { responder, runtime }
    }

    /// Answers a gRPC call. A future that is dropped drops the handler's.
    async fn answer(&self, request: GrpcRequest, rest: Option<Stream<BodyPiece>>) -> GrpcAnswer {
        let answered = async {
            let response = self.responder.respond(request_of(request, rest)?);
            self.answer_of(while_wanted(response).await?).await
        };
        match answered.await {
            Ok(answer) => answer,
            Err(status) => answer_of_status(status),
        }
    }

    /// The answer that tells of a response.
    async fn answer_of(&self, response: Response<Body>) -> Result<GrpcAnswer, Status> {
        let (head, mut body) = response.into_parts();
        let headers = HeaderBytes::of(&head.headers)?;
        let gathered = gather(&mut body).await?;
        let end = match gathered.rest {
            BodyRest::Ended(None) => AnswerEnd::Nothing,
            BodyRest::Ended(Some(trailers)) => AnswerEnd::Trailers(HeaderBytes::of(&trailers)?),
            BodyRest::GoesOn => {
                let (writer, rest) =
                    BodyWriter::open().map_err(|error| outcome::of_open(&error, Outcome::Unknown))?;
                // It ends with its reader: when the client drops the response, or dies.
                drop(self.runtime.spawn(writer.write(body)));
                AnswerEnd::Frames(rest)
            }
        };
        Ok(GrpcAnswer { status: head.status.as_u16(), headers, body: FrameBytes::from(gathered.data), end })
    }
}

impl GrpcTransportAsync for GrpcServer {
    async fn whole(&self, request: GrpcRequest) -> Result<GrpcAnswer, CallError> {
        Ok(self.answer(request, None).await)
    }

    async fn begun(&self, request: GrpcRequest, rest: Stream<BodyPiece>) -> Result<GrpcAnswer, CallError> {
        Ok(self.answer(request, Some(rest)).await)
    }
}

/// Waits for the response, as long as somebody wants it. The handler of a client that has died is
/// dropped too, as over HTTP/2: Underpass alone would let it run on.
async fn while_wanted(mut response: Responding) -> Result<Response<Body>, Status> {
    let first = poll_fn(|task| Poll::Ready(response.as_mut().poll(task))).await;
    if let Poll::Ready(response) = first {
        return response;
    }
    let mut unwanted = pin!(underpass::cancelled());
    poll_fn(|task| match response.as_mut().poll(task) {
        Poll::Pending => {
            unwanted.as_mut().poll(task).map(|()| Err(Status::cancelled("nobody waits any more")))
        }
        response => response,
    })
    .await
}

/// The request that a call tells of.
///
/// # Errors
/// The client's bytes are no request.
pub(crate) fn request_of(
    request: GrpcRequest,
    rest: Option<Stream<BodyPiece>>,
) -> Result<Request<Body>, Status> {
    let uri =
        Uri::try_from(request.path).map_err(|_| Status::internal("the client sent a path that is none"))?;
    if !uri.path().starts_with('/') {
        return Err(Status::internal("the client sent a path that is none"));
    }
    let headers = request.headers.into_headers()?;
    let data = request.body.into_bytes();
    let body = match rest {
        None => Body::new(WholeBody::new(data, None)),
        // A client that gives up or dies in the middle has cancelled.
        Some(rest) => Body::new(BodyReader::new(data, rest, Code::Cancelled, ())),
    };
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = headers;
    if let Some(peer) = underpass::caller() {
        request.extensions_mut().insert(peer);
    }
    Ok(request)
}

/// The answer that is a status alone.
fn answer_of_status(status: Status) -> GrpcAnswer {
    let (head, ()) = status.into_http::<()>().into_parts();
    // A message that is too long for headers is left out.
    let headers = HeaderBytes::of(&head.headers).unwrap_or_else(|status| {
        HeaderBytes::of(status.into_http::<()>().headers()).expect("this status is short")
    });
    let (body, end) = (FrameBytes::default(), AnswerEnd::Nothing);
    GrpcAnswer { status: head.status.as_u16(), headers, body, end }
}
