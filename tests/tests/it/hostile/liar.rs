//! The actions of a liar. It writes anything into all that it shares with its peer, at random or
//! deliberately, and looks for data that is not its own.

use crate::hostile::end::{End, ROW, announcement, gone_after, payload_file};
use std::sync::atomic::Ordering;
use underpass_channel::layout::{
    CANCEL_WORDS, CLIENT_ATTENTION, DONATIONS, LARGEST, LINE_WORDS, LINES, REPLIES, REQUESTS,
    SERVER_ATTENTION, SLOTS, STACK, STACKS, TAKEN,
};
use underpass_channel::{Cell, INLINE, Ids, Payload, PayloadPlace, Region, RingMemory, Sending, Tag};
use underpass_os::PayloadFile;
use underpass_tests::MARKS;
use underpass_wire::Source;

/// The mutations of a run: ten million with `UNDERPASS_TEST_LONG=1`, otherwise as many as take a
/// few seconds.
pub fn mutations() -> u32 {
    if underpass_tests::long() { 10_000_000 } else { 100_000 }
}

/// The slots that a liar mostly uses. There are few, so that its lies meet.
pub const USED: usize = 8;

/// A fixed sequence of pseudo-random numbers (xorshift64*).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, most: usize) -> usize {
        (self.next() >> 32) as usize % most
    }

    pub fn of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }
}

/// One end of a binding, and the liar behind it.
pub struct Liar<'a> {
    pub end: End,
    pub numbers: &'a mut Numbers,
    /// The procedures or outcomes in its messages.
    pub whats: &'a [u16],
    /// Whether it answers calls instead of making them.
    pub replies: bool,
    /// For a liar that answers: the slots of calls that have come and are not answered.
    pub asked: Vec<u16>,
    /// The last message, which may be sent again.
    pub last: Cell,
}

impl<'a> Liar<'a> {
    pub fn new(end: End, numbers: &'a mut Numbers, whats: &'a [u16], replies: bool) -> Self {
        Self { end, numbers, whats, replies, asked: Vec::new(), last: Cell::new(0, whats[0]) }
    }

    /// The beginning of its own ring, in words.
    fn ring(&self) -> usize {
        if self.replies { REPLIES / 8 } else { REQUESTS / 8 }
    }

    /// A slot that is mostly valid.
    fn slot(&mut self) -> u16 {
        match self.asked.pop() {
            Some(slot) => slot,
            None if self.replies || self.numbers.below(4) > 0 => self.numbers.below(USED) as u16,
            None => self.numbers.below(SLOTS as usize) as u16,
        }
    }

    /// A message that is valid or almost valid.
    fn cell(&mut self) -> Cell {
        let (stack, slot) = (STACK as u32, self.slot());
        let numbers = &mut *self.numbers;
        let random = numbers.next();
        let length = numbers.of(&[0, 1, 2, 4, 48, stack, stack, random as u32 % stack, random as u32 % 48]);
        let mut cell = Cell::new(slot, numbers.of(self.whats));
        cell.bounded = numbers.below(8) == 0;
        cell.place = numbers.of(&[
            PayloadPlace::Inline,
            PayloadPlace::Inline,
            PayloadPlace::Inline,
            PayloadPlace::Inline,
            PayloadPlace::Inline,
            PayloadPlace::Inline,
            PayloadPlace::Stack,
            PayloadPlace::Stack,
            PayloadPlace::OutOfBand,
            PayloadPlace::OutOfBand,
            PayloadPlace::OverflowBuffer,
        ]);
        cell.length = if cell.place == PayloadPlace::Inline { length.min(INLINE as u32) } else { length };
        match numbers.below(200) {
            0 => cell.ids = Ids::new(random as u16, cell.what()),
            1 => cell.length = random as u32,
            _ => {}
        }
        for i in 0..Payload::WORDS {
            cell.payload.set_word(i, numbers.next() >> numbers.of(&[0, 32, 56, 63]));
        }
        // A tag that is mostly valid.
        if !self.replies && numbers.below(16) > 0 {
            cell.payload.set_word(0, ROW.word());
            if cell.place == PayloadPlace::Inline {
                cell.length = (cell.length + Tag::BYTES as u32).min(INLINE as u32);
            }
        }
        cell
    }

