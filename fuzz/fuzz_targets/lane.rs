//! Both ends of a lane, and whatever a peer writes into its memory. As long as nobody has lied,
//! every message arrives or is counted as lost, in order.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use underpass_channel::{
    COUNTS, Fence, HeapLane, LaneEnd, LaneMemory, LaneReceiver, LaneSender, LaneSizes, LaneWord, Unposted,
    WhenFull,
};
use underpass_wire::Sink;

#[derive(Debug, Arbitrary)]
enum Step {
    /// Posts a message of that many bytes.
    Post { len: u8, byte: u8 },
    /// Reserves room, writes parts, and commits or drops the reservation.
    Reserve { most: u8, parts: [u8; 3], commits: bool },
    /// Takes a message.
    Take,
    /// Both ends announce waits, look, and ring.
    Wait,
    /// Writes a word.
    Word { which: u8, value: u64 },
    /// Writes into the ring.
    Ring { at: u16, value: u64 },
    /// Adds to a count, and takes the counts.
    Count { which: u8, more: u64, takes: bool },
    /// The sender takes back what was not received.
    Unreceived,
}

#[derive(Debug, Arbitrary)]
struct Input {
    items: u8,
    longest: u8,
    bytes: u16,
    overwriting: bool,
    steps: Vec<Step>,
}

struct Lane {
    memory: Arc<HeapLane>,
    sizes: LaneSizes,
    sender: LaneSender<HeapLane>,
    receiver: LaneReceiver<HeapLane>,
    on_the_way: VecDeque<Vec<u8>>,
    next: u64,
    honest: bool,
    /// What was counted and not taken.
    counts: [u64; COUNTS],
}

impl Lane {
    fn posted(&mut self, bytes: Vec<u8>, result: Result<u64, Unposted>) {
        match result {
            Ok(_) => self.on_the_way.push_back(bytes),
            Err(Unposted::Full) => assert!(self.sizes.when_full() == WhenFull::Refuse),
            Err(Unposted::TooLong) => assert!(bytes.len() > self.sizes.longest()),
            Err(Unposted::Malformed) => assert!(!self.honest),
            Err(Unposted::Damaged) => panic!("the heap is never damaged"),
        }
    }

    fn take(&mut self) {
        let mut bytes = Vec::new();
        let taken = self.receiver.take(&mut bytes);
        let Ok(taken) = taken else {
            return assert!(!self.honest, "an honest sender is never malformed");
        };
        let Some(head) = taken else {
            return assert!(!self.honest || self.on_the_way.is_empty());
        };
        assert!(bytes.len() <= self.sizes.longest() && head.number >= self.next);
        if self.honest {
            assert_eq!(head.number, self.next + head.lost);
            assert!(head.lost == 0 || self.sizes.when_full() == WhenFull::DropOldest);
            let lost = usize::try_from(head.lost).expect("few");
            self.on_the_way.drain(..lost);
            assert_eq!(self.on_the_way.pop_front(), Some(bytes));
        }
        self.next = head.number + 1;
    }

    /// Writes a word, as a peer that lies does.
    fn lie(&mut self, which: u8, value: u64) {
        self.honest = false;
        match which % 7 {
            0 => self.memory.word(LaneWord::Posted).store(value, Ordering::Relaxed),
            1 => self.memory.word(LaneWord::Oldest).store(value, Ordering::Relaxed),
            2 => self.memory.word(LaneWord::Finished).store(value, Ordering::Relaxed),
            3 => self.memory.word(LaneWord::Taken).store(value, Ordering::Relaxed),
            4 => self.memory.word(LaneWord::Counted).store(value, Ordering::Relaxed),
            5 => self.memory.attention(LaneEnd::Sender).store(value as u32, Ordering::Relaxed),
            _ => self.memory.attention(LaneEnd::Receiver).store(value as u32, Ordering::Relaxed),
        }
    }

    fn reserve(&mut self, most: u8, parts: [u8; 3], commits: bool) {
        let Ok(mut room) = self.sender.reserve(most.into()) else { return };
        let mut bytes = Vec::new();
        for part in parts {
            let part = vec![part; usize::from(part).min(room.left())];
            room.put(&part);
            bytes.extend(part);
        }
        if commits {
            let result = room.commit(0).map(|(number, _)| number);
            self.posted(bytes, result);
        }
    }

    fn does(&mut self, step: &Step) {
        match *step {
            Step::Post { len, byte } => {
                let bytes = vec![byte; len.into()];
                let result = self.sender.post(&bytes, 0);
                self.posted(bytes, result);
            }
            Step::Reserve { most, parts, commits } => self.reserve(most, parts, commits),
            Step::Take => self.take(),
            Step::Wait => {
                self.receiver.announce_wait();
                self.sender.announce_wait();
                let _ = (self.sender.could_post(1), self.sender.queued(), self.sender.receiver_waits());
                let _ =
                    (self.receiver.is_ready(), self.receiver.oldest_stamp_ms(), self.receiver.is_finished());
                assert!(self.receiver.queued() <= self.sizes.items() as u64);
                self.sender.after_post(Fence::Full);
                self.receiver.after_take(Fence::Light);
                self.receiver.end_wait();
                self.sender.end_wait();
            }
            Step::Word { which, value } => self.lie(which, value),
            Step::Ring { at, value } => {
                self.honest = false;
                self.memory.put(usize::from(at) % (self.sizes.bytes() / 8) * 8, &value.to_le_bytes());
            }
            Step::Count { which, more, takes } => {
                let which = usize::from(which) % COUNTS;
                self.sender.count(which, more);
                self.counts[which] = self.counts[which].wrapping_add(more);
                if takes {
                    let taken = self.receiver.take_counts();
                    assert!(!self.honest || !self.receiver.has_counts());
                    for (which, more) in taken {
                        self.counts[which] = self.counts[which].wrapping_sub(more);
                    }
                    assert!(!self.honest || self.counts == [0; COUNTS]);
                }
            }
            Step::Unreceived => {
                let back = self.sender.unreceived();
                assert!(back.iter().all(|(_, bytes)| bytes.len() <= self.sizes.longest()));
                if self.honest {
                    let newest = self.on_the_way.len().saturating_sub(back.len());
                    assert!(self.on_the_way.iter().skip(newest).eq(back.iter().map(|(_, bytes)| bytes)));
                }
            }
        }
    }
}

fuzz_target!(|input: Input| {
    let when_full = if input.overwriting { WhenFull::DropOldest } else { WhenFull::Refuse };
    let (items, longest) = (usize::from(input.items), usize::from(input.longest));
    let Ok(sizes) = LaneSizes::with_bytes(items, longest, input.bytes.into(), when_full) else { return };
    let memory = Arc::new(HeapLane::new(sizes));
    let mut lane = Lane {
        sender: LaneSender::new(memory.clone(), sizes),
        receiver: LaneReceiver::new(memory.clone(), sizes),
        memory,
        sizes,
        on_the_way: VecDeque::new(),
        next: 0,
        honest: true,
        counts: [0; COUNTS],
    };
    input.steps.iter().for_each(|step| lane.does(step));
});
