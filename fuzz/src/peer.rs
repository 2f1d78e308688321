//! A peer that follows no rule, step by step. An input of `server` and `client` is a list of its
//! steps and of those of the honest end.

use crate::interface::TargetClient;
use crate::values::Values;
use arbitrary::{Arbitrary, Result, Unstructured};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use underpass_channel::layout::{
    CANCEL_WORDS, CLIENT_ATTENTION, COLLECT, DONATIONS, LARGEST, REPLIES, REQUESTS, SERVER_ATTENTION, SLOTS,
    STACK, STACKS, TAKEN,
};
use underpass_channel::{
    Cell, Channel, Doorbell, INLINE, OverflowBuffer, Payload, PayloadPlace, Region, RingMemory, Tag,
};
use underpass_os::{PayloadFile, Socket};

/// The slots that most messages name. There are few, so that the messages meet.
const SLOTS_USED: u16 = 4;
/// The outcome of a call that gives its slot back.
const LATE: u16 = 9;

/// The next step.
#[derive(Debug)]
pub enum Step<Own> {
    /// The honest end does something.
    Own(Own),
    /// The peer posts a message at the right place and with the right sequence number.
    Post(Message),
    /// It writes a word of the region, mostly of a ring.
    Word(Place64),
    /// It writes an attention or a donation word.
    Bell(Bit32),
    /// It writes into an A-stack, whether that is its own at the moment or not.
    Stack(Slot, u16, Vec<u8>),
    /// It sends a message over the socket.
    Say(Said, Vec<File>),
    /// It takes the messages that have come.
    Take,
    /// It hangs up.
    HangUp,
}

impl<'a, Own: Arbitrary<'a>> Arbitrary<'a> for Step<Own> {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        // Steps that end a binding soon are rare, or nothing else would be tried.
        Ok(match u.int_in_range(0..=63u8)? {
            0..26 => Self::Own(u.arbitrary()?),
            26..46 => Self::Post(u.arbitrary()?),
            46..52 => Self::Word(u.arbitrary()?),
            52..56 => Self::Bell(u.arbitrary()?),
            56..59 => Self::Stack(u.arbitrary()?, u.arbitrary()?, u.arbitrary()?),
            59..61 => Self::Say(u.arbitrary()?, u.arbitrary()?),
            61..63 => Self::Take,
            _ => Self::HangUp,
        })
    }
}

/// A slot's number.
#[derive(Clone, Copy, Debug)]
pub struct Slot(pub u16);

impl<'a> Arbitrary<'a> for Slot {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self(if u.ratio(1, 30)? { u.arbitrary()? } else { u.int_in_range(0..=SLOTS_USED - 1)? }))
    }
}

/// A word and its value.
#[derive(Debug)]
pub struct Place64 {
    index: usize,
    value: u64,
    flip: bool,
}

impl<'a> Arbitrary<'a> for Place64 {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let ring = *u.choose(&[REQUESTS, REPLIES])? / 8;
        let index = match u.int_in_range(0..=7)? {
            0 => u.int_in_range(0..=STACKS / 8 - 1)?,
            1 => TAKEN / 8,
            2 => CANCEL_WORDS / 8 + usize::from(u.int_in_range(0..=SLOTS_USED - 1)?),
            // The first lines of a ring, in the smallest ring window: line l of the window lies at
            // 37 l.
            _ => ring + u.int_in_range(0..=5usize)? * 37 % 128 * 8 + u.int_in_range(0..=7usize)?,
        };
        // A head of a plausible sequence number, or any head.
        let head = 1 << 63 | u.int_in_range(0..=9u64)? | u64::from(Slot::arbitrary(u)?.0) << 16;
        let value = match u.int_in_range(0..=3)? {
            0 => u.arbitrary()?,
            3 => *u.choose(&[0, 1, u64::MAX - 1, u64::MAX])?,
            1 => head | u.int_in_range(0..=12u64)? << 32,
            _ => head | u.int_in_range(0..=0x1ffu64)? << 48,
        };
        Ok(Self { index, value, flip: u.ratio(1, 4)? })
    }
}

