//! Hostile ends of streams, and what a stream costs.

use crate::stream::offer::{MOST_MEMORY, StreamOffer};
use crate::stream::parcel::Parcel;
use crate::stream::reader_end::FLOODED;
use crate::stream::words::{DROPPED, FINISHED, ITEM, LIGHT, TAKEN};
use crate::stream::{OpenStreamError, Stream, StreamError, StreamOptions, StreamSendError};
use crate::tests::mutations;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::yield_now;
use underpass_channel::{LaneEnd, LaneMemory, LaneSender, LaneSizes, LaneWord, MappedLane, WhenFull};
use underpass_os::foreign::SendingEnd;
use underpass_os::{Socket, kind};
use underpass_wire::{Decode, DecodeError, Encode, to_bytes};

fn sizes(items: usize, longest: usize) -> LaneSizes {
    LaneSizes::new(items, longest, WhenFull::Refuse).unwrap()
}

/// A writer that follows no rule, and the stream that it offers.
struct LyingWriter {
    memory: Arc<MappedLane>,
    room: Socket,
    bell: Socket,
    /// A copy of the reader's end.
    copy: SendingEnd,
}

fn lying_writer(sizes: LaneSizes) -> (LyingWriter, Stream<u64>) {
    let (memory, file) = MappedLane::create(sizes).unwrap();
    let ((room, to_room), (bell, to_bell)) = (Socket::pair().unwrap(), Socket::pair().unwrap());
    let copy = SendingEnd::adopt(to_bell.try_clone().unwrap()).unwrap();
    let offer = StreamOffer { sizes, light: true, memory: file, room: to_room, bell: to_bell };
    let mut parcel = Parcel::default();
    offer.encode(&mut parcel);
    drop(offer);
    let stream = Stream::decode(&mut parcel).unwrap();
    (LyingWriter { memory: Arc::new(memory), room, bell, copy }, stream)
}

/// A reader that follows no rule, of a stream of `items` numbers.
struct LyingReader {
    memory: MappedLane,
    room: SendingEnd,
    bell: SendingEnd,
}

impl LyingReader {
    fn of(stream: &Stream<u64>) -> Self {
        let mut parcel = Parcel::default();
        stream.encode(&mut parcel);
        let offer = StreamOffer::decode(&mut parcel).unwrap();
        let memory = MappedLane::adopt(offer.memory.as_fd(), offer.sizes).unwrap();
        let [room, bell] = [offer.room, offer.bell].map(|end| SendingEnd::adopt(end).unwrap());
        Self { memory, room, bell }
    }

    fn set(&self, word: LaneWord, value: u64) {
        self.memory.word(word).store(value, Ordering::Relaxed);
    }
}

/// A generator of numbers that look random (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

#[test]
fn what_is_no_stream_is_refused() {
    let good = || {
        let (sender, stream) = StreamOptions::new().open::<u64>().unwrap();
        let mut parcel = Parcel::default();
        stream.encode(&mut parcel);
        (sender, parcel)
    };
    let refused = |parcel: &mut Parcel| Stream::<u64>::decode(parcel).unwrap_err();
    let bad = DecodeError::BadValue { of: "Stream" };
    // Files in wrong places, and of other kinds.
    for (at, file) in [
        (0, OwnedFd::from(File::open("/dev/null").unwrap())),
        (0, Socket::pair().unwrap().1),
        (1, File::open("/dev/null").unwrap().into()),
        (1, std::io::pipe().unwrap().1.into()),
        (2, File::open("/").unwrap().into()),
    ] {
        let (_sender, mut parcel) = good();
        parcel.files[at] = file;
        assert_eq!(refused(&mut parcel), bad);
    }
    // Too few files, as of a stream that was read already.
    let (_sender, mut parcel) = good();
    parcel.files.pop();
    assert_eq!(refused(&mut parcel), DecodeError::NoFile);
    // Sizes that no lane has, and those that are not the memory's.
    for told in [
        (0u64, 9u64, 4096u64),
        (1, u64::MAX, 4096),
        (u64::MAX, 9, 4096),
        (1, 9, 4095),
        (1, 9, 2 * MOST_MEMORY as u64),
        (1, 9, 4096),
    ] {
        let (_sender, mut parcel) = good();
        parcel.bytes = to_bytes(&(told.0, told.1, told.2, true));
        assert_eq!(refused(&mut parcel), bad, "{told:?}");
    }
    let (_sender, mut parcel) = good();
    assert!(kind::is_memory(&parcel.files[0]) && Stream::<u64>::decode(&mut parcel).is_ok());
}

