//! The messages of a call that passes streams. Each begins with its kind.
//!
//! Such a call is a gRPC call whose two sides are streams. Each side has one value: the arguments,
//! which come first, or the result. The others are records of the stream that the value contains,
//! and news of the stream in the other direction.

use bytes::{Buf, Bytes};
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;
use tonic::Status;
use underpass::remote::{RemoteMessage, RemoteRecord, RemoteStreamEnd, StreamPlace};

const ITEMS: u8 = 0;
const FAILURE: u8 = 1;
const END: u8 = 2;
const READER_GONE: u8 = 4;
const TAKEN: u8 = 5;
/// It was 3 before *Taken* told of all messages of items. So a peer of that age is refused at once.
const VALUE: u8 = 6;

/// A message of items takes no more when it has so many bytes.
const FULL: usize = 16 << 10;

/// A message of fewer bytes is small. HTTP/2 keeps few small frames that nobody reads, and then
/// ends the connection, since each costs memory beside its bytes.
pub(super) const SMALL: usize = 512;

/// What a message may have beside the bytes of its value or record: kinds, lengths, places, and
/// items before the last one.
pub(super) const MOST_BESIDE: usize = 2 * FULL;

/// A message of a call that passes streams.
#[derive(Debug)]
pub(super) enum CallMessage {
    /// The arguments or the result, and the place of the stream in them. The stream itself is not
    /// opened yet.
    Value(RemoteMessage, Option<StreamPlace>),
    /// Items of the stream.
    Items(ItemsMessage),
    /// How the stream ends.
    End(RemoteRecord),
    /// The reader of the stream in the other direction wants no more.
    ReaderGone,
    /// The oldest messages of items of the other direction were taken, so many.
    Taken(u32),
}

/// Items of a stream, each after its length.
#[derive(Debug)]
pub(super) struct ItemsMessage(Bytes);

impl ItemsMessage {
    /// # Errors
    /// The bytes are no items.
    fn read(bytes: Bytes) -> Result<Self, Status> {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            (_, rest) = split_item(rest).ok_or_else(none)?;
        }
        Ok(Self(bytes))
    }
}

/// The first item, and what follows it.
fn split_item(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
}

impl Iterator for ItemsMessage {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Self::Item> {
        // `read` has checked all items.
        let item = split_item(&self.0)?.0.to_vec();
        self.0.advance(size_of::<u32>() + item.len());
        Some(item)
    }
}

/// Items that are to be sent.
#[derive(Debug, Default)]
pub(super) struct ItemsBatch(Vec<u8>);

impl ItemsBatch {
    pub(super) fn push(&mut self, item: &[u8]) {
        if self.0.is_empty() {
            self.0.push(ITEMS);
        }
        // Items are no longer than messages, which have four bytes for their length.
        let length = u32::try_from(item.len()).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(item);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes that the message would have.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= FULL
    }

    /// The bytes of the message. Nothing is left.
    pub(super) fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.0).into()
    }
}

/// The bytes that came are no message.
fn none() -> Status {
    Status::invalid_argument("a message of a stream can't be read")
}

/// A value as it is in a message: bytes, sealed values, and the place of the stream.
type Value = (Vec<u8>, Vec<Vec<u8>>, Option<(u64, u64)>);

impl CallMessage {
    /// The bytes of the message.
    pub(super) fn to_bytes(&self) -> Bytes {
        let of_kind = |kind, bytes: &[u8]| [&[kind], bytes].concat().into();
        match self {
            Self::Value(message, place) => {
                let place = place.map(|place| (place.at as u64, place.file as u64));
                // `Value`, borrowed.
                of_kind(VALUE, &underpass_wire::to_bytes(&(&message.bytes, &message.sealed, place)))
            }
            Self::Items(items) => of_kind(ITEMS, &items.0),
            Self::End(RemoteRecord::End(how)) => of_kind(END, &[end_to_byte(*how)]),
            Self::End(RemoteRecord::Failure(bytes) | RemoteRecord::Item(bytes)) => of_kind(FAILURE, bytes),
            Self::ReaderGone => of_kind(READER_GONE, &[]),
            Self::Taken(count) => of_kind(TAKEN, &count.to_le_bytes()),
        }
    }