/// An attention or donation word and its value.
#[derive(Debug)]
pub struct Bit32 {
    offset: usize,
    value: u32,
}

impl<'a> Arbitrary<'a> for Bit32 {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let cpu = u.int_in_range(0..=3usize)?;
        let offset = *u.choose(&[SERVER_ATTENTION, CLIENT_ATTENTION, DONATIONS + 4 * cpu])?;
        let value = if u.arbitrary()? { u.int_in_range(0..=31)? } else { u.arbitrary()? };
        Ok(Self { offset, value })
    }
}

/// A request or a reply, made from the descriptor. Most are right.
#[derive(Debug)]
pub struct Message {
    /// Its slot.
    slot: u16,
    /// The procedure that is called or answered.
    procedure: u16,
    /// The outcome of a reply.
    outcome: u16,
    /// The number of the late call that a reply answers, if the client collects by that slot.
    late: u64,
    arguments: Vec<u8>,
    result: Vec<u8>,
    place: u8,
    bounded: bool,
    /// A claimed tag instead of the tag of the row.
    tag: Option<u64>,
    /// A claimed length instead of the true one.
    lie: Option<u64>,
    file: File,
}

impl<'a> Arbitrary<'a> for Message {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let descriptor = TargetClient::descriptor();
        let mut procedure = if u.ratio(1, 30)? {
            let any = u.arbitrary()?;
            *u.choose(&[any, COLLECT])?
        } else {
            u.choose_index(descriptor.procedures.len())? as u16
        };
        let mut outcome =
            if u.ratio(1, 4)? { *u.choose(&[1, 2, 3, 4, 5, 9, 10, 11, 12, LATE, LATE])? } else { 0 };
        let late: u64 = u.int_in_range(0..=7)?;
        let (mut arguments, mut result) = match outcome {
            0 => (Values(descriptor).arguments(procedure, u)?, Values(descriptor).result(procedure, u)?),
            LATE if u.ratio(7, 8)? => (Vec::new(), late.to_le_bytes().to_vec()),
            _ => (u.arbitrary()?, u.arbitrary()?),
        };
        let lie = match u.int_in_range(0..=20)? {
            0 => Some(u.arbitrary()?),
            1 => Some(*u.choose(&[0, 56, 57, 32 << 10, (32 << 10) + 1, LARGEST, LARGEST + 1, u64::MAX])?),
            _ => None,
        };
        let slot = Slot::arbitrary(u)?.0;
        let (place, bounded) = (u.arbitrary()?, u.ratio(1, 4)?);
        let tag = match u.int_in_range(0..=20)? {
            0 => Some(u.arbitrary()?),
            // The row of the next binding, or one that was there before.
            1 => Some(Tag::new(u.int_in_range(0..=9)?, u.int_in_range(0..=3)?).word()),
            _ => None,
        };
        let file = u.arbitrary()?;
        if u.ratio(1, 4)? {
            let words = words(u)?;
            arguments = [&words[..], &arguments].concat();
            result = [&words[..], &result].concat();
            (procedure, outcome) = (procedure | WITH_INTERFACES, DONE_WITH_INTERFACES);
        }
        Ok(Self { slot, procedure, outcome, late, arguments, result, place, bounded, tag, lie, file })
    }
}

/// The bit of a procedure's number that says that the arguments begin with words of interfaces.
const WITH_INTERFACES: u16 = 1 << 15;
/// The outcome of a call whose result begins with them.
const DONE_WITH_INTERFACES: u16 = 13;
/// The bit of a word that says that the row is the receiver's.
const HOME: u64 = 1 << 63;

