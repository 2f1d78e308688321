//! Entry points for the fuzz targets in `fuzz/`, which are built with `--cfg fuzzing`. They are no
//! part of the library.
//!
//! Each type here is an end of a lane that follows no rule. The honest end is one of the library.

use crate::open::{Opened, PortOpen, PortOpenClient, hash_of};
use crate::receiver::PortReceiver;
use crate::stream::fuzz::{open_reader, open_writer};
use crate::stream::{Stream, StreamSender};
use crate::sync::fuzz::read_replies;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use underpass_channel::{LaneEnd, LaneMemory, LaneSizes, LaneWord, MappedLane, WhenFull};
use underpass_os::Socket;
use underpass_os::foreign::SendingEnd;

/// The words of a lane.
const WORDS: [LaneWord; 6] = [
    LaneWord::Posted,
    LaneWord::Oldest,
    LaneWord::Finished,
    LaneWord::Taken,
    LaneWord::Closed,
    LaneWord::Counted,
];

/// The memory and the sockets of an end that follows no rule.
#[derive(Debug)]
pub struct FuzzEnd {
    memory: MappedLane,
    ring: usize,
    ours: Vec<Socket>,
    passed: Vec<SendingEnd>,
    _stub: Option<PortOpenClient>,
}

impl FuzzEnd {
    pub(crate) fn new(
        memory: MappedLane,
        sizes: LaneSizes,
        ours: Vec<Socket>,
        passed: Vec<SendingEnd>,
    ) -> Self {
        Self { memory, ring: sizes.bytes(), ours, passed, _stub: None }
    }

    /// A sender of numbers to the port `name`. `None` if the owner has no room now.
    pub fn sender(name: &str) -> Option<Self> {
        let stub = PortOpenClient::import(name).ok()?;
        let (room, theirs) = Socket::pair().ok()?;
        let opened = stub.open(hash_of::<u64>(), true, theirs).ok()?;
        let Opened { items, longest, bytes, drop_oldest, memory, bell, .. } = opened;
        let when_full = if drop_oldest { WhenFull::DropOldest } else { WhenFull::Refuse };
        let sizes =
            LaneSizes::with_bytes(items as usize, longest as usize, bytes as usize, when_full).ok()?;
        let memory = MappedLane::adopt(memory.as_fd(), sizes).ok()?;
        let mut end = Self::new(memory, sizes, vec![room], vec![SendingEnd::adopt(bell).ok()?]);
        end._stub = Some(stub);
        Some(end)
    }

    /// A writer, and the stream that an honest reader has of it.
    pub fn writer() -> (Self, Stream<u64>) {
        open_writer()
    }

    /// A reader, and the sender that an honest writer has.
    pub fn reader() -> (Self, StreamSender<u64>) {
        open_reader()
    }

    /// Writes a word.
    pub fn word(&self, which: u8, value: u64) {
        // Relaxed, here and below: the honest end must cope with any order.
        let word = WORDS[usize::from(which) % WORDS.len()];
        self.memory.word(word).store(value, Ordering::Relaxed);
    }

    /// Adds to a word, as an honest end does.
    pub fn advance(&self, which: u8, by: u8) {
        let word = WORDS[usize::from(which) % WORDS.len()];
        self.memory.word(word).fetch_add(by.into(), Ordering::Relaxed);
    }

    /// Writes an attention word.
    pub fn attention(&self, of_sender: bool, value: u32) {
        let end = if of_sender { LaneEnd::Sender } else { LaneEnd::Receiver };
        self.memory.attention(end).store(value, Ordering::Relaxed);
    }

    /// Writes into the ring.
    pub fn put(&self, at: u16, value: u64) {
        self.memory.put(usize::from(at) % (self.ring / 8) * 8, &value.to_le_bytes());
    }

    /// Sends something over a socket that it was passed, with a file if that is said.
    pub fn ring(&self, which: u8, file: bool) {
        let passed = &self.passed[usize::from(which) % self.passed.len()];
        let file: Option<OwnedFd> = file.then(|| std::io::pipe().ok().map(|(end, _)| end.into())).flatten();
        let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
        // A socket that is full or closed accepts no more.
        let _ = passed.send(&[which], &files);
    }

    /// Takes what came over a socket that it made.
    pub fn hear(&self, which: u8) {
        if let Some(socket) = self.ours.get(usize::from(which) % self.ours.len().max(1)) {
            let _ = socket.receive(&mut [0; 8]);
        }
    }

    /// Ends the connection of a socket that it made.
    pub fn hang_up(&self, which: u8) {
        if let Some(socket) = self.ours.get(usize::from(which) % self.ours.len().max(1)) {
            socket.hang_up();
        }
    }
}

/// Writes a word of a lane as its owner does who follows no rule.
pub fn spoil(receiver: &PortReceiver<u64>, lane: u64, which: u8, value: u64) {
    let lanes = receiver.port.lanes();
    if lanes.has(lane) {
        lanes.spoil(lane, WORDS[usize::from(which) % WORDS.len()], value);
    }
}

/// Reads untrusted bytes as what a sender of a synchronous port is answered with.
///
/// # Panics
/// If a reply that was read changes when it is written and read again.
pub fn replies(bytes: &[u8]) {
    read_replies(bytes);
}
