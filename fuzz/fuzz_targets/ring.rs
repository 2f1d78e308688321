//! Cells and bytes that cross a channel. Whatever a peer writes is read as a message, as nothing,
//! or as damage. Every message of an honest peer arrives, in order.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use underpass_channel::layout::{LARGEST, LINE_WORDS, STACK};
use underpass_channel::{
    Attention, Cell, Donation, Fence, HeapMemory, INLINE, Payload, PayloadFileSource, PayloadPlace,
};
use underpass_channel::{Receiving, Region, RingMemory, Sending, Tag};
use underpass_fuzz::Fields;
use underpass_os::PayloadFile;
use underpass_wire::{Decode, Sink, Source, from_bytes};

/// The lines of the ring. At most half as many cells are in flight.
const LINES: u32 = 8;

#[derive(Debug, Arbitrary)]
enum Step {
    /// Posts a cell of that many bytes.
    Post { slot: u16, what: u16, len: u8, elsewhere: Option<u32> },
    /// Takes one.
    Take,
    /// Writes a word.
    Write { index: u8, value: u64 },
    /// Writes a word that resembles a head.
    Head { index: u8, sequence: u8, rest: u32 },
    /// Damages attention and donation words, and uses them in every way.
    Bells { attention: u32, donation: u32 },
}

#[derive(Debug, Arbitrary)]
struct Input {
    steps: Vec<Step>,
    /// The contents of an A-stack and of a file. The claimed length is untrusted.
    bytes: Vec<u8>,
    announced: u64,
    portions: Vec<u16>,
}

fn ring(steps: &[Step]) {
    let words = Arc::new(HeapMemory::new(LINES as usize * LINE_WORDS));
    let (sending, receiving) =
        (Sending::new(words.clone(), 0, LINES), Receiving::new(words.clone(), 0, LINES));
    let (mut on_the_way, mut damaged) = (VecDeque::new(), false);
    for step in steps {
        match *step {
            Step::Post { slot, what, len, elsewhere } if damaged || on_the_way.len() < LINES as usize / 2 => {
                let bytes = [len | 1; INLINE];
                let cell = match elsewhere {
                    Some(length) => {
                        // A length has the bits of its word that a tag leaves.
                        let length = length >> (Tag::BITS - u32::BITS);
                        let place = if len % 2 == 0 { PayloadPlace::Stack } else { PayloadPlace::OutOfBand };
                        let mut payload = Payload::new();
                        payload.set_word(0, length.into());
                        Cell { length, place, payload, ..Cell::new(slot, what) }
                    }
                    None => {
                        Cell::inline(slot, what, &bytes[..usize::from(len) % (INLINE + 1)]).expect("it fits")
                    }
                };
                // As many as there are, or more.
                sending.post(&cell, on_the_way.len() as u32 + u32::from(what >> 14));
                on_the_way.push_back(cell);
            }
            Step::Post { .. } => {}
            Step::Take => take(&receiving, &mut on_the_way, damaged),
            Step::Write { index, value } => {
                damaged = true;
                words
                    .word(usize::from(index) % (LINES as usize * LINE_WORDS))
                    .store(value, Ordering::Relaxed);
            }
            Step::Head { index, sequence, rest } => {
                damaged = true;
                let head = 1 << 63 | u64::from(rest) << 24 | u64::from(sequence);
                words.word(usize::from(index) % (LINES as usize * LINE_WORDS)).store(head, Ordering::Relaxed);
            }
            Step::Bells { attention, donation } => bells(attention, donation),
        }
    }
}

/// Takes a cell, and compares it with what was posted unless the ring is `damaged`.
fn take(receiving: &Receiving<HeapMemory>, on_the_way: &mut VecDeque<Cell>, damaged: bool) {
    let mut payload = Payload::new();
    let (pending, backlog) = (receiving.pending(), receiving.backlog());
    let taken = receiving.take(&mut payload);
    let cell = taken.ok().flatten().map(|head| Cell::from_parts(head, payload));
    assert!(cell.is_none_or(|cell| cell.bytes().len() <= INLINE));
    if damaged {
        return;
    }
    assert_eq!(taken.map(|head| head.is_some()), Ok(pending));
    assert_eq!(on_the_way.len() > 1, backlog);
    let Some(posted) = on_the_way.pop_front() else {
        assert!(!pending);
        return;
    };
    let cell = cell.expect("what was posted has come");
    assert_eq!((cell.slot(), cell.what(), cell.length), (posted.slot(), posted.what(), posted.length));
    assert!(cell.place == posted.place);
    assert!(cell.place != PayloadPlace::Inline || cell.bytes() == posted.bytes());
}

fn bells(attention: u32, donation: u32) {
    let (a, d) = (AtomicU32::new(attention), AtomicU32::new(donation));
    let (attention, donation) = (Attention::new(&a), Donation::new(&d));
    attention.after_post(Fence::Full);
    attention.park(true);
    attention.wake_spare();
    attention.set_unpolled();
    attention.look();
    attention.retire();
    attention.recall();
    attention.revive();
    attention.spare();
    donation.listen(false);
    donation.give_way();
    donation.is_back();
    donation.give_back(true);
    donation.came();
    donation.listen(true);
    donation.donate();
    donation.withdraw();
}

/// Takes the bytes of `source` in portions. They must be `bytes`.
fn takes(mut source: impl Source, portions: &[u16], mut bytes: &[u8]) {
    for &portion in portions {
        let portion = usize::from(portion);
        let taken = match portion % 2 {
            0 => source.take_vec(portion),
            _ => {
                let mut out = vec![0; portion];
                source.take(&mut out).map(|()| out)
            }
        };
        match taken {
            Ok(taken) => {
                let (now, later) = bytes.split_at(portion);
                assert_eq!(taken, now);
                bytes = later;
                assert_eq!(source.remaining(), bytes.len());
            }
            Err(_) => assert!(portion > bytes.len()),
        }
    }
}

fuzz_target!(|input: Input| {
    ring(&input.steps);
    let (bytes, announced) = (&input.bytes[..], input.announced);
    // In an A-stack. Behind the bytes are zeros, and there is no more than an A-stack has.
    let (region, _file) = Region::create(STACK).expect("a region");
    region.stack_sink(1).put(bytes);
    let in_stack = announced as usize % (2 * STACK);
    let there = [bytes, &vec![0; 2 * STACK]].concat();
    match region.stack_source(1, in_stack) {
        Ok(source) => takes(source, &input.portions, &there[..in_stack]),
        Err(_) => assert!(in_stack > STACK),
    }
    if let Ok(mut source) = region.stack_source(1, bytes.len()) {
        assert_eq!(Fields::decode(&mut source).is_ok(), Fields::decode(&mut &bytes[..]).is_ok());
    }
    // In a file.
    let payload_file = || {
        let payload_file = PayloadFile::create("fuzz").expect("a file");
        payload_file.write(bytes, 0).expect("memory");
        payload_file
    };
    match PayloadFileSource::new(payload_file(), announced) {
        Ok(source) => takes(source, &input.portions, &bytes[..announced as usize]),
        Err(_) => assert!(announced > LARGEST || announced > bytes.len() as u64),
    }
    let mut source = PayloadFileSource::new(payload_file(), bytes.len() as u64).expect("as announced");
    let decoded = Fields::decode(&mut source);
    assert_eq!(decoded.is_ok(), Fields::decode(&mut &bytes[..]).is_ok());
    drop(from_bytes::<Fields>(bytes));
});
