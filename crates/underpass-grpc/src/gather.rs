//! How much of a body can go with the first message: all of it, if it is ready.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body as _;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use tonic::Status;
use tonic::body::Body;

/// Beyond so many bytes in several frames, the rest goes by a stream.
const ENOUGH: usize = 64 << 10;

/// What was ready of a body.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// Its data so far.
    pub(crate) data: Bytes,
    pub(crate) rest: BodyRest,
}

/// What a body still has.
#[derive(Debug)]
pub(crate) enum BodyRest {
    /// Nothing. The trailers, if there were any.
    Ended(Option<HeaderMap>),
    /// It goes on.
    GoesOn,
}

/// Takes what is ready of `body`, without a wait. A unary message is one frame, however long, and
/// the end is ready with it.
///
/// # Errors
/// Those of the body.
pub(crate) async fn gather(body: &mut Body) -> Result<Gathered, Status> {
    let mut frames = Frames::default();
    let ended = poll_fn(|task| {
        while !frames.are_enough() {
            let trailers = match Pin::new(&mut *body).poll_frame(task) {
                Poll::Pending => return Poll::Ready(Ok(None)),
                Poll::Ready(None) => return Poll::Ready(Ok(Some(None))),
                Poll::Ready(Some(Err(status))) => return Poll::Ready(Err(status)),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        frames.add(data);
                        continue;
                    }
                    Err(frame) => frame.into_trailers().ok(),
                },
            };
            return Poll::Ready(Ok(Some(trailers)));
        }
        Poll::Ready(Ok(None))
    })
    .await?;
    let rest = ended.map_or(BodyRest::GoesOn, BodyRest::Ended);
    Ok(Gathered { data: frames.into_data(), rest })
}

/// Frames one after the other. The first one is copied only if a second comes.
#[derive(Default)]
struct Frames {
    first: Bytes,
    joined: BytesMut,
    count: usize,
}

impl Frames {
    fn add(&mut self, data: Bytes) {
        match self.count {
            0 => self.first = data,
            1 => {
                self.joined.reserve(self.first.len() + data.len());
                self.joined.extend_from_slice(&std::mem::take(&mut self.first));
                self.joined.extend_from_slice(&data);
            }
            _ => self.joined.extend_from_slice(&data),
        }
        self.count += 1;
    }

    fn are_enough(&self) -> bool {
        self.count > 1 && self.joined.len() >= ENOUGH
    }

    fn into_data(self) -> Bytes {
        if self.count > 1 { self.joined.freeze() } else { self.first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http_body::Frame;
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::pin;
    use std::task::{Context, Waker};

    /// Frames that are ready. `None` is one that is not.
    struct Ready(VecDeque<Option<Frame<Bytes>>>);

    impl http_body::Body for Ready {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.get_mut().0.pop_front() {
                Some(Some(frame)) => Poll::Ready(Some(Ok(frame))),
                Some(None) => Poll::Pending,
                None => Poll::Ready(None),
            }
        }
    }

    fn data(len: usize) -> Option<Frame<Bytes>> {
        Some(Frame::data(vec![7; len].into()))
    }

    fn gathered(frames: impl IntoIterator<Item = Option<Frame<Bytes>>>) -> (usize, BodyRest) {
        let mut body = Body::new(Ready(frames.into_iter().collect()));
        let mut task = Context::from_waker(Waker::noop());
        let Poll::Ready(gathered) = pin!(gather(&mut body)).poll(&mut task) else { panic!("it waits") };
        let gathered = gathered.unwrap();
        (gathered.data.len(), gathered.rest)
    }

    #[test]
    fn one_frame_of_any_length_goes_whole() {
        assert!(matches!(gathered([data(10 << 20)]), (len, BodyRest::Ended(None)) if len == 10 << 20));
        assert!(matches!(gathered([]), (0, BodyRest::Ended(None))));
    }

    #[test]
    fn trailers_end_it() {
        let trailers = HeaderMap::from_iter([(http::header::TE, HeaderValue::from_static("x"))]);
        let (len, rest) = gathered([data(3), Some(Frame::trailers(trailers.clone()))]);
        assert!(len == 3 && matches!(rest, BodyRest::Ended(Some(came)) if came == trailers));
    }

    #[test]
    fn what_is_not_ready_is_not_waited_for() {
        assert!(matches!(gathered([data(3), data(4), None, data(1)]), (7, BodyRest::GoesOn)));
        assert!(matches!(gathered([None]), (0, BodyRest::GoesOn)));
    }

    #[test]
    fn a_body_without_an_end_is_left_at_some_point() {
        let (len, rest) = gathered((0..1_000_000).map(|_| data(1)));
        assert!(len == ENOUGH && matches!(rest, BodyRest::GoesOn));
    }
}
