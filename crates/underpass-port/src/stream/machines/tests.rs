//! A transport without a network: messages go from one machine to the other as values.

use super::*;
use crate::stream::parcel::Parcel;
use crate::stream::{Stream, StreamOptions, StreamSender};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use underpass_wire::Decode;

const MOST: usize = 4 << 20;

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `work` on this kernel thread.
fn run<T>(work: impl Future<Output = T>) -> T {
    let (mut work, limit) = (pin!(work), Instant::now() + Duration::from_secs(120));
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    loop {
        if let Poll::Ready(value) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        assert!(Instant::now() < limit, "nothing comes");
        thread::park_timeout(Duration::from_secs(1));
    }
}

/// The message that carries a stream, after one other byte.
fn message(stream: &Stream<String>) -> RemoteMessage {
    let mut parcel = Parcel::default();
    (7u8, stream).encode(&mut parcel);
    let place = StreamPlace { at: parcel.bytes.len(), file: 0 };
    let files = parcel.files.try_into().unwrap();
    let streams = vec![RemoteStream { place, files }];
    RemoteMessage { bytes: parcel.bytes, streams, ..Default::default() }
}

/// The stream that a message carries.
fn stream(mut message: RemoteMessage) -> Stream<String> {
    let files = Vec::from(message.streams.pop().unwrap().files);
    let mut parcel = Parcel { bytes: message.bytes, files };
    assert_eq!(u8::decode(&mut parcel), Ok(7));
    Stream::decode(&mut parcel).unwrap()
}

/// A stream from a sender by way of two machines: its two ends in the middle too.
type Way = (StreamSender<String>, RemoteStreamReader, RemoteStreamWriter, Stream<String>);

fn way() -> Way {
    let (sender, offered) = StreamOptions::new().longest(100).open::<String>().unwrap();
    let mut here = message(&offered);
    drop(offered);
    let (reader, place) = RemoteStreamReader::take(&mut here, MOST).unwrap().unwrap();
    let mut there = RemoteMessage { bytes: here.bytes, ..Default::default() };
    let writer = RemoteStreamWriter::put(&mut there, place, MOST, false).unwrap();
    (sender, reader, writer, stream(there))
}

async fn carry(reader: &mut RemoteStreamReader, writer: RemoteStreamWriter) -> RemoteStreamEnd {
    loop {
        match reader.next().await {
            RemoteRecord::End(how) => {
                writer.end(how);
                return how;
            }
            record => writer.send(record).await.unwrap(),
        }
    }
}

#[test]
fn items_and_the_end_arrive() {
    let (sender, mut reader, writer, stream) = way();
    let sends = thread::spawn(move || {
        (0..5000).try_for_each(|n| sender.send(&n.to_string())).unwrap();
        sender.finish();
    });
    let reads = thread::spawn(move || {
        stream.into_iter().map(Result::unwrap).enumerate().all(|(n, item)| item == n.to_string())
    });
    assert_eq!(run(carry(&mut reader, writer)), RemoteStreamEnd::Finished);
    sends.join().unwrap();
    assert!(reads.join().unwrap());
}

#[test]
fn each_end_is_the_same_on_the_other_side() {
    let (sender, mut reader, writer, mut stream) = way();
    sender.send(&"one".to_owned()).unwrap();
    drop(sender);
    assert_eq!(run(carry(&mut reader, writer)), RemoteStreamEnd::Abandoned);
    assert_eq!(stream.recv(), Ok(Some("one".to_owned())));
    assert_eq!(stream.recv(), Err(StreamError::Abandoned));

    let (sender, mut reader, writer, mut stream) = way();
    sender.fail(&"why".to_owned()).unwrap();
    let failure = run(reader.next());
    run(writer.send(failure)).unwrap();
    drop(writer);
    assert_eq!(stream.recv(), Err(StreamError::Failed("why".to_owned())));

    for (how, error) in [
        (RemoteStreamEnd::BindingEnded, StreamError::BindingEnded),
        (RemoteStreamEnd::PeerDied, StreamError::PeerDied),
        (RemoteStreamEnd::Malformed, StreamError::Malformed),
    ] {
        let (_sender, _reader, writer, mut stream) = way();
        writer.end(how);
        assert_eq!(stream.recv(), Err(error));
    }
}

#[test]
fn a_way_that_breaks_looks_like_a_death() {
    let (sender, reader, writer, mut stream) = way();
    sender.send(&"lost".to_owned()).unwrap();
    drop((reader, writer));
    assert_eq!(stream.recv(), Err(StreamError::PeerDied));
    assert_eq!(run(sender.closed()), StreamSendError::PeerDied);
}

#[test]
fn a_reader_that_wants_no_more_is_no_death() {
    let (sender, reader, writer, stream) = way();
    drop(stream);
    run(writer.closed());
    assert_eq!(run(writer.send(RemoteRecord::Item(vec![0]))), Err(StreamSendError::ReaderDropped));
    reader.close();
    assert_eq!(run(sender.closed()), StreamSendError::ReaderDropped);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let described = |bytes: Vec<u8>| RemoteMessage { bytes, ..Default::default() };
    let (_sender, offered) = StreamOptions::new().open::<String>().unwrap();
    let good = message(&offered).bytes;
    let at = good.len();
    let put = |bytes: &[u8], at, most| {
        RemoteStreamWriter::put(&mut described(bytes.to_vec()), StreamPlace { at, file: 0 }, most, false)
            .map(drop)
    };
    assert!(put(&good, at, MOST).is_ok());
    for wrong in [0, 3, at + 1, usize::MAX] {
        assert!(put(&good, wrong, MOST).is_err(), "{wrong}");
    }
    assert!(put(&good, at, 100).is_err(), "items may be longer than is allowed");
    assert!(put(&vec![255; at], at, MOST).is_err());
    assert!(put(&vec![0; at], at, MOST).is_err());

    let mut twice = message(&offered);
    twice.streams.extend(message(&offered).streams);
    assert!(RemoteStreamReader::take(&mut twice, MOST).unwrap_err().to_string().contains("more than one"));
    assert!(RemoteStreamReader::take(&mut message(&offered), 100).is_err());
    assert!(RemoteStreamReader::take(&mut described(vec![]), MOST).unwrap().is_none());

    // Items that are none, and that are too long.
    let (_sender, _reader, writer, mut stream) = way();
    assert_eq!(run(writer.send(RemoteRecord::Item(vec![1; 200]))), Err(StreamSendError::TooLong));
    run(writer.send(RemoteRecord::Item(vec![255; 9]))).unwrap();
    assert_eq!(stream.recv(), Err(StreamError::Malformed));
}

#[test]
fn the_streams_of_all_machines_are_bounded() {
    let most = (process::files() / 4 / FILES).max(1);
    let bytes = MEMORY / most;
    let first = charge_for_machines(MEMORY - bytes).unwrap();
    let second = charge_for_machines(1).unwrap();
    assert!(
        matches!(charge_for_machines(1), Err(OpenStreamError::MemoryOfUser)),
        "a stream counts for its share"
    );
    drop(second);
    charge_for_machines(bytes).unwrap();
    drop(first);
}