#[test]
fn a_stream_that_was_read_cannot_be_passed_on() {
    let (sender, mut stream) = StreamOptions::new().open::<u64>().unwrap();
    sender.send(&7).unwrap();
    assert_eq!(stream.recv(), Ok(Some(7)));
    let mut parcel = Parcel::default();
    stream.encode(&mut parcel);
    assert_eq!(parcel.bytes.len(), stream.size());
    assert!(Stream::<u64>::decode(&mut parcel).is_err());
    // It goes on here.
    sender.send(&8).unwrap();
    assert_eq!(stream.recv(), Ok(Some(8)));
}

#[test]
fn streams_that_are_too_large_are_not_opened() {
    let too_large = StreamOptions::new().bytes(MOST_MEMORY + 1).open::<u64>();
    assert!(matches!(too_large, Err(OpenStreamError::Sizes(_))));
    let no_items = StreamOptions::new().items(0).open::<u64>();
    assert!(matches!(no_items, Err(OpenStreamError::Sizes(_))));
    let too_long = StreamOptions::new().longest(usize::MAX).open::<u64>();
    assert!(matches!(too_long, Err(OpenStreamError::Sizes(_))));
}

#[test]
fn a_writer_that_floods_its_reader_loses_it() {
    let (writer, mut stream) = lying_writer(sizes(4, 9));
    let end = stream.end().unwrap().clone();
    // Each of these is a report of the reader's end, for which it left no bell byte.
    while end.over() == 0 {
        let _ = writer.copy.send(&[1], &[]);
        let _ = writer.bell.receive(&mut [0; 8]);
    }
    assert_eq!(end.over(), FLOODED);
    drop(end);
    assert_eq!(stream.recv(), Err(StreamError::Malformed));
    assert_eq!(writer.memory.word(LaneWord::Closed).load(Ordering::Acquire), TAKEN | LIGHT | DROPPED);
}

#[test]
fn a_writer_that_leaves_no_place_for_a_bell_byte_loses_its_reader() {
    let (writer, mut stream) = lying_writer(sizes(4, 9));
    while writer.copy.send(&[1], &[]).is_ok() {}
    assert_eq!(stream.recv(), Err(StreamError::NoResources));
}

#[test]
fn a_writer_that_sends_on_after_its_end_is_not_heard_for_ever() {
    let (writer, mut stream) = lying_writer(sizes(4, 9));
    let mut lane = LaneSender::new(writer.memory.clone(), sizes(4, 9));
    let record = to_bytes(&(ITEM, 7u64));
    (0..4).for_each(|_| assert!(lane.post(&record, 0).is_ok()));
    writer.memory.finish(FINISHED);
    drop((writer.room, writer.bell, writer.copy));
    let mut items = 0;
    while let Ok(Some(7)) = stream.recv() {
        items += 1;
        lane.post(&record, 0).unwrap();
    }
    assert!(items >= 4, "{items}");
    assert_eq!(stream.recv(), Ok(None));
}

#[test]
fn files_for_a_writer_are_not_taken() {
    let (sender, stream) = StreamOptions::new().items(1).open::<u64>().unwrap();
    let reader = LyingReader::of(&stream);
    drop(stream);
    let file = File::open("/dev/null").unwrap();
    // Kernels before 6.16 can't refuse them.
    let passed = reader.bell.send(&[1], &[file.as_fd()]).is_ok();
    reader.memory.attention(LaneEnd::Receiver).store(u32::MAX, Ordering::Relaxed);
    sender.send(&1).unwrap();
    // And as a ring they end the stream.
    if passed && reader.room.send(&[1], &[file.as_fd()]).is_ok() {
        while sender.ended().is_none() {
            yield_now();
        }
    }
}

