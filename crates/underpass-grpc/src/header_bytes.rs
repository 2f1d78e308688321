//! Headers and trailers as they travel.
//!
//! The peer is hostile: the bytes are checked when they become headers, and before that they are
//! bytes.

use crate::frame_bytes::FrameBytes;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use tonic::Status;

/// The most bytes that the headers, or the trailers, of one message may take.
pub(crate) const MOST_HEADERS: usize = 64 << 10;

/// The most pairs among them.
const MOST_PAIRS: usize = 4096;

/// The first byte of a pair that is written out.
const WRITTEN_OUT: u8 = 0;

/// Pairs that nearly every message has. Each takes one byte: its place in this list, where the
/// first one has the number one. Both ends know the same list, since it is a part of the interface:
/// a new pair needs a new version of that.
const COMMON: [(&str, &str); 6] = [
    ("te", "trailers"),
    ("content-type", "application/grpc"),
    ("grpc-status", "0"),
    ("grpc-encoding", "gzip"),
    ("grpc-encoding", "zstd"),
    ("grpc-accept-encoding", "identity"),
];

/// Headers or trailers as bytes.
#[derive(Clone, PartialEq, Eq, underpass::Wire)]
pub struct HeaderBytes(FrameBytes);

impl HeaderBytes {
    /// The bytes of `headers`.
    ///
    /// # Errors
    /// They are too long: `RESOURCE_EXHAUSTED`.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Status> {
        let mut bytes = Vec::new();
        if headers.len() > MOST_PAIRS {
            return Err(too_long());
        }
        for (name, value) in headers {
            put(&mut bytes, name, value);
            if bytes.len() > MOST_HEADERS {
                return Err(too_long());
            }
        }
        Ok(Self(FrameBytes::from(bytes)))
    }

    /// Bytes that a peer sent in pieces.
    pub(crate) fn from_pieces(bytes: Vec<u8>) -> Self {
        Self(FrameBytes::from(bytes))
    }

    /// The bytes.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.0.into_bytes()
    }

    /// The headers that a peer sent.
    ///
    /// # Errors
    /// They are no headers (`INTERNAL`), or too long (`RESOURCE_EXHAUSTED`).
    pub(crate) fn into_headers(self) -> Result<HeaderMap, Status> {
        let mut bytes = self.0.into_bytes();
        if bytes.len() > MOST_HEADERS {
            return Err(too_long());
        }
        let mut headers = HeaderMap::new();
        while !bytes.is_empty() {
            let (name, value) = take(&mut bytes).ok_or_else(malformed)?;
            if headers.len() == MOST_PAIRS {
                return Err(too_long());
            }
            headers.try_append(name, value).map_err(|_| too_long())?;
        }
        Ok(headers)
    }
}

fn too_long() -> Status {
    Status::resource_exhausted(format!(
        "the headers or trailers take more than {MOST_HEADERS} bytes, or are more than {MOST_PAIRS}; send that \
         much in a message"
    ))
}

fn malformed() -> Status {
    Status::internal("the peer sent bytes that are no headers")
}

/// Puts one pair.
fn put(to: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    let is_pair = |pair: &(&str, &str)| name == pair.0 && value == pair.1;
    if let Some(place) = COMMON.iter().position(is_pair) {
        to.push(place as u8 + 1);
        return;
    }
    let name = name.as_str().as_bytes();
    to.push(WRITTEN_OUT);
    to.extend_from_slice(&(name.len() as u32).to_le_bytes());
    to.extend_from_slice(name);
    to.extend_from_slice(&(value.len() as u32).to_le_bytes());
    to.extend_from_slice(value.as_bytes());
}

/// Takes one pair. `None`: the bytes are none.
fn take(from: &mut Bytes) -> Option<(HeaderName, HeaderValue)> {
    match from.split_to(1)[0] {
        WRITTEN_OUT => {
            let name = HeaderName::from_bytes(&take_counted(from)?).ok()?;
            let value = HeaderValue::from_maybe_shared(take_counted(from)?).ok()?;
            Some((name, value))
        }
        place => {
            let (name, value) = COMMON.get(usize::from(place) - 1)?;
            Some((HeaderName::from_static(name), HeaderValue::from_static(value)))
        }
    }
}

/// Takes a length and that many bytes.
fn take_counted(from: &mut Bytes) -> Option<Bytes> {
    let len = u32::from_le_bytes(*from.first_chunk::<4>()?) as usize;
    let _ = from.split_to(4);
    (len <= from.len()).then(|| from.split_to(len))
}

impl fmt::Debug for HeaderBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secrets.
        f.debug_struct("HeaderBytes").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(headers: &HeaderMap) -> HeaderMap {
        HeaderBytes::of(headers).unwrap().into_headers().unwrap()
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn headers_come_back_in_their_order() {
        let mut sent = headers(&[("te", "trailers"), ("content-type", "application/grpc+proto"), ("x", "")]);
        sent.append("x", HeaderValue::from_static("second"));
        sent.append("bytes", HeaderValue::from_bytes(&[0xff, 0x80, b'a']).unwrap());
        let came = back(&sent);
        assert_eq!(came, sent);
        assert_eq!(came.get_all("x").iter().collect::<Vec<_>>(), ["", "second"]);
        assert_eq!(back(&HeaderMap::new()), HeaderMap::new());
    }

    #[test]
    fn a_common_pair_takes_one_byte() {
        for (name, value) in COMMON {
            let sent = headers(&[(name, value)]);
            assert_eq!(HeaderBytes::of(&sent).unwrap().into_bytes().len(), 1);
            assert_eq!(back(&sent), sent);
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let bad: [&[u8]; 7] = [
            &[7],
            &[255],
            &[0],
            &[0, 1, 0, 0, 0],
            &[0, 255, 255, 255, 255, b'a'],
            // A name with a capital letter is read; one with a space is none.
            &[0, 1, 0, 0, 0, b' ', 0, 0, 0, 0],
            // A value with a line break.
            &[0, 1, 0, 0, 0, b'a', 1, 0, 0, 0, b'\n'],
        ];
        for bytes in bad {
            let read = HeaderBytes::from_pieces(bytes.to_vec()).into_headers();
            assert_eq!(read.unwrap_err().code(), tonic::Code::Internal, "{bytes:?}");
        }
    }

    #[test]
    fn headers_that_are_too_long_are_refused_at_both_ends() {
        let value = HeaderValue::from_str(&"v".repeat(MOST_HEADERS)).unwrap();
        let sent = HeaderMap::from_iter([(HeaderName::from_static("long"), value)]);
        assert_eq!(HeaderBytes::of(&sent).unwrap_err().code(), tonic::Code::ResourceExhausted);
        let came = HeaderBytes::from_pieces(vec![1; MOST_HEADERS + 1]).into_headers();
        assert_eq!(came.unwrap_err().code(), tonic::Code::ResourceExhausted);
        let many = |pairs| HeaderBytes::from_pieces(vec![1; pairs]).into_headers();
        assert_eq!(many(MOST_PAIRS).unwrap().len(), MOST_PAIRS);
        assert_eq!(many(MOST_PAIRS + 1).unwrap_err().code(), tonic::Code::ResourceExhausted);
    }
}
