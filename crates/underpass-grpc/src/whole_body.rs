//! Bodies that came as one message.

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// All data of a body, and its trailers.
#[derive(Debug)]
pub(crate) struct WholeBody {
    data: Bytes,
    trailers: Option<HeaderMap>,
}

impl WholeBody {
    pub(crate) fn new(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { data, trailers }
    }
}

impl http_body::Body for WholeBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        if !body.data.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut body.data)))));
        }
        Poll::Ready(body.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_empty() && self.trailers.is_none()
    }
}
