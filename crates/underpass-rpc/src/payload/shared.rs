//! Arguments that the server reads where the client wrote them (LRPC, Table III: A alone).

use crate::dispatch::incoming::{IncomingCall, Refused, Replied};
use crate::dispatch::server::ServerEnd;
use crate::payload::message::Bytes;
use crate::payload::overflow_buffers::MappedOverflow;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use underpass_channel::{OverflowView, RegionView};
use underpass_wire::{Decode, DecodeError, Encode, Sink, decode_length};

/// Bytes that are not copied for the server: an argument marked `#[underpass(shared)]`.
///
/// By default a server has its own copy of each argument, which no client can change any more
/// (LRPC, 3.5). Some servers need no protection from later changes, since they copy the bytes to
/// their place anyway, or only add them up. They do without that copy. *A client may change at any
/// moment what the server reads here, even between two reads of one byte:* what was checked need
/// not hold when it is used. So there is no slice of it; copy out what is to be read twice.
///
/// Bytes in a file beside the channel are copied for the server all the same. They go into a file
/// if there are more of them than an overflow buffer holds (64 MiB), or than the user may have.
/// Bytes that fit into a cell are copied as well.
///
/// # Examples
/// ```
/// use underpass::Shared;
///
/// // A client makes one of its bytes.
/// let block = Shared::from(b"a block of a file");
/// // A server reads it.
/// let mut place = [0; 5];
/// assert_eq!(block.read_at(2, &mut place), 5);
/// assert_eq!((&place, block.len(), block.get(0)), (b"block", 17, Some(b'a')));
/// ```
#[derive(Clone)]
pub struct Shared<'a>(SharedBytes<'a>);

/// Where the bytes lie.
#[derive(Clone)]
enum SharedBytes<'a> {
    /// In this process's own memory.
    Here(Cow<'a, [u8]>),
    /// In an A-stack.
    There(RegionView<'a>),
    /// In an overflow buffer.
    Beside(OverflowView<MappedOverflow>),
}

/// A shared argument of an async handler, which has it for as long as it runs. Until then its
/// caller's A-stack is leased, whether the caller waits or not.
pub struct SharedLater(SharedLaterBytes);

enum SharedLaterBytes {
    Here(Vec<u8>),
    /// In the A-stack of `slot`, at `range`.
    There {
        end: Arc<ServerEnd>,
        slot: u16,
        range: Range<usize>,
    },
    Beside(OverflowView<MappedOverflow>),
}

impl SharedLater {
    /// These bytes, in this process's own memory.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self(SharedLaterBytes::Here(bytes))
    }

    /// The argument, for the handler to read.
    ///
    /// # Panics
    /// Never: the bounds were checked when this was made.
    pub fn lend(&self) -> Shared<'_> {
        Shared(match &self.0 {
            SharedLaterBytes::Here(bytes) => SharedBytes::Here(Cow::Borrowed(bytes)),
            SharedLaterBytes::There { end, slot, range } => {
                let all =
                    end.channel().stack_source(*slot, range.end).and_then(|mut all| all.view(range.end));
                SharedBytes::There(all.expect("it was in bounds when this was made").part(range.clone()))
            }
            SharedLaterBytes::Beside(view) => SharedBytes::Beside(view.clone()),
        })
    }
}

impl<'a> From<&'a [u8]> for Shared<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(SharedBytes::Here(Cow::Borrowed(bytes)))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Shared<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::from(&bytes[..])
    }
}

impl<'a> From<&'a Vec<u8>> for Shared<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::from(&bytes[..])
    }
}

impl<'a> From<&'a str> for Shared<'a> {
    fn from(text: &'a str) -> Self {
        Self::from(text.as_bytes())
    }
}

impl Shared<'static> {
    /// These bytes, in this process's own memory.
    pub(crate) fn owned(bytes: Vec<u8>) -> Self {
        Self(SharedBytes::Here(Cow::Owned(bytes)))
    }
}

impl Shared<'_> {
    /// How many bytes there are. The number never changes.
    pub fn len(&self) -> usize {
        match &self.0 {
            SharedBytes::Here(bytes) => bytes.len(),
            SharedBytes::There(view) => view.len(),
            SharedBytes::Beside(view) => view.bytes().len(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The present value of the byte at `at`. Nothing beyond the end.
    #[inline]
    pub fn get(&self, at: usize) -> Option<u8> {
        match &self.0 {
            SharedBytes::Here(bytes) => bytes.get(at).copied(),
            SharedBytes::There(view) => view.get(at),
            SharedBytes::Beside(view) => view.bytes().get(at),
        }
    }

    /// The bytes, each read when the iterator comes to it.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        let Self(bytes) = self;
        let (here, there) = match bytes {
            SharedBytes::Here(bytes) => (Some(bytes.iter().copied()), None),
            SharedBytes::There(view) => (None, Some(*view)),
            SharedBytes::Beside(view) => (None, Some(view.bytes())),
        };
        let looks = there.into_iter().flat_map(|view| (0..view.len()).filter_map(move |at| view.get(at)));
        here.into_iter().flatten().chain(looks)
    }

    /// Copies the bytes from `at` on to `out`, as many as there are and have room. Returns how
    /// many.
    pub fn read_at(&self, at: usize, out: &mut [u8]) -> usize {
        match &self.0 {
            SharedBytes::Here(bytes) => {
                let from = bytes.get(at..).unwrap_or_default();
                let len = from.len().min(out.len());
                out[..len].copy_from_slice(&from[..len]);
                len
            }
            SharedBytes::There(view) => view.copy_to(at, out),
            SharedBytes::Beside(view) => view.bytes().copy_to(at, out),
        }
    }

    /// A copy of all bytes, which nobody changes any more.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.len()];
        self.read_at(0, &mut out);
        out
    }

    /// A part of the bytes.
    ///
    /// # Panics
    /// If the range ends beyond them.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Shared<'_> {
        Shared(match &self.0 {
            SharedBytes::Here(bytes) => SharedBytes::Here(Cow::Borrowed(&bytes[range])),
            SharedBytes::There(view) => SharedBytes::There(view.part(range)),
            SharedBytes::Beside(view) => SharedBytes::There(view.bytes().part(range)),
        })
    }
}