    fn post(&mut self) {
        let cell = self.cell();
        if cell.place == PayloadPlace::OutOfBand {
            self.pass(cell.slot());
        }
        self.end.post(&cell);
        self.last = cell;
    }

    /// Changes something that it shares with the peer.
    pub fn mutate(&mut self) {
        // Relaxed, here and below: the peer must cope with any order.
        let random = self.numbers.next();
        match self.numbers.below(64) {
            0..4 => {
                let index = self.numbers.below(STACKS / 8);
                self.end.region.word(index).store(random, Ordering::Relaxed);
            }
            4..6 => {
                // The number of taken calls, and the times until which calls are wanted.
                let slot = self.numbers.below(USED);
                let index = self.numbers.of(&[TAKEN / 8, CANCEL_WORDS / 8 + slot]);
                let value = self.numbers.of(&[0, 1, u64::MAX - 1, u64::MAX, random, random >> 32]);
                self.end.region.word(index).store(value, Ordering::Relaxed);
            }
            6..12 => {
                let donation = DONATIONS + 4 * self.numbers.below(4);
                let word = self.numbers.of(&[SERVER_ATTENTION, CLIENT_ATTENTION, donation]);
                let value = self.numbers.of(&[0, 1, 2, 3, 4, 7, 8, random as u32]);
                self.end.region.attention(word).store(value, Ordering::Relaxed);
            }
            12..14 => {
                // The procedure of a message is left as it is, because some procedures would end
                // the server on purpose.
                let bit = self.numbers.below(32) + 32 * self.numbers.below(2);
                let bit = if bit < 32 { bit } else { 48 + bit % 16 };
                let index = self.numbers.below(STACKS / 8);
                self.end.region.word(index).fetch_xor(1 << bit, Ordering::Relaxed);
            }
            14..24 => {
                let bytes: Vec<_> = (0..self.numbers.below(300)).map(|_| self.numbers.next() as u8).collect();
                let slot = self.numbers.below(USED) as u16;
                self.end.fill_stack(slot, &bytes);
            }
            24..26 => {
                let slot = self.slot();
                self.pass(slot);
            }
            26 if self.numbers.below(64) == 0 => {
                let said = random.to_le_bytes().repeat(2);
                let _ = self.end.socket.send(&said[..self.numbers.of(&[1, 15, 16, 16])], &[]);
            }
            27 if self.numbers.below(64) == 0 => {
                // A message that asks for channels, answers no question, or closes.
                let kind = self.numbers.of(&[2, 3, 3, 3, 4, 5]);
                let _ = self.end.socket.send(&[kind; 16], &[]);
            }
            // It may have damaged its own doorbells, so it wakes the peer in another way.
            28 => drop(self.end.channel.donate(self.numbers.below(4))),
            29 => self.end.channel.wake_peer(),
            30 => {
                self.end.channel.wake_spare();
            }
            31 if self.numbers.below(8) == 0 => self.clever(),
            32..36 => self.scribble(),
            36..42 => drop(self.hear()),
            _ => self.post(),
        }
    }

    /// Cursors that go backwards, used sequence numbers, and duplicate messages.
    fn clever(&mut self) {
        let ring = self.ring();
        match self.numbers.below(6) {
            // The same message twice: a slot that is in use, or a second reply to a call.
            0 => {
                let again = self.last;
                self.end.post(&again);
            }
            // From the beginning of the ring. What was written there is overwritten.
            1 => {
                let sending = Sending::new(self.end.region.clone(), ring, LINES);
                for behind in 0..=self.numbers.below(20) as u32 {
                    sending.post(&self.last, behind);
                }
            }
            // It claims that at most this many of its messages are not received yet, and chooses
            // the ring window accordingly.
            2 => _ = self.end.channel.post_and_look(&self.last, self.numbers.below(70) as u32),
            // A line of an earlier round of the ring, or of another place.
            3 => {
                let (from, to) = (self.numbers.below(LINES as usize), self.numbers.below(LINES as usize));
                for word in 0..LINE_WORDS {
                    let value = self.end.region.word(ring + from * LINE_WORDS + word).load(Ordering::Relaxed);
                    self.end.region.word(ring + to * LINE_WORDS + word).store(value, Ordering::Relaxed);
                }
            }
            // The same sequence number at every place.
            4 => {
                let head = self.end.region.word(ring).load(Ordering::Relaxed);
                for word in 0..LINES as usize * LINE_WORDS {
                    self.end.region.word(ring + word).store(head, Ordering::Relaxed);
                }
            }
            // Everything is removed.
            _ => {
                for word in 0..LINES as usize * LINE_WORDS {
                    self.end.region.word(ring + word).store(0, Ordering::Relaxed);
                }
            }
        }
    }

