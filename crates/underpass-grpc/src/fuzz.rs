//! What a hostile client or server can send, for the fuzz target `grpc` and a test.

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
///
/// # Panics
/// If the system has no memory for a stream.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header_bytes::HeaderBytes;
    use crate::transport::AnswerEnd;
    use underpass_wire::to_bytes;

    /// Numbers that follow one another without a pattern (xorshift).
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self, below: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % below as u64) as usize
        }

        /// `bytes` with some of them changed, added or left out.
        fn mutated(&mut self, bytes: &[u8]) -> Vec<u8> {
            let mut bytes = bytes.to_vec();
            for _ in 0..=self.next(4) {
                let at = self.next(bytes.len());
                match self.next(3) {
                    0 => bytes[at] = self.next(256) as u8,
                    1 => bytes.insert(at, self.next(256) as u8),
                    _ if bytes.len() > 1 => drop(bytes.remove(at)),
                    _ => {}
                }
            }
            bytes
        }
    }

    fn headers() -> HeaderBytes {
        let pairs = [("te", "trailers"), ("grpc-status", "0"), ("x-own", "value")];
        let pairs = pairs.map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
        });
        HeaderBytes::of(&http::HeaderMap::from_iter(pairs)).unwrap()
    }

    #[test]
    fn bytes_at_random_harm_nobody() {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let body = FrameBytes::from(&b"some frames"[..]);
        let path = "/package.Service/Method".to_owned();
        let sent = to_bytes(&GrpcRequest { path, headers: headers(), body: body.clone() });
        let end = AnswerEnd::Trailers(headers());
        let answered = to_bytes(&GrpcAnswer { status: 200, headers: headers(), body, end });
        let trailers = headers().into_bytes();
        for round in 0..20_000 {
            request(&numbers.mutated(&sent));
            answer(&numbers.mutated(&answered));
            // A stream costs a memory file and sockets.
            if round % 100 == 0 {
                let some = [0, 0, 1, 2].map(|_| (numbers.next(256) as u8, numbers.mutated(&trailers)));
                pieces(b"first".to_vec(), &some[..numbers.next(5)]);
            }
        }
    }
}