    /// The message of these bytes, which the peer wrote.
    ///
    /// # Errors
    /// They are none.
    pub(super) fn read(bytes: &Bytes) -> Result<Self, Status> {
        let (&kind, rest) = bytes.split_first().ok_or_else(none)?;
        match (kind, rest) {
            (ITEMS, _) => Ok(Self::Items(ItemsMessage::read(bytes.slice(1..))?)),
            (FAILURE, error) => Ok(Self::End(RemoteRecord::Failure(error.to_vec()))),
            (END, &[how]) => Ok(Self::End(RemoteRecord::End(byte_to_end(how)))),
            (TAKEN, &[a, b, c, d]) => Ok(Self::Taken(u32::from_le_bytes([a, b, c, d]))),
            (VALUE, value) => {
                let (bytes, sealed, place): Value = underpass_wire::from_bytes(value).map_err(|_| none())?;
                let number = |number: u64| usize::try_from(number).map_err(|_| none());
                let place = match place {
                    Some((at, file)) => Some(StreamPlace { at: number(at)?, file: number(file)? }),
                    None => None,
                };
                Ok(Self::Value(RemoteMessage { bytes, sealed, ..Default::default() }, place))
            }
            (READER_GONE, &[]) => Ok(Self::ReaderGone),
            _ => Err(none()),
        }
    }
}

fn end_to_byte(how: RemoteStreamEnd) -> u8 {
    match how {
        RemoteStreamEnd::Finished => 1,
        RemoteStreamEnd::Abandoned => 2,
        RemoteStreamEnd::BindingEnded => 3,
        RemoteStreamEnd::PeerDied => 4,
        RemoteStreamEnd::Malformed => 5,
    }
}

fn byte_to_end(byte: u8) -> RemoteStreamEnd {
    match byte {
        1 => RemoteStreamEnd::Finished,
        2 => RemoteStreamEnd::Abandoned,
        3 => RemoteStreamEnd::BindingEnded,
        4 => RemoteStreamEnd::PeerDied,
        _ => RemoteStreamEnd::Malformed,
    }
}

/// The messages of the server's side, which a task sends.
pub(super) struct Responses(pub(super) Receiver<Result<Bytes, Status>>);

impl Stream for Responses {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

/// Gives a stream of requests, or of responses, its messages.
pub(super) type MessageSender = tokio::sync::mpsc::Sender<Result<Bytes, Status>>;

/// The messages of the client's side, which a task sends.
pub(super) struct CallRequests(pub(super) Receiver<Result<Bytes, Status>>);

impl Stream for CallRequests {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        // A client sends no errors.
        self.0.poll_recv(cx).map(|message| message?.ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back() {
        for end in [
            RemoteRecord::Failure(vec![]),
            RemoteRecord::End(RemoteStreamEnd::Finished),
            RemoteRecord::End(RemoteStreamEnd::Abandoned),
            RemoteRecord::End(RemoteStreamEnd::BindingEnded),
            RemoteRecord::End(RemoteStreamEnd::PeerDied),
            RemoteRecord::End(RemoteStreamEnd::Malformed),
        ] {
            let bytes = CallMessage::End(end.clone()).to_bytes();
            assert!(matches!(CallMessage::read(&bytes).unwrap(), CallMessage::End(back) if back == end));
        }
        for place in [None, Some(StreamPlace { at: 7, file: 1 })] {
            let message = RemoteMessage { bytes: vec![7; 9], sealed: vec![vec![1]], streams: vec![] };
            let bytes = CallMessage::Value(message, place).to_bytes();
            let Ok(CallMessage::Value(back, there)) = CallMessage::read(&bytes) else { panic!("{bytes:?}") };
            assert_eq!((back.bytes, back.sealed, there), (vec![7; 9], vec![vec![1]], place));
        }
        let back = |message: &CallMessage| CallMessage::read(&message.to_bytes());
        assert!(matches!(back(&CallMessage::ReaderGone), Ok(CallMessage::ReaderGone)));
        assert!(matches!(back(&CallMessage::Taken(7)), Ok(CallMessage::Taken(7))));
    }

    #[test]
    fn items_come_back_in_one_message() {
        let items = [vec![], vec![1], vec![2; 600]];
        let mut batch = ItemsBatch::default();
        assert_eq!((batch.is_empty(), batch.len()), (true, 0));
        items.iter().for_each(|item| batch.push(item));
        assert_eq!((batch.len(), batch.is_full()), (1 + 3 * 4 + 601, false));
        let bytes = batch.take();
        let Ok(CallMessage::Items(back)) = CallMessage::read(&bytes) else { panic!("{bytes:?}") };
        assert_eq!(back.collect::<Vec<_>>(), items);
        assert!(batch.is_empty());
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        for bad in [
            &[][..],
            &[END],
            &[END, 1, 1],
            &[VALUE, 200],
            &[READER_GONE, 0],
            &[TAKEN, 1],
            &[3, 0, 0, 0],
            &[9, 9],
            &[ITEMS, 1],
            &[ITEMS, 1, 0, 0, 0],
            &[ITEMS, 0, 0, 0, 0, 255, 255, 255, 255, 1],
        ] {
            assert!(CallMessage::read(&Bytes::from_static(bad)).is_err(), "{bad:?}");
        }
        let unknown = CallMessage::read(&Bytes::from_static(&[END, 77])).unwrap();
        assert!(matches!(unknown, CallMessage::End(RemoteRecord::End(RemoteStreamEnd::Malformed))));
    }
}