    /// Changes after the check: it posts a message whose bytes lie in an A-stack, and keeps writing
    /// there while the peer reads.
    fn scribble(&mut self) {
        let (slot, what) = (self.slot(), self.numbers.of(self.whats));
        // A list of one length, and then of another.
        let lengths = [&[40][..], &[255, 0, 64, 0, 0, 0, 0, 0, 0], &[255; 9], &[0], &[2, 255, 255]];
        self.end.fill_stack(slot, lengths[0]);
        let length = self.numbers.of(&[41, 41, 200, STACK as u32]);
        let cell = Cell { place: PayloadPlace::Stack, length, ..Cell::request(slot, what, ROW) };
        self.end.post(&cell);
        for _ in 0..self.numbers.below(40) {
            let now = lengths[self.numbers.below(lengths.len())];
            self.end.fill_stack(slot, now);
        }
        self.last = cell;
    }

    /// Passes an out-of-band message of one file, with any claim about it: the bytes are in the
    /// file, or they lie in the A-stack. Now and then it omits the file, which ends the binding.
    fn pass(&mut self, slot: u16) {
        let length = self.numbers.of(&[0, 1, 8, 8, 8, 8, 9, LARGEST, u64::MAX]);
        let bytes = self.numbers.next().to_le_bytes();
        let files = [payload_file(&bytes)];
        let files = [files[0].as_fd()];
        // A socket that is full, or that the peer has closed, accepts no more.
        let mut said = announcement(slot, length);
        if self.numbers.below(4) == 0 {
            (said[1], said[4]) = (1, 1);
        }
        let _ = self.end.socket.send(&said, &files[..self.numbers.below(64).min(1)]);
    }

    /// Takes what has come over the ring and the socket, and looks for data that is not its own.
    /// Returns whether the peer has hung up.
    pub fn hear(&mut self) -> bool {
        for _ in 0..SLOTS {
            let mut payload = Payload::new();
            // The liar may have damaged the ring of its peer.
            let Ok(Some(head)) = self.end.channel.receiving().take(&mut payload) else { break };
            let cell = Cell::from_parts(head, payload);
            nothing_of_others(cell.bytes());
            if self.replies && self.asked.len() < SLOTS as usize {
                self.asked.push(cell.slot());
            }
            if cell.place == PayloadPlace::Stack && u32::from(cell.slot()) < SLOTS {
                nothing_of_others(&stack(&self.end.region, cell.slot()));
            }
        }
        gone_after(&self.end.socket, &mut [0; 64], |length, files| {
            for file in files {
                let mut bytes = Vec::new();
                let length = usize::try_from(length).unwrap_or(0).min(1 << 20);
                // A file that is shorter than announced does not come from an honest peer.
                if PayloadFile::adopt(file)
                    .is_ok_and(|payload_file| payload_file.append(&mut bytes, length, 0).is_ok())
                {
                    nothing_of_others(&bytes);
                }
            }
        })
    }

    /// The binding is over. Looks through everything that is left of it.
    pub fn ends(self) {
        for slot in 0..USED as u16 {
            nothing_of_others(&stack(&self.end.region, slot));
        }
        let words = (0..STACKS / 8).map(|index| self.end.region.word(index).load(Ordering::Relaxed));
        nothing_of_others(&words.flat_map(u64::to_le_bytes).collect::<Vec<_>>());
    }
}

fn stack(region: &Region, slot: u16) -> Vec<u8> {
    region.stack_source(slot, STACK).and_then(|mut stack| stack.take_vec(STACK)).expect("an A-stack")
}

/// Checks that the liar has no data of an honest client.
fn nothing_of_others(bytes: &[u8]) {
    // Any run of sixteen such bytes contains eight aligned ones.
    let found = bytes.chunks_exact(8).any(|chunk| MARKS.iter().any(|&mark| chunk == [mark; 8]));
    assert!(!found, "an honest client's bytes have come to a liar");
}
