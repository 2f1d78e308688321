//! What the methods of `Interop` do.

use crate::generated::interop_server::Interop;
use crate::generated::{Empty, InputResponse, OutputRequest, UnaryRequest, UnaryResponse};
use std::pin::Pin;
use tokio_stream::{Stream, StreamExt, iter};
use tonic::{Code, Request, Response, Status, Streaming};

/// The implementation of `Interop`.
#[derive(Clone, Copy, Debug, Default)]
pub struct InteropService;

/// The responses of a streaming method.
type Responses = Pin<Box<dyn Stream<Item = Result<UnaryResponse, Status>> + Send>>;

fn of_size(size: u32) -> UnaryResponse {
    UnaryResponse { payload: vec![0; size as usize].into() }
}

/// The error that a request asks for.
fn asked_for(status: Option<crate::generated::Status>) -> Result<(), Status> {
    match status {
        Some(status) if status.code != 0 => {
            let details = bytes::Bytes::from_static(b"details");
            Err(Status::with_details(Code::from_i32(status.code), status.message, details))
        }
        _ => Ok(()),
    }
}

#[tonic::async_trait]
impl Interop for InteropService {
    async fn empty_call(&self, _: Request<Empty>) -> Result<Response<Empty>, Status> {
        Ok(Response::new(Empty {}))
    }

    async fn unary_call(&self, request: Request<UnaryRequest>) -> Result<Response<UnaryResponse>, Status> {
        let request = request.into_inner();
        asked_for(request.status)?;
        Ok(Response::new(of_size(request.response_size)))
    }

    type StreamingOutputCallStream = Responses;

    async fn streaming_output_call(
        &self,
        request: Request<OutputRequest>,
    ) -> Result<Response<Responses>, Status> {
        let OutputRequest { sizes, status } = request.into_inner();
        let end = asked_for(status).err().map(Err);
        let responses = sizes.into_iter().map(|size| Ok(of_size(size))).chain(end);
        Ok(Response::new(Box::pin(iter(responses))))
    }

    async fn streaming_input_call(
        &self,
        request: Request<Streaming<UnaryRequest>>,
    ) -> Result<Response<InputResponse>, Status> {
        let (mut requests, mut sum) = (request.into_inner(), InputResponse::default());
        while let Some(request) = requests.message().await? {
            asked_for(request.status)?;
            sum.bytes += request.payload.len() as u64;
            sum.messages += 1;
        }
        Ok(Response::new(sum))
    }

    type FullDuplexCallStream = Responses;

    async fn full_duplex_call(
        &self,
        request: Request<Streaming<OutputRequest>>,
    ) -> Result<Response<Responses>, Status> {
        let sizes = request.into_inner().map(|request| {
            let OutputRequest { sizes, status } = request?;
            asked_for(status)?;
            Ok(sizes)
        });
        Ok(Response::new(Box::pin(Flattened { requests: Box::pin(sizes), sizes: Vec::new().into_iter() })))
    }

    async fn unimplemented_call(&self, _: Request<Empty>) -> Result<Response<Empty>, Status> {
        Err(Status::unimplemented("there is no such method"))
    }
}

/// The sizes of a request, or the error that it asks for.
type Sizes = Result<Vec<u32>, Status>;

/// The responses to all requests, in their order.
struct Flattened {
    requests: Pin<Box<dyn Stream<Item = Sizes> + Send>>,
    sizes: std::vec::IntoIter<u32>,
}

impl Stream for Flattened {
    type Item = Result<UnaryResponse, Status>;

    fn poll_next(
        self: Pin<&mut Self>,
        task: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let flattened = self.get_mut();
        loop {
            if let Some(size) = flattened.sizes.next() {
                return std::task::Poll::Ready(Some(Ok(of_size(size))));
            }
            match std::task::ready!(flattened.requests.as_mut().poll_next(task)) {
                Some(Ok(sizes)) => flattened.sizes = sizes.into_iter(),
                Some(Err(status)) => return std::task::Poll::Ready(Some(Err(status))),
                None => return std::task::Poll::Ready(None),
            }
        }
    }
}
