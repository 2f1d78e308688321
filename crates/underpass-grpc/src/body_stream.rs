//! Bodies that go on: a stream carries the frames of each.

use crate::frame_bytes::FrameBytes;
use crate::header_bytes::{HeaderBytes, MOST_HEADERS};
use crate::outcome;
use crate::transport::{BodyPiece, PieceKind};
use bytes::Bytes;
use futures_core::Stream as _;
use http_body::{Body as _, Frame};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::{Code, Status};
use underpass::stream::{OpenStreamError, Stream, StreamOptions, StreamSender};

/// Of so many bodies that go on at once, each has the credit of [`WIDE`]. Further ones have that of
/// [`NARROW`]: a user's streams may take 256 MiB of a server, and 10,000 must fit.
const WIDE_BODIES: usize = 256;

/// Bytes ahead of the reader, and of the longest piece.
const WIDE: (usize, usize) = (256 << 10, 64 << 10);
const NARROW: (usize, usize) = (8 << 10, 2 << 10);

/// What a piece has beside its bytes, at most: its kind and their number.
const PIECE_HEAD: usize = 16;

/// How many bodies go on in this domain as a writer.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The writer's end of a body that goes on.
#[derive(Debug)]
pub(crate) struct BodyWriter {
    sender: StreamSender<BodyPiece>,
    /// The most bytes of a piece.
    longest: usize,
    _open: OpenBody,
}

/// Counts a body that goes on, until dropped.
#[derive(Debug)]
struct OpenBody;

impl Drop for OpenBody {
    fn drop(&mut self) {
        // Relaxed: a number.
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why nothing can be written any more: the reader has gone.
struct ReaderGone;

impl BodyWriter {
    /// A stream for the rest of a body: the writer's end, and the value for the reader.
    ///
    /// # Errors
    /// There is no room for it.
    pub(crate) fn open() -> Result<(Self, Stream<BodyPiece>), OpenStreamError> {
        let open = OpenBody;
        let wide = OPEN.fetch_add(1, Ordering::Relaxed) < WIDE_BODIES;
        let (bytes, longest) = if wide { WIDE } else { NARROW };
        let (sender, stream) = StreamOptions::new().bytes(bytes).longest(longest + PIECE_HEAD).open()?;
        Ok((Self { sender, longest, _open: open }, stream))
    }

    /// Writes the rest of `body`. Returns early, and drops `body`, when the reader has gone.
    pub(crate) async fn write(self, mut body: Body) {
        let written = self.write_frames(&mut body).await;
        if written.is_ok() {
            self.sender.finish();
        }
    }

    async fn write_frames(&self, body: &mut Body) -> Result<(), ReaderGone> {
        while let Some(frame) = self.next_frame(body).await? {
            let (kind, bytes) = match frame.map(Frame::into_data) {
                Ok(Ok(data)) => (PieceKind::Data, data),
                Ok(Err(frame)) => match frame.into_trailers().map(|trailers| HeaderBytes::of(&trailers)) {
                    Ok(Ok(trailers)) => (PieceKind::Trailers, trailers.into_bytes()),
                    Ok(Err(status)) => failure(&status),
                    Err(_) => continue,
                },
                Err(status) => failure(&status),
            };
            self.send(kind, bytes).await?;
            if kind == PieceKind::Failure {
                break;
            }
        }
        Ok(())
    }

    /// Waits for the next frame, as long as there is a reader.
    async fn next_frame(&self, body: &mut Body) -> Result<Option<Result<Frame<Bytes>, Status>>, ReaderGone> {
        let mut closed = pin!(self.sender.closed());
        poll_fn(|task| match Pin::new(&mut *body).poll_frame(task) {
            Poll::Ready(frame) => Poll::Ready(Ok(frame)),
            Poll::Pending => closed.as_mut().poll(task).map(|_| Err(ReaderGone)),
        })
        .await
    }

    /// Sends `bytes` in pieces, and waits for credit.
    async fn send(&self, kind: PieceKind, mut bytes: Bytes) -> Result<(), ReaderGone> {
        while !bytes.is_empty() {
            let next = bytes.split_to(bytes.len().min(self.longest));
            let piece = BodyPiece { kind, bytes: FrameBytes::from(next) };
            self.sender.send_async(&piece).await.map_err(|_| ReaderGone)?;
            // A body that is always ready lets other tasks run.
            tokio::task::consume_budget().await;
        }
        Ok(())
    }
}

/// The piece that says why a body has failed.
fn failure(status: &Status) -> (PieceKind, Bytes) {
    let mut bytes = vec![status.code() as u8];
    // One piece, whatever its length.
    let message = status.message();
    let most = NARROW.1 - 1;
    let cut = (0..=message.len().min(most)).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
    bytes.extend_from_slice(&message.as_bytes()[..cut]);
    (PieceKind::Failure, bytes.into())
}

/// The status that such a piece tells of.
fn told(bytes: &[u8]) -> Option<Status> {
    let (&code, message) = bytes.split_first()?;
    let code = Code::from_i32(code.into());
    (code != Code::Ok).then(|| Status::new(code, String::from_utf8_lossy(message)))
}

/// The reader's end of a body that goes on. `K` is what has to live as long as the body.
pub(crate) struct BodyReader<K> {
    /// What came with the call.
    first: Bytes,
    stream: Stream<BodyPiece>,
    trailers: Vec<u8>,
    over: bool,
    /// The code for a writer that gave up or died.
    gone: Code,
    _keeps: K,
}

impl<K> BodyReader<K> {
    pub(crate) fn new(first: Bytes, stream: Stream<BodyPiece>, gone: Code, keeps: K) -> Self {
        Self { first, stream, trailers: Vec::new(), over: false, gone, _keeps: keeps }
    }

    /// What a piece is. `None`: further pieces are needed.
    fn taken(&mut self, piece: BodyPiece) -> Option<Result<Frame<Bytes>, Status>> {
        let bytes = piece.bytes.into_bytes();
        match piece.kind {
            PieceKind::Data if self.trailers.is_empty() => Some(Ok(Frame::data(bytes))),
            PieceKind::Trailers if !bytes.is_empty() && self.trailers.len() <= MOST_HEADERS => {
                self.trailers.extend_from_slice(&bytes);
                None
            }
            PieceKind::Failure => Some(Err(told(&bytes).unwrap_or_else(malformed))),
            _ => Some(Err(malformed())),
        }
    }

    /// The frame at the end of the stream.
    fn last(&mut self) -> Option<Result<Frame<Bytes>, Status>> {
        let trailers = std::mem::take(&mut self.trailers);
        (!trailers.is_empty()).then(|| HeaderBytes::from_pieces(trailers).into_headers().map(Frame::trailers))
    }
}

fn malformed() -> Status {
    Status::internal("the peer sent pieces that are no body")
}

impl<K: Unpin> http_body::Body for BodyReader<K> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let body = self.get_mut();
        if !body.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut body.first)))));
        }
        while !body.over {
            let frame = match Pin::new(&mut body.stream).poll_next(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(piece))) => match body.taken(piece) {
                    Some(frame) => frame,
                    None => continue,
                },
                Poll::Ready(Some(Err(error))) => Err(outcome::of_stream(&error, body.gone)),
                Poll::Ready(None) => {
                    body.over = true;
                    return Poll::Ready(body.last());
                }
            };
            body.over = frame.is_err();
            return Poll::Ready(Some(frame));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.over
    }
}

#[cfg(test)]
mod tests;
