use super::*;
use http::{HeaderMap, HeaderValue};
use std::task::Waker;

fn piece(kind: PieceKind, bytes: impl Into<Bytes>) -> BodyPiece {
    BodyPiece { kind, bytes: FrameBytes::from(bytes) }
}

/// What a reader gets of these pieces, and the end.
fn read(pieces: Vec<BodyPiece>) -> (Bytes, Option<Result<HeaderMap, Status>>) {
    let (sender, stream) = StreamOptions::new().open().unwrap();
    pieces.iter().for_each(|piece| sender.send(piece).unwrap());
    sender.finish();
    let mut body = BodyReader::new(Bytes::from_static(b"first "), stream, Code::Cancelled, ());
    let mut task = Context::from_waker(Waker::noop());
    let mut data = Vec::new();
    loop {
        match Pin::new(&mut body).poll_frame(&mut task) {
            Poll::Pending => std::thread::yield_now(),
            Poll::Ready(None) => return (data.into(), None),
            Poll::Ready(Some(Err(status))) => {
                assert!(body.is_end_stream());
                return (data.into(), Some(Err(status)));
            }
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(bytes) => data.extend_from_slice(&bytes),
                Err(frame) => return (data.into(), frame.into_trailers().ok().map(Ok)),
            },
        }
    }
}

#[test]
fn data_and_trailers_come_back_however_they_were_cut() {
    let trailers = HeaderMap::from_iter([(http::header::TE, HeaderValue::from_static("x"))]);
    let bytes = HeaderBytes::of(&trailers).unwrap().into_bytes();
    let mut pieces = vec![piece(PieceKind::Data, "and "), piece(PieceKind::Data, "second")];
    pieces.extend(bytes.iter().map(|&byte| piece(PieceKind::Trailers, vec![byte])));
    let (data, end) = read(pieces);
    assert_eq!((&data[..], end.unwrap().unwrap()), (&b"first and second"[..], trailers));
    assert!(read(Vec::new()).1.is_none());
}

#[test]
fn pieces_that_are_no_body_end_it() {
    let hostile = [
        vec![piece(PieceKind::Trailers, vec![1]), piece(PieceKind::Data, "more")],
        vec![piece(PieceKind::Trailers, Bytes::new())],
        vec![piece(PieceKind::Trailers, vec![99])],
        vec![piece(PieceKind::Failure, Bytes::new())],
        vec![piece(PieceKind::Failure, vec![Code::Ok as u8])],
    ];
    for pieces in hostile {
        let (_, end) = read(pieces.clone());
        assert_eq!(end.unwrap().unwrap_err().code(), Code::Internal, "{pieces:?}");
    }
    let endless = vec![piece(PieceKind::Trailers, vec![1; 4000]); 18];
    assert!(read(endless).1.unwrap().is_err());
}

#[test]
fn a_failure_is_told_with_its_code() {
    let (kind, bytes) = failure(&Status::data_loss("ü".repeat(4000)));
    assert!(bytes.len() <= NARROW.1);
    let (_, end) = read(vec![piece(kind, bytes)]);
    let status = end.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::DataLoss);
    assert!(status.message().starts_with("üüü") && !status.message().contains('\u{fffd}'));
}