/// The number of some interfaces, which mostly is right, and a word for each.
fn words(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let count = u.int_in_range(0..=3u16)?;
    let said = if u.ratio(1, 20)? { u.arbitrary()? } else { count };
    let mut bytes = said.to_le_bytes().to_vec();
    for _ in 0..count {
        let home = if u.arbitrary()? { HOME } else { 0 };
        let word = match u.ratio(1, 20)? {
            true => u.arbitrary()?,
            false => Tag::new(u.int_in_range(0..=5)?, u.int_in_range(0..=3)?).word() | home,
        };
        bytes.extend(word.to_le_bytes());
    }
    Ok(bytes)
}

/// A file to pass.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum File {
    /// A file that can be read.
    Bytes,
    /// Memory without bytes.
    Empty,
    /// A file that is not memory.
    Null,
    /// The region itself.
    Region,
    /// Empty, sealed memory of an overflow buffer's size.
    OverflowBuffer,
    /// An end of a pipe.
    Pipe,
    /// The socket itself.
    Socket,
}

/// A message of the socket, mostly of 16 bytes.
#[derive(Debug)]
pub struct Said(Vec<u8>);

impl<'a> Arbitrary<'a> for Said {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        if u.ratio(1, 20)? {
            return u.arbitrary().map(Self);
        }
        let mut bytes = vec![0; 16];
        bytes[0] = *u.choose(&[0, 0, 0, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 10, 12, 13, 14, 15, 16])?;
        bytes[1] = u.int_in_range(0..=4)? | if u.ratio(1, 8)? { 8 } else { 0 };
        bytes[6] = u.int_in_range(0..=3)?;
        bytes[2..4].copy_from_slice(&Slot::arbitrary(u)?.0.to_le_bytes());
        bytes[8..].copy_from_slice(&u.int_in_range(0..=LARGEST + 1)?.to_le_bytes());
        Ok(Self(bytes))
    }
}

/// A liar: the other end of a channel, under the control of a peer that follows no rule.
pub struct Peer {
    socket: Socket,
    /// The number of the channel among its binding's.
    number: u8,
    channel: Channel,
    region: Region,
    file: OwnedFd,
    replies: bool,
    /// It has passed its own end of the socket.
    gave_itself: std::cell::Cell<bool>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Any holder of a socket keeps it open, also its owner's peer. The owner's death is noticed
        // by its process (decision 0044). The owner here lives in its peer's process, which does
        // not end.
        if self.gave_itself.get() {
            self.socket.hang_up();
        }
    }
}

impl Peer {
    /// A client's end of a channel that a server has passed, with A-stacks of the default size.
    pub fn client(file: OwnedFd, channel: Channel, socket: Socket) -> Self {
        let region = Region::adopt(file.as_fd(), STACK).expect("a region");
        let gave_itself = std::cell::Cell::new(false);
        Self { region, socket, number: 0, channel, file, replies: false, gave_itself }
    }

    /// A client's end of a further channel with this number.
    pub fn further(mut self, number: u8) -> Self {
        self.number = number;
        self
    }

    /// A server's end.
    pub fn server(file: OwnedFd, channel: Channel, socket: Socket) -> Self {
        let mut peer = Self::client(file, channel, socket);
        peer.replies = true;
        peer
    }

    /// Makes a step of its own.
    pub fn does<Own>(&self, step: Step<Own>) {
        // Relaxed, here and below: the honest end must cope with any order.
        match step {
            Step::Own(_) => {}
            Step::Post(message) => self.post(&message),
            Step::Word(Place64 { index, value, flip: true }) => {
                self.region.word(index).fetch_xor(1 << (value % 64), Ordering::Relaxed);
            }
            Step::Word(Place64 { index, value, .. }) => {
                self.region.word(index).store(value, Ordering::Relaxed);
            }
            Step::Bell(Bit32 { offset, value }) => {
                self.region.attention(offset).store(value, Ordering::Relaxed);
            }
            Step::Stack(Slot(slot), skipped, bytes) => self.fill_stack(slot, usize::from(skipped), &bytes),
            Step::Say(Said(mut bytes), files) => {
                if let Some(byte) = bytes.get_mut(1) {
                    *byte |= self.number << 4;
                }
                let files: Vec<_> =
                    files.iter().take(4).filter_map(|&file| self.file(file, &bytes)).collect();
                let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
                // A socket that is full or closed accepts no more.
                let _ = self.socket.send(&bytes, &files);
            }
            Step::Take => {
                // The liar may have damaged its own ring.
                let _ = self.channel.receiving().take(&mut Payload::new());
            }
            Step::HangUp => self.socket.hang_up(),
        }
    }

