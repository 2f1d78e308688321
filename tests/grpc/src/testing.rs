//! gRPC's own interop service, `grpc.testing.TestService`, for the clients of other languages. Of
//! its messages only the fields that the test cases use are here.

use bytes::Bytes;
use http::{Request as HttpRequest, Response as HttpResponse};
use prost::Message;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_stream::{Stream, StreamExt, iter};
use tonic::body::Body;
use tonic::server::{
    ClientStreamingService, Grpc, NamedService, ServerStreamingService, StreamingService, UnaryService,
};
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower_service::Service;

#[derive(Clone, PartialEq, Message)]
struct Empty {}

#[derive(Clone, PartialEq, Message)]
struct Payload {
    #[prost(bytes = "bytes", tag = "2")]
    body: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct EchoStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

#[derive(Clone, PartialEq, Message)]
struct SimpleRequest {
    #[prost(int32, tag = "2")]
    response_size: i32,
    #[prost(message, optional, tag = "3")]
    payload: Option<Payload>,
    #[prost(message, optional, tag = "7")]
    response_status: Option<EchoStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct PayloadResponse {
    #[prost(message, optional, tag = "1")]
    payload: Option<Payload>,
}

#[derive(Clone, PartialEq, Message)]
struct InputRequest {
    #[prost(message, optional, tag = "1")]
    payload: Option<Payload>,
}

#[derive(Clone, PartialEq, Message)]
struct InputResponse {
    #[prost(int32, tag = "1")]
    aggregated_payload_size: i32,
}

#[derive(Clone, PartialEq, Message)]
struct ResponseParameters {
    #[prost(int32, tag = "1")]
    size: i32,
    #[prost(int32, tag = "2")]
    interval_us: i32,
}

#[derive(Clone, PartialEq, Message)]
struct OutputRequest {
    #[prost(message, repeated, tag = "2")]
    response_parameters: Vec<ResponseParameters>,
    #[prost(message, optional, tag = "7")]
    response_status: Option<EchoStatus>,
}

/// What is awaited of a method.
type Answering<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

/// The responses of a method that streams.
type Responses = Pin<Box<dyn Stream<Item = Result<PayloadResponse, Status>> + Send>>;

fn of_size(size: i32) -> PayloadResponse {
    let body = vec![0; usize::try_from(size).unwrap_or_default()].into();
    PayloadResponse { payload: Some(Payload { body }) }
}

/// The error that a request asks for.
fn asked_for(status: Option<EchoStatus>) -> Result<(), Status> {
    match status {
        Some(status) if status.code != 0 => Err(Status::new(Code::from_i32(status.code), status.message)),
        _ => Ok(()),
    }
}

/// The responses to one request, each after its interval.
fn responses(request: OutputRequest) -> impl Stream<Item = Result<PayloadResponse, Status>> + Send {
    let end = asked_for(request.response_status).err().map(Err);
    let response = async |of: ResponseParameters| {
        if let Ok(interval @ 1..) = u64::try_from(of.interval_us) {
            tokio::time::sleep(Duration::from_micros(interval)).await;
        }
        Ok(of_size(of.size))
    };
    iter(request.response_parameters).then(response).chain(iter(end))
}

/// Each of its methods, for tonic's codec.
#[derive(Clone, Copy)]
struct EmptyCall;

impl UnaryService<Empty> for EmptyCall {
    type Response = Empty;
    type Future = Answering<Empty>;

    fn call(&mut self, _: Request<Empty>) -> Self::Future {
        Box::pin(async { Ok(Response::new(Empty {})) })
    }
}

#[derive(Clone, Copy)]
struct UnaryCall;

impl UnaryService<SimpleRequest> for UnaryCall {
    type Response = PayloadResponse;
    type Future = Answering<PayloadResponse>;

    fn call(&mut self, request: Request<SimpleRequest>) -> Self::Future {
        let request = request.into_inner();
        Box::pin(async move {
            asked_for(request.response_status)?;
            Ok(Response::new(of_size(request.response_size)))
        })
    }
}

#[derive(Clone, Copy)]
struct OutputCall;

impl ServerStreamingService<OutputRequest> for OutputCall {
    type Response = PayloadResponse;
    type ResponseStream = Responses;
    type Future = Answering<Responses>;

    fn call(&mut self, request: Request<OutputRequest>) -> Self::Future {
        let responses: Responses = Box::pin(responses(request.into_inner()));
        Box::pin(async { Ok(Response::new(responses)) })
    }
}

#[derive(Clone, Copy)]
struct InputCall;

impl ClientStreamingService<InputRequest> for InputCall {
    type Response = InputResponse;
    type Future = Answering<InputResponse>;

    fn call(&mut self, request: Request<Streaming<InputRequest>>) -> Self::Future {
        let mut requests = request.into_inner();
        Box::pin(async move {
            let mut sum = 0;
            while let Some(request) = requests.message().await? {
                sum += request.payload.map_or(0, |payload| payload.body.len());
            }
            let aggregated_payload_size = i32::try_from(sum).unwrap_or(i32::MAX);
            Ok(Response::new(InputResponse { aggregated_payload_size }))
        })
    }
}

#[derive(Clone, Copy)]
struct DuplexCall;

impl StreamingService<OutputRequest> for DuplexCall {
    type Response = PayloadResponse;
    type ResponseStream = Responses;
    type Future = Answering<Responses>;

    fn call(&mut self, request: Request<Streaming<OutputRequest>>) -> Self::Future {
        let mut requests = request.into_inner();
        let (to, came) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            let answered = async {
                while let Some(request) = requests.message().await? {
                    let mut responses = Box::pin(responses(request));
                    while let Some(response) = responses.next().await {
                        let _ = to.send(Ok(response?)).await;
                    }
                }
                Ok::<(), Status>(())
            };
            if let Err(status) = answered.await {
                let _ = to.send(Err(status)).await;
            }
        });
        let responses: Responses = Box::pin(tokio_stream::wrappers::ReceiverStream::new(came));
        Box::pin(async { Ok(Response::new(responses)) })
    }
}

/// The service.
#[derive(Clone, Copy)]
struct TestService;

impl NamedService for TestService {
    const NAME: &'static str = "grpc.testing.TestService";
}

impl Service<HttpRequest<Body>> for TestService {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        Box::pin(async move {
            let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            Ok(match &*method {
                "EmptyCall" => Grpc::new(ProstCodec::default()).unary(EmptyCall, request).await,
                "UnaryCall" => Grpc::new(ProstCodec::default()).unary(UnaryCall, request).await,
                "StreamingOutputCall" => {
                    Grpc::new(ProstCodec::default()).server_streaming(OutputCall, request).await
                }
                "StreamingInputCall" => {
                    Grpc::new(ProstCodec::default()).client_streaming(InputCall, request).await
                }
                "FullDuplexCall" => Grpc::new(ProstCodec::default()).streaming(DuplexCall, request).await,
                _ => Status::unimplemented("there is no such method").into_http(),
            })
        })
    }
}

/// gRPC's own interop service.
pub fn testing_routes() -> Routes {
    Routes::new(TestService)
}
