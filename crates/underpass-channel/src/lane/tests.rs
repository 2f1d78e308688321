//! Tests of both ends of a lane in one thread.

use crate::lane::sizes::record;
use crate::{
    Doorbell, Fence, HeapLane, LaneEnd, LaneHead, LaneMemory, LaneReceiver, LaneSender, LaneSizes, LaneWord,
    Malformed, Unposted, WhenFull,
};
use std::collections::VecDeque;
use std::sync::Arc;
use underpass_seam::atomic::Ordering::Relaxed;
use underpass_wire::Sink;

struct Ends {
    memory: Arc<HeapLane>,
    sender: LaneSender<HeapLane>,
    receiver: LaneReceiver<HeapLane>,
}

fn lane(sizes: LaneSizes) -> Ends {
    let memory = Arc::new(HeapLane::new(sizes));
    let (sender, receiver) =
        (LaneSender::new(memory.clone(), sizes), LaneReceiver::new(memory.clone(), sizes));
    Ends { memory, sender, receiver }
}

fn credits(items: usize, longest: usize) -> Ends {
    lane(LaneSizes::new(items, longest, WhenFull::Refuse).unwrap())
}

fn overwriting(items: usize, longest: usize) -> Ends {
    lane(LaneSizes::new(items, longest, WhenFull::DropOldest).unwrap())
}

impl Ends {
    fn take(&mut self) -> Result<Option<(LaneHead, Vec<u8>)>, Malformed> {
        let mut bytes = Vec::new();
        Ok(self.receiver.take(&mut bytes)?.map(|head| (head, bytes)))
    }