    fn fill_stack(&self, slot: u16, skipped: usize, bytes: &[u8]) {
        use underpass_wire::Sink;
        if u32::from(slot) < underpass_channel::layout::SLOTS {
            let mut sink = self.region.stack_sink(slot);
            sink.put(&vec![0xff; skipped]);
            sink.put(bytes);
        }
    }

    fn post(&self, message: &Message) {
        let bytes = if self.replies { &message.result } else { &message.arguments };
        let what = if self.replies { message.outcome } else { message.procedure };
        let tag = message.tag.map_or(Tag::new(0, 1), Tag::of_word);
        let new =
            if self.replies { Cell::new(message.slot, what) } else { Cell::request(message.slot, what, tag) };
        let (mut cell, begin) = (Cell { bounded: message.bounded, ..new }, new.length as usize);
        if self.replies && u32::from(message.slot) < SLOTS {
            self.channel.section_words(message.slot).write([message.late, 0, 0, 0]);
        }
        let length = message.lie.unwrap_or(bytes.len() as u64);
        match message.place % 8 {
            7 => (cell.place, cell.length) = (PayloadPlace::OverflowBuffer, length as u32),
            0 | 4 => {
                cell.place = PayloadPlace::OutOfBand;
                let in_stack = message.place & 4 != 0;
                let mut announced = [0; 16];
                announced[0] = 1;
                if in_stack {
                    // The bytes in the A-stack, and a file that belongs to them.
                    self.fill_stack(message.slot, 0, bytes);
                    (announced[1], announced[4]) = (1, 1);
                }
                announced[1] |= self.number << 4;
                announced[2..4].copy_from_slice(&message.slot.to_le_bytes());
                announced[8..].copy_from_slice(&length.to_le_bytes());
                let file = self.file(message.file, bytes);
                let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
                let _ = self.socket.send(&announced, &files);
            }
            place if place % 4 == 1 || bytes.len() > INLINE - begin => {
                self.fill_stack(message.slot, 0, bytes);
                (cell.place, cell.length) = (PayloadPlace::Stack, length as u32);
            }
            _ => {
                cell.payload.0[begin..][..bytes.len()].copy_from_slice(bytes);
                cell.length = (length as u32).wrapping_add(begin as u32);
            }
        }
        // It claims that all its earlier messages have been received, so that it stays on the lines
        // that `Place64` means.
        if !self.channel.post_and_look(&cell, 0) {
            return;
        }
        match self.channel.claim() {
            Doorbell::None => {}
            Doorbell::Wake => self.channel.wake_peer(),
            Doorbell::Socket => {
                let mut bell = [0; 16];
                bell[1] = self.number << 4;
                drop(self.socket.send(&bell, &[]));
            }
        }
    }

    fn file(&self, kind: File, bytes: &[u8]) -> Option<OwnedFd> {
        match kind {
            File::Bytes | File::Empty => {
                let payload_file = PayloadFile::create("fuzz").ok()?;
                if let File::Bytes = kind {
                    payload_file.write(bytes, 0).ok()?;
                }
                payload_file.as_fd().try_clone_to_owned().ok()
            }
            File::Null => std::fs::File::open("/dev/null").ok().map(OwnedFd::from),
            File::OverflowBuffer => OverflowBuffer::create(1).ok().flatten().map(|(_, file)| file),
            File::Region => self.file.try_clone().ok(),
            File::Pipe => std::io::pipe().ok().map(|(reader, _)| reader.into()),
            File::Socket => {
                self.gave_itself.set(true);
                self.socket.as_fd().try_clone_to_owned().ok()
            }
        }
    }
}
