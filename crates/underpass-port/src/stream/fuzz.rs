//! Ends of streams that follow no rule, for fuzz targets.

use crate::fuzz::FuzzEnd;
use crate::stream::offer::StreamOffer;
use crate::stream::parcel::Parcel;
use crate::stream::{Stream, StreamOptions, StreamSender};
use std::os::fd::AsFd;
use underpass_channel::{LaneSizes, MappedLane, WhenFull};
use underpass_os::Socket;
use underpass_os::foreign::SendingEnd;
use underpass_wire::{Decode, Encode};

/// A lying writer, and the honest reader's stream.
pub(crate) fn open_writer() -> (FuzzEnd, Stream<u64>) {
    let sizes = LaneSizes::new(4, 9, WhenFull::Refuse).expect("there are such lanes");
    let (memory, file) = MappedLane::create(sizes).expect("memory");
    let pair = || Socket::pair().expect("a pair of sockets");
    let ((room, to_room), (bell, to_bell)) = (pair(), pair());
    let copy = SendingEnd::adopt(to_bell.try_clone().expect("a copy")).expect("a socket");
    let offer = StreamOffer { sizes, light: true, memory: file, room: to_room, bell: to_bell };
    let mut parcel = Parcel::default();
    offer.encode(&mut parcel);
    drop(offer);
    let stream = Stream::decode(&mut parcel).expect("it is a stream");
    (FuzzEnd::new(memory, sizes, vec![room, bell], vec![copy]), stream)
}

/// A lying reader, and the honest writer's sender.
pub(crate) fn open_reader() -> (FuzzEnd, StreamSender<u64>) {
    let (sender, stream) = StreamOptions::new().items(4).open::<u64>().expect("memory");
    let mut parcel = Parcel::default();
    stream.encode(&mut parcel);
    drop(stream);
    let offer = StreamOffer::decode(&mut parcel).expect("it is a stream");
    let memory = MappedLane::adopt(offer.memory.as_fd(), offer.sizes).expect("its memory");
    let passed = [offer.room, offer.bell].map(|end| SendingEnd::adopt(end).expect("a socket"));
    (FuzzEnd::new(memory, offer.sizes, Vec::new(), passed.into()), sender)
}