impl fmt::Debug for SharedLater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lend().fmt(f)
    }
}

impl fmt::Debug for Shared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Encoded as a slice of bytes. If a handler passes one on, it is copied first.
impl Encode for Shared<'_> {
    const FIXED: Option<usize> = None;

    fn size(&self) -> usize {
        match &self.0 {
            SharedBytes::Here(bytes) => bytes.size(),
            // The size depends only on the number of bytes.
            SharedBytes::There(_) | SharedBytes::Beside(_) => {
                self.len() + if self.len() < 255 { 1 } else { 9 }
            }
        }
    }

    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        match &self.0 {
            SharedBytes::Here(bytes) => bytes.encode(to),
            SharedBytes::There(_) | SharedBytes::Beside(_) => self.to_vec().encode(to),
        }
    }
}

impl<'a> IncomingCall<'a> {
    /// The next argument, left where it is.
    ///
    /// # Errors
    /// What came is no such argument.
    pub fn shared(&mut self) -> Result<Shared<'a>, Refused> {
        Ok(Shared(self.bytes.lend()?))
    }

    /// The next argument, left where it is for a handler that replies later.
    ///
    /// # Errors
    /// What came is no such argument, or the binding is closed.
    pub fn shared_later(&mut self) -> Result<SharedLater, Refused> {
        let bytes = self.bytes.lend()?;
        Ok(SharedLater(match bytes {
            SharedBytes::Here(bytes) => SharedLaterBytes::Here(bytes.into_owned()),
            SharedBytes::Beside(view) => {
                self.replied = Replied::NoAndReads;
                SharedLaterBytes::Beside(view)
            }
            SharedBytes::There(view) => {
                self.replied = Replied::NoAndReads;
                let read = self.length - self.bytes.left();
                let (end, slot) = self.end_of_call()?;
                SharedLaterBytes::There { end, slot, range: read - view.len()..read }
            }
        }))
    }
}

impl<'a> Bytes<'a> {
    fn lend(&mut self) -> Result<SharedBytes<'a>, DecodeError> {
        match self {
            Self::Inline(left) => {
                let len = decode_length::<u8, _>(left)?;
                let (now, later) = left.split_at_checked(len).ok_or(DecodeError::Truncated)?;
                *left = later;
                Ok(SharedBytes::Here(Cow::Borrowed(now)))
            }
            Self::Stack(source) => {
                let len = decode_length::<u8, _>(source)?;
                Ok(SharedBytes::There(source.view(len)?))
            }
            Self::OutOfBand(source) => match source.overflow_left() {
                None => Ok(SharedBytes::Here(Cow::Owned(Vec::decode(&mut **source)?))),
                Some(source) => {
                    let len = decode_length::<u8, _>(source)?;
                    Ok(SharedBytes::Beside(source.view(len)?))
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use underpass_channel::Region;
    use underpass_channel::layout::STACK;
    use underpass_wire::to_bytes;

    #[test]
    fn a_reader_sees_the_same_bytes_here_and_there() {
        let bytes: Vec<u8> = (0..1000).map(|n| n as u8).collect();
        let (region, _file) = Region::create(STACK).unwrap();
        region.stack_sink(5).put(&to_bytes(&(&bytes, 7u8)));
        let mut there = Bytes::Stack(region.stack_source(5, 1010).unwrap());
        let cell = to_bytes(&(&bytes[..40], 7u8));
        let mut brief = Bytes::Inline(&cell);
        for (message, all) in [(&mut there, &bytes[..]), (&mut brief, &bytes[..40])] {
            let shared = Shared(message.lend().unwrap());
            assert_eq!(message.read::<u8>().unwrap(), 7, "what follows");
            assert_eq!((shared.len(), shared.is_empty(), shared.to_vec()), (all.len(), false, all.to_vec()));
            assert!(shared.iter().eq(all.iter().copied()) && shared.get(all.len()).is_none());
            assert_eq!(shared.slice(3..9).slice(1..4).to_vec(), all[4..7]);
            let mut out = [9; 4];
            assert_eq!((shared.read_at(all.len() - 2, &mut out), out[2..] == [9; 2]), (2, true));
            assert_eq!((shared.size(), to_bytes(&shared)), (all.size(), to_bytes(all)), "passed on");
        }
    }

    #[test]
    fn a_length_beyond_what_came_is_refused() {
        let (region, _file) = Region::create(STACK).unwrap();
        region.stack_sink(0).put(&[200; 30]);
        assert!(Bytes::Stack(region.stack_source(0, 30).unwrap()).lend().is_err());
        assert!(Bytes::Inline(&[2, 0]).lend().is_err());
        assert!(Bytes::Inline(&[]).lend().is_err());
    }
}
