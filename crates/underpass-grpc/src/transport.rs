//! The interface between the two processes.

use crate::frame_bytes::FrameBytes;
use crate::header_bytes::HeaderBytes;
use underpass::CallError;
use underpass::stream::Stream;

/// How a gRPC call travels. Its messages are bytes here: tonic's codec has framed them.
///
/// *gRPC call* means a call of a gRPC method. Each is one call of this interface, and its request
/// and its response may each go on as a stream.
#[underpass::interface(asynchronous, stateless)]
pub trait GrpcTransport {
    /// A gRPC call whose whole request is here.
    fn whole(&self, request: GrpcRequest) -> Result<GrpcAnswer, CallError>;
    /// A gRPC call whose request begins here, and goes on in `rest`.
    fn begun(&self, request: GrpcRequest, rest: Stream<BodyPiece>) -> Result<GrpcAnswer, CallError>;
}

/// The request of a gRPC call, or its beginning.
#[derive(Clone, Debug, underpass::Wire)]
pub struct GrpcRequest {
    /// `/package.Service/Method`.
    pub(crate) path: String,
    pub(crate) headers: HeaderBytes,
    /// Framed messages.
    pub(crate) body: FrameBytes,
}

/// The response of a gRPC call, or its beginning.
#[derive(Debug, underpass::Wire)]
pub struct GrpcAnswer {
    /// The HTTP status, which is 200 unless a layer of the server's has refused the call.
    pub(crate) status: u16,
    pub(crate) headers: HeaderBytes,
    /// Framed messages.
    pub(crate) body: FrameBytes,
    pub(crate) end: AnswerEnd,
}

/// What follows the first frames of a response.
#[derive(Debug, underpass::Wire)]
pub(crate) enum AnswerEnd {
    /// Nothing: the status is among the headers.
    Nothing,
    /// The trailers, and with them the status.
    Trailers(HeaderBytes),
    /// Further frames, and then the trailers.
    Frames(Stream<BodyPiece>),
}

/// A part of a request or a response that goes on.
#[derive(Clone, Debug, PartialEq, Eq, underpass::Wire)]
pub struct BodyPiece {
    pub(crate) kind: PieceKind,
    pub(crate) bytes: FrameBytes,
}

/// What the bytes of a piece are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub(crate) enum PieceKind {
    /// Bytes of framed messages, cut anywhere.
    Data,
    /// Bytes of the trailers, cut anywhere. No data follows.
    Trailers,
    /// The body has failed: a status code in one byte, and the message. Nothing follows.
    Failure,
}