    fn set(&self, word: LaneWord, value: u64) {
        self.memory.word(word).store(value, Relaxed);
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
fn messages_of_any_length_come_whole_and_in_order() {
    let mut ends = lane(LaneSizes::with_bytes(20, 100, 400, WhenFull::Refuse).unwrap());
    let (mut numbers, mut under_way, mut number) = (Numbers(7), VecDeque::new(), 0);
    let mut refused = 0;
    for round in 0..20_000_u32 {
        if numbers.below(2) == 0 {
            let bytes = vec![round as u8; numbers.below(101) as usize];
            match ends.sender.post(&bytes, round) {
                Ok(posted) => {
                    assert_eq!(posted, number + under_way.len() as u64);
                    under_way.push_back((bytes, round));
                }
                Err(why) => {
                    assert_eq!(why, Unposted::Full);
                    refused += 1;
                }
            }
        } else if let Some((head, bytes)) = ends.take().unwrap() {
            let (expected, stamp_ms) = under_way.pop_front().unwrap();
            assert_eq!(bytes, expected);
            assert_eq!(head, LaneHead { number, lost: 0, stamp_ms });
            number += 1;
        } else {
            assert!(under_way.is_empty(), "the lane is empty only if all were taken");
        }
        assert_eq!(ends.receiver.queued(), under_way.len() as u64);
    }
    assert!(refused > 100 && number > 1000, "{refused} {number}");
}

#[test]
fn credits_count_messages_and_bytes() {
    let mut ends = credits(3, 40);
    for n in 0..3 {
        assert_eq!(ends.sender.post(&[n; 40], 0), Ok(u64::from(n)));
    }
    assert_eq!(ends.sender.post(&[], 0), Err(Unposted::Full), "there are credits for three messages");
    assert_eq!((ends.sender.queued(), ends.sender.could_post(0)), (Ok(3), Ok(false)));
    ends.take().unwrap().unwrap();
    assert_eq!((ends.sender.queued(), ends.sender.could_post(40)), (Ok(2), Ok(true)));
    assert_eq!(ends.sender.post(&[3; 41], 0), Err(Unposted::TooLong));
    assert_eq!(ends.sender.post(&[3; 40], 0), Ok(3));

    let mut ends = lane(LaneSizes::with_bytes(100, 100, 0, WhenFull::Refuse).unwrap());
    assert_eq!(ends.sender.sizes().bytes(), 256);
    assert!(ends.sender.post(&[1; 100], 0).is_ok() && ends.sender.post(&[2; 100], 0).is_ok());
    assert_eq!(ends.sender.post(&[3; 1], 0), Err(Unposted::Full), "there are credits for 256 bytes");
    ends.take().unwrap().unwrap();
    assert!(ends.sender.post(&[3; 1], 0).is_ok());
}

#[test]
fn a_reservation_is_posted_only_by_its_commit() {
    let mut ends = credits(4, 64);
    let mut reserved = ends.sender.reserve(64).unwrap();
    reserved.put(b"half of ");
    drop(reserved);
    assert!(ends.take().unwrap().is_none());
    let mut reserved = ends.sender.reserve(64).unwrap();
    reserved.put(b"a whole ");
    reserved.put(b"message");
    assert_eq!((reserved.left(), reserved.commit(5).unwrap().0), (49, 0));
    let (head, bytes) = ends.take().unwrap().unwrap();
    assert_eq!((head.stamp_ms, &bytes[..]), (5, &b"a whole message"[..]));
    let mut reserved = ends.sender.reserve(2).unwrap();
    reserved.put(b"too long");
    assert_eq!(reserved.commit(0).unwrap_err(), Unposted::TooLong);
    assert!(ends.take().unwrap().is_none());
}

#[test]
fn losses_are_counted_and_told_in_place() {
    let mut ends = overwriting(4, 8);
    for n in 0..10_u64 {
        assert_eq!(ends.sender.post(&n.to_le_bytes(), 0), Ok(n));
    }
    assert_eq!(ends.sender.dropped(), 6);
    let taken: Vec<_> = std::iter::from_fn(|| ends.take().unwrap()).collect();
    let told: Vec<_> = taken.iter().map(|(head, _)| (head.number, head.lost)).collect();
    assert_eq!(told, [(6, 6), (7, 0), (8, 0), (9, 0)]);
    assert!(taken.iter().all(|(head, bytes)| bytes[..] == head.number.to_le_bytes()));
    // What was taken makes room, and nothing is lost then.
    (10..14_u64).for_each(|n| assert_eq!(ends.sender.post(&n.to_le_bytes(), 0), Ok(n)));
    assert_eq!((ends.sender.dropped(), ends.receiver.lost()), (6, 6));
    assert_eq!(ends.take().unwrap().unwrap().0, LaneHead { number: 10, lost: 0, stamp_ms: 0 });
}

#[test]
fn each_message_is_received_or_counted_as_lost() {
    let mut ends = lane(LaneSizes::with_bytes(9, 100, 300, WhenFull::DropOldest).unwrap());
    let (mut numbers, mut received, mut lost) = (Numbers(3), 0, 0);
    for number in 0..20_000_u64 {
        let len = 8 + numbers.below(92) as usize;
        let mut bytes = vec![number as u8; len];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        assert_eq!(ends.sender.post(&bytes, 0), Ok(number));
        for _ in 0..numbers.below(3) {
            let Some((head, bytes)) = ends.take().unwrap() else { break };
            assert_eq!(bytes[..8], head.number.to_le_bytes());
            assert!(bytes[8..].iter().all(|&byte| byte == head.number as u8), "it is whole");
            lost += head.lost;
            assert_eq!(head.number, received + lost);
            received += 1;
        }
    }
    while let Some((head, _)) = ends.take().unwrap() {
        lost += head.lost;
        received += 1;
    }
    assert_eq!((received + lost, ends.receiver.lost()), (20_000, lost));
    assert!(lost > 100 && lost <= ends.sender.dropped());
}

#[test]
fn what_a_dead_receiver_has_not_taken_comes_back() {
    for when_full in [WhenFull::Refuse, WhenFull::DropOldest] {
        let mut ends = lane(LaneSizes::new(8, 16, when_full).unwrap());
        (0..8_u8).for_each(|n| assert!(ends.sender.post(&vec![n; usize::from(n)], 0).is_ok()));
        (0..3).for_each(|_| drop(ends.take().unwrap().unwrap()));
        let back = ends.sender.unreceived();
        let expected: Vec<_> = (3..8_u8).map(|n| (u64::from(n), vec![n; usize::from(n)])).collect();
        assert_eq!(back, expected);
    }
}

#[test]
fn an_end_rings_only_for_a_peer_that_waits() {
    let mut ends = credits(2, 8);
    let rings = |ends: &Ends| ends.sender.after_post(Fence::Full);
    ends.sender.post(&[1], 0).unwrap();
    assert_eq!(rings(&ends), Doorbell::None, "no receiver waits");
    ends.take().unwrap().unwrap();
    ends.receiver.announce_wait();
    assert!(!ends.receiver.is_ready() && ends.sender.receiver_waits());
    ends.sender.post(&[2], 0).unwrap();
    assert_eq!(rings(&ends), Doorbell::Socket);
    ends.sender.post(&[3], 0).unwrap();
    assert_eq!(rings(&ends), Doorbell::None, "the queue was not empty");

    assert_eq!(ends.receiver.after_take(Fence::Full), Doorbell::None, "no sender waits");
    ends.sender.announce_wait();
    assert_eq!(ends.sender.could_post(8), Ok(false));
    ends.take().unwrap().unwrap();
    assert_eq!(ends.receiver.after_take(Fence::Full), Doorbell::Socket);
    ends.take().unwrap().unwrap();
    assert_eq!(ends.receiver.after_take(Fence::Full), Doorbell::None);
    ends.sender.announce_wait();
    ends.sender.end_wait();
    assert_eq!(ends.receiver.after_take(Fence::Full), Doorbell::None);
}

#[test]
fn the_end_of_the_messages_is_told() {
    let mut ends = credits(2, 8);
    ends.sender.post(&[1], 0).unwrap();
    assert!(!ends.receiver.is_finished());
    ends.sender.finish();
    assert!(ends.receiver.is_finished() && ends.take().unwrap().is_some() && ends.take().unwrap().is_none());
}

#[test]
fn each_unit_of_a_count_is_reported_once() {
    let mut ends = credits(1, 8);
    ends.sender.post(&[1], 0).unwrap();
    (0..1000).for_each(|n| ends.sender.count(n % 3, 2));
    ends.sender.count(63, u64::MAX);
    assert!(ends.receiver.is_ready() && ends.receiver.has_counts());
    let counts = ends.receiver.take_counts();
    assert_eq!(counts, [(0, 668), (1, 666), (2, 666), (63, u64::MAX)]);
    assert!(
        ends.receiver.take_counts().is_empty() && !ends.receiver.has_counts() && ends.receiver.is_ready()
    );
    ends.take().unwrap().unwrap();
    assert!(!ends.receiver.is_ready());
    ends.sender.count(63, 2);
    assert_eq!(ends.receiver.take_counts(), [(63, 2)]);
    // It counts for a receiver that waits.
    ends.receiver.announce_wait();
    ends.sender.count(5, 1);
    assert_eq!(ends.sender.after_post(Fence::Full), Doorbell::Socket);
    // A hostile sender makes it look, and no more.
    ends.set(LaneWord::Counted, 77);
    assert_eq!(ends.receiver.take_counts(), [(5, 1)]);
    ends.set(LaneWord::Counted, 78);
    assert!(ends.receiver.take_counts().is_empty() && !ends.receiver.is_ready());
}

#[test]
fn the_age_of_the_oldest_message_is_known() {
    let mut ends = credits(4, 8);
    assert_eq!(ends.receiver.oldest_stamp_ms(), None);
    ends.sender.post(&[1], 100).unwrap();
    ends.sender.post(&[1], 200).unwrap();
    assert_eq!((ends.receiver.oldest_stamp_ms(), ends.sender.oldest_stamp_ms()), (Some(100), Ok(Some(100))));
    ends.take().unwrap().unwrap();
    assert_eq!((ends.receiver.oldest_stamp_ms(), ends.sender.oldest_stamp_ms()), (Some(200), Ok(Some(200))));
    ends.take().unwrap().unwrap();
    assert_eq!((ends.receiver.oldest_stamp_ms(), ends.sender.oldest_stamp_ms()), (None, Ok(None)));
}

#[test]
fn a_receiver_that_contradicts_itself_is_found_out() {
    let mut ends = credits(2, 8);
    (0..2).for_each(|_| assert!(ends.sender.post(&[7; 8], 0).is_ok()));
    ends.set(LaneWord::Taken, 3);
    assert_eq!(ends.sender.post(&[7; 8], 0), Err(Unposted::Malformed), "more taken than posted");
    ends.set(LaneWord::Taken, 1);
    assert_eq!(ends.sender.post(&[7; 8], 0), Err(Unposted::Malformed), "it stays so");
    assert!(ends.sender.unreceived().is_empty());

    let mut ends = credits(2, 8);
    ends.sender.post(&[7; 8], 0).unwrap();
    ends.set(LaneWord::Taken, 1);
    assert_eq!(ends.sender.queued(), Ok(0));
    ends.set(LaneWord::Taken, 0);
    assert_eq!(ends.sender.queued(), Err(Unposted::Malformed), "fewer taken than before");
}

#[test]
fn a_sender_that_contradicts_itself_is_found_out() {
    for when_full in [WhenFull::Refuse, WhenFull::DropOldest] {
        let sizes = LaneSizes::new(2, 8, when_full).unwrap();
        let new = || {
            let mut ends = lane(sizes);
            ends.sender.post(&[7; 8], 0).unwrap();
            ends
        };
        // A number that is not the next one; more bytes than the longest message has.
        for (at, value) in [(8, 9_u64), (0, 9)] {
            let mut ends = new();
            ends.memory.put(at, &value.to_le_bytes());
            assert!(ends.take().is_err() && ends.take().is_err(), "{at} {value}");
        }
        // Fewer posted than before.
        let mut ends = new();
        ends.take().unwrap().unwrap();
        ends.set(LaneWord::Posted, 0);
        assert!(ends.take().is_err());
    }
    let mut ends = credits(2, 8);
    ends.set(LaneWord::Posted, 3);
    assert!(ends.take().is_err(), "more untaken messages than credits");
    let mut ends = overwriting(2, 8);
    ends.sender.post(&[7; 8], 0).unwrap();
    ends.set(LaneWord::Oldest, 8);
    assert!(ends.take().is_err(), "no record begins there");
}

/// What a hostile peer does to a lane: any word and any byte, at any moment.
fn spoil(ends: &Ends, numbers: &mut Numbers) {
    let value = match numbers.below(4) {
        0 => numbers.below(40),
        1 => u64::MAX - numbers.below(40),
        2 => 1 << numbers.below(64),
        _ => numbers.below(u64::MAX),
    };
    match numbers.below(8) {
        0 => ends.set(LaneWord::Posted, value),
        1 => ends.set(LaneWord::Oldest, value),
        2 => ends.set(LaneWord::Taken, value),
        3 => ends.memory.attention(LaneEnd::Sender).store(value as u32, Relaxed),
        4 => ends.memory.attention(LaneEnd::Receiver).store(value as u32, Relaxed),
        _ => {
            let at = numbers.below(ends.sender.sizes().bytes() as u64 / 8) * 8;
            ends.memory.put(at as usize, &value.to_le_bytes());
        }
    }
}

#[test]
fn a_million_mutations_harm_neither_end() {
    let mut numbers = Numbers(11);
    let (mut mutations, mut malformed, mut came) = (0, 0, 0);
    while mutations < 1_000_000 {
        let when_full = if numbers.below(2) == 0 { WhenFull::Refuse } else { WhenFull::DropOldest };
        let longest = numbers.below(40) as usize;
        let sizes = LaneSizes::with_bytes(2 + numbers.below(6) as usize, longest, 0, when_full).unwrap();
        let mut ends = lane(sizes);
        let mut next = 0;
        for _ in 0..200 {
            match numbers.below(4) {
                0 => drop(ends.sender.post(&vec![1; numbers.below(longest as u64 + 1) as usize], 0)),
                1 => match ends.take() {
                    Ok(Some((head, bytes))) => {
                        assert!(bytes.len() <= longest && head.number >= next);
                        next = head.number + 1;
                        came += 1;
                    }
                    Ok(None) => {}
                    Err(Malformed) => malformed += 1,
                },
                2 => {
                    ends.receiver.after_take(Fence::Light);
                    ends.sender.after_post(Fence::Light);
                    ends.receiver.announce_wait();
                    let _ =
                        (ends.receiver.is_ready(), ends.receiver.queued(), ends.receiver.oldest_stamp_ms());
                    let _ = (ends.sender.could_post(longest), ends.sender.queued());
                    assert!(ends.receiver.queued() <= sizes.items() as u64);
                }
                _ => {
                    (0..4).for_each(|_| spoil(&ends, &mut numbers));
                    mutations += 4;
                }
            }
        }
        assert!(ends.sender.unreceived().iter().all(|(_, bytes)| record(bytes.len()) <= record(longest)));
    }
    assert!(malformed > 1000 && came > 1000, "{malformed} {came}");
}