#[test]
fn a_reader_that_lies_deceives_its_own_writer_alone() {
    let (sender, stream) = StreamOptions::new().items(2).open::<u64>().unwrap();
    let (other, mut honest) = StreamOptions::new().items(2).open::<u64>().unwrap();
    let reader = LyingReader::of(&stream);
    (0..2).for_each(|id| sender.send(&id).unwrap());
    // It says that it has taken more than was sent.
    reader.set(LaneWord::Taken, 3);
    assert_eq!(sender.send(&2), Err(StreamSendError::Malformed));
    assert_eq!(sender.queued(), 0);
    // It says that it is gone, and is not.
    reader.set(LaneWord::Closed, u64::MAX);
    assert_eq!(sender.ended(), None);
    other.send(&7).unwrap();
    assert_eq!(honest.recv(), Ok(Some(7)));
}

#[test]
fn honest_streams_go_on_while_others_write_at_random() {
    let mut numbers = Numbers(9);
    let (mut malformed, mut ended) = (0, 0);
    let (sender, mut honest) = StreamOptions::new().items(8).open::<u64>().unwrap();
    let (mut writer, mut stream) = lying_writer(sizes(8, 9));
    let mut open = StreamOptions::new().items(8).open::<u64>().unwrap();
    let mut reader = LyingReader::of(&open.1);
    for round in 0..mutations() {
        let value = match numbers.below(3) {
            0 => numbers.below(20),
            1 => u64::MAX - numbers.below(20),
            _ => numbers.below(u64::MAX),
        };
        let words = [
            LaneWord::Posted,
            LaneWord::Finished,
            LaneWord::Taken,
            LaneWord::Closed,
            LaneWord::Counted,
            LaneWord::Oldest,
        ];
        let word = words[numbers.below(6) as usize];
        match numbers.below(8) {
            0 => writer.memory.word(word).store(value, Ordering::Relaxed),
            1 => reader.set(word, value),
            2 => writer.memory.put(numbers.below(16) as usize * 8, &value.to_le_bytes()),
            3 => writer.memory.attention(LaneEnd::Sender).store(value as u32, Ordering::Relaxed),
            4 => reader.memory.attention(LaneEnd::Receiver).store(value as u32, Ordering::Relaxed),
            5 => drop((writer.bell.receive(&mut [0; 8]), writer.room.receive(&mut [0; 8]))),
            6 => drop((reader.room.send(&[0; 3], &[]), reader.bell.send(&[0; 3], &[]))),
            _ => writer.memory.word(LaneWord::Posted).store(1 + numbers.below(3), Ordering::Relaxed),
        }
        match stream.recv_timeout(std::time::Duration::ZERO) {
            Ok(Some(_)) | Err(StreamError::Timeout) => {}
            end => {
                malformed += u64::from(end == Err(StreamError::Malformed));
                (writer, stream) = lying_writer(sizes(8, 9));
            }
        }
        if !matches!(open.0.try_send(&round), Ok(()) | Err(StreamSendError::Full)) {
            ended += 1;
            open = StreamOptions::new().items(8).open::<u64>().unwrap();
            reader = LyingReader::of(&open.1);
        }
        sender.send(&round).unwrap();
        assert_eq!(honest.recv(), Ok(Some(round)));
    }
    assert!(malformed > 20 && ended > 20, "{malformed} {ended}");
}

#[test]
fn a_reader_that_waits_gets_each_item_and_leaves_one_bell_byte_for_each_wait() {
    let (sender, mut stream) = StreamOptions::new().open::<u64>().unwrap();
    let reads = std::thread::spawn(move || {
        let ids: Vec<_> = (&mut stream).into_iter().map(Result::unwrap).collect();
        assert!(ids.iter().copied().eq(0..20_000));
    });
    for id in 0..20_000 {
        sender.send(&id).unwrap();
        // The reader waits for most items.
        while id % 8 == 0 && sender.queued() > 0 {
            yield_now();
        }
    }
    sender.finish();
    reads.join().unwrap();
}
