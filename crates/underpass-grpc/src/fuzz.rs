//! What a hostile client or server can send, for the fuzz target `grpc`.

use crate::body_stream::BodyReader;
use crate::frame_bytes::FrameBytes;
use crate::grpc_server::request_of;
use crate::near::response;
use crate::transport::{BodyPiece, GrpcAnswer, GrpcRequest, PieceKind};
use bytes::Bytes;
use http_body::Body as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tonic::Code;
use tonic::body::Body;
use underpass::stream::StreamOptions;
use underpass_wire::from_bytes;

/// Reads bytes as a client's request, and all of its body.
pub fn request(bytes: &[u8]) {
    if let Ok(request) = from_bytes::<GrpcRequest>(bytes)
        && let Ok(request) = request_of(request, None)
    {
        read(request.into_body());
    }
}

/// Reads bytes as a server's answer, and all of its body.
pub fn answer(bytes: &[u8]) {
    if let Ok(answer) = from_bytes::<GrpcAnswer>(bytes)
        && let Ok(response) = response(answer, ())
    {
        read(response.into_body());
    }
}

/// Reads pieces of a body that goes on. Each has a kind and bytes.
pub fn pieces(first: Vec<u8>, pieces: &[(u8, Vec<u8>)]) {
    let (sender, stream) = StreamOptions::new().open().expect("memory");
    for (kind, bytes) in pieces {
        let kind = match kind % 3 {
            0 => PieceKind::Data,
            1 => PieceKind::Trailers,
            _ => PieceKind::Failure,
        };
        // What has no room is not sent.
        let _ = sender.try_send(&BodyPiece { kind, bytes: FrameBytes::from(bytes.clone()) });
    }
    sender.finish();
    read(Body::new(BodyReader::new(Bytes::from(first), stream, Code::Cancelled, ())));
}

/// Reads a body to its end.
fn read(mut body: Body) {
    let mut task = Context::from_waker(Waker::noop());
    loop {
        match Pin::new(&mut body).poll_frame(&mut task) {
            Poll::Pending => std::thread::yield_now(),
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(_) => return,
        }
    }
}
