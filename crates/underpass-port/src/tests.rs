//! Hostile peers, and what a receiver looks at.

use crate::arrival::{Arrival, SenderId, WhyEnded};
use crate::errors::{PortRecvError, PortSendError};
use crate::lane_slot::LaneSlot;
use crate::open::{OpenError, Opened, PortOpen, PortOpenClient, hash_of};
use crate::options::PortOptions;
use crate::receiver::PortReceiver;
use crate::sender::PortSender;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use underpass_channel::{LaneEnd, LaneMemory, LaneSizes, LaneWord, MappedLane, WhenFull};
use underpass_os::foreign::SendingEnd;
use underpass_os::{Directory, Socket, process};
use underpass_rpc::{CallError, Running, Server};

/// A port of this process, and the directory's name for it.
fn own(options: PortOptions) -> (PortReceiver<u64>, Running, String) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    Directory::from_environment().ensure().unwrap();
    let name = format!("port-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let (service, receiver) = options.open().unwrap();
    let running = Server::new().export(&*name, service).start().unwrap();
    (receiver, running, name)
}

/// A sender that follows no rule.
struct Liar {
    _stub: PortOpenClient,
    memory: MappedLane,
    bell: SendingEnd,
    _room: Socket,
}

impl Liar {
    fn connect(name: &str) -> Self {
        let stub = PortOpenClient::import(name).unwrap();
        let (room, theirs) = Socket::pair().unwrap();
        let Opened { items, longest, bytes, drop_oldest, memory, bell, .. } =
            stub.open(hash_of::<u64>(), true, theirs).unwrap();
        let when_full = if drop_oldest { WhenFull::DropOldest } else { WhenFull::Refuse };
        let sizes =
            LaneSizes::with_bytes(items as usize, longest as usize, bytes as usize, when_full).unwrap();
        let memory = MappedLane::adopt(memory.as_fd(), sizes).unwrap();
        Self { _stub: stub, memory, bell: SendingEnd::adopt(bell).unwrap(), _room: room }
    }

    fn set(&self, word: LaneWord, value: u64) {
        self.memory.word(word).store(value, Ordering::Relaxed);
    }
}

fn message(receiver: &PortReceiver<u64>) -> u64 {
    loop {
        if let Some(message) = receiver.recv().unwrap().into_message() {
            return message;
        }
    }
}

/// How often a hostile end changes what it shares: a million times with `$UNDERPASS_TEST_LONG`.
pub(crate) fn mutations() -> u64 {
    if std::env::var_os("UNDERPASS_TEST_LONG").is_some() { 1_000_000 } else { 20_000 }
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
fn a_flood_of_bells_costs_one_look() {
    let (receiver, _running, name) = own(PortOptions::new());
    let (honest, liar) = (PortSender::<u64>::connect(&name).unwrap(), Liar::connect(&name));
    let is_muted = || receiver.port.lanes().bell_of(2).is_muted();
    // The first ring is one that the owner listens for. At the second it listens no more.
    while !is_muted() {
        let _ = liar.bell.send(&[1], &[]);
        std::thread::yield_now();
    }
    while liar.bell.send(&[1], &[]).is_ok() {}
    for number in 0..100 {
        honest.send(&number).unwrap();
        assert_eq!(message(&receiver), number);
    }
    // Whenever a receiver waits, it listens again. What lies in the socket is a look each time.
    assert_eq!(receiver.recv_timeout(Duration::from_millis(5)), Err(PortRecvError::Timeout));
    honest.send(&7).unwrap();
    assert_eq!(message(&receiver), 7);
    drop(liar);
    assert!(matches!(receiver.recv(), Ok(Arrival::Ended(end)) if end.from.lane() == 2));
}

/// A hostile sender changes its counts at every look, and never sends a message.
fn counts_on(slot: &LaneSlot) {
    static COUNTED: AtomicU64 = AtomicU64::new(1);
    let counted = COUNTED.fetch_add(1, Ordering::Relaxed);
    assert!(counted < 1 << 24, "a receiver looks for ever");
    slot.receiver.spoil(LaneWord::Counted, counted);
}

#[test]
fn a_wait_ends_at_its_deadline_whatever_a_sender_writes() {
    let (receiver, _running, name) = own(PortOptions::new());
    let (honest, _liar) = (PortSender::<u64>::connect(&name).unwrap(), Liar::connect(&name));
    // The receiver looks at the liar's lane, as after a ring.
    let binding = receiver.port.lanes().binding_of(2);
    receiver.port.look_at(1, SenderId { lane: 2, binding });
    receiver.port.lanes().acts_meanwhile = Some(counts_on);
    let late = receiver.recv_timeout(Duration::from_millis(2));
    assert_eq!(late, Err(PortRecvError::Timeout));
    // A task gives way, and is woken again.
    let woken = Arc::new(Woken::default());
    let task = Waker::from(woken.clone());
    let mut comes = pin!(receiver.recv_async());
    for polls in 1..=3 {
        assert!(comes.as_mut().poll(&mut Context::from_waker(&task)).is_pending());
        assert_eq!(woken.0.load(Ordering::Relaxed), polls);
    }
    honest.send(&7).unwrap();
    let came = until(|| match comes.as_mut().poll(&mut Context::from_waker(&task)) {
        Poll::Ready(came) => Some(came.unwrap()),
        Poll::Pending => None,
    });
    assert_eq!(came.into_message(), Some(7));
}

/// How often a task was woken.
#[derive(Default)]
struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    loop {
        match found() {
            Some(found) => return found,
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn files_over_a_bell_end_its_lane_or_are_refused() {
    let (receiver, _running, name) = own(PortOptions::new());
    let (honest, liar) = (PortSender::<u64>::connect(&name).unwrap(), Liar::connect(&name));
    let file = std::fs::File::open("/dev/null").unwrap();
    // Kernels before 6.16 can't refuse them.
    if liar.bell.send(&[1], &[file.as_fd()]).is_ok() {
        assert!(matches!(receiver.recv(), Ok(Arrival::Ended(end)) if end.from.lane() == 2));
    }
    honest.send(&1).unwrap();
    assert_eq!(message(&receiver), 1);
}

#[test]
fn a_bell_that_is_no_connection_is_refused() {
    let (receiver, _running, name) = own(PortOptions::new());
    let stub = PortOpenClient::import(&name).unwrap();
    let files: [OwnedFd; 2] =
        [std::fs::File::open("/dev/null").unwrap().into(), std::io::pipe().unwrap().1.into()];
    for file in files {
        let refused = stub.open(hash_of::<u64>(), true, file);
        assert!(matches!(refused, Err(OpenError::Call(CallError::ProtocolViolation(_)))), "{refused:?}");
    }
    assert_eq!(receiver.pressure().lanes, 0);
    let sender = PortSender::<u64>::connect(&name).unwrap();
    sender.send(&1).unwrap();
    assert_eq!(message(&receiver), 1);
}

#[test]
fn honest_senders_are_served_while_others_write_at_random() {
    let mut numbers = Numbers(5);
    let mut malformed = 0;
    for options in [PortOptions::new().messages(8), PortOptions::new().messages(8).drop_oldest()] {
        let (receiver, _running, name) = own(options);
        let honest = PortSender::<u64>::connect(&name).unwrap();
        let mut liars: Vec<_> = (0..4).map(|_| Liar::connect(&name)).collect();
        let mut next = 0;
        for _ in 0..mutations() {
            let at = numbers.below(4) as usize;
            let value = match numbers.below(3) {
                0 => numbers.below(20),
                1 => u64::MAX - numbers.below(20),
                _ => numbers.below(u64::MAX),
            };
            let liar = &liars[at];
            match numbers.below(10) {
                0 => liar.set(LaneWord::Posted, value),
                1 => liar.set(LaneWord::Oldest, value),
                2 => liar.set(LaneWord::Taken, value),
                3 => liar.memory.attention(LaneEnd::Sender).store(value as u32, Ordering::Relaxed),
                4 => liar.memory.attention(LaneEnd::Receiver).store(value as u32, Ordering::Relaxed),
                5 => drop(liar.bell.send(&[0; 3], &[])),
                6 => liars[at] = Liar::connect(&name),
                _ => liar.memory.put(numbers.below(16) as usize * 8, &value.to_le_bytes()),
            }
            let sent = honest.try_send(&next);
            assert!(sent.is_ok() || sent == Err(PortSendError::Full));
            next += u64::from(sent.is_ok());
            for _ in 0..2 {
                match receiver.try_recv() {
                    Ok(Arrival::Ended(end)) if end.why == WhyEnded::Malformed => malformed += 1,
                    Ok(Arrival::Ended(end)) => assert_ne!(end.from.lane(), honest.lane()),
                    Ok(Arrival::Message(_)) | Err(PortRecvError::Empty) => {}
                    Err(why) => panic!("{why:?}"),
                }
            }
        }
        // The honest one's messages come in order, whatever lies between them.
        let mut last = None;
        honest.send(&u64::MAX).unwrap();
        while last != Some(u64::MAX) {
            if let Arrival::Message(came) = receiver.recv().unwrap()
                && came.from.lane() == honest.lane()
            {
                assert!(last.is_none_or(|last| last < came.message));
                last = Some(came.message);
            }
        }
        assert!(honest.ended().is_none());
    }
    assert!(malformed > 100, "{malformed}");
}

#[test]
fn honest_senders_go_on_while_their_owner_writes_at_random() {
    let mut numbers = Numbers(11);
    let mut ended = 0;
    for options in [PortOptions::new().messages(8), PortOptions::new().messages(8).drop_oldest()] {
        let (receiver, _running, name) = own(options);
        let (other, _other_running, other_name) = own(options);
        let mut victim = PortSender::<u64>::connect(&name).unwrap();
        let honest = PortSender::<u64>::connect(&other_name).unwrap();
        for round in 0..mutations() {
            let value = match numbers.below(3) {
                0 => numbers.below(20),
                1 => u64::MAX - numbers.below(20),
                _ => numbers.below(u64::MAX),
            };
            let words = [
                LaneWord::Posted,
                LaneWord::Oldest,
                LaneWord::Finished,
                LaneWord::Taken,
                LaneWord::Closed,
                LaneWord::Counted,
            ];
            match numbers.below(8) {
                0..4 => receiver.port.lanes().spoil(victim.lane(), words[numbers.below(6) as usize], value),
                4 => drop(receiver.try_recv()),
                5 => receiver.port.lanes().ring_for_room(victim.lane()),
                _ => receiver.port.lanes().spoil(victim.lane(), LaneWord::Taken, victim.sent()),
            }
            let sent = match numbers.below(4) {
                0 => victim.send_timeout(&round, Duration::ZERO).map(drop),
                1 => victim.reserve(8).map(drop),
                _ => victim.try_send(&round).map(drop),
            };
            assert!(victim.pressure().queued <= 8 && victim.unreceived().len() <= 8);
            // Its receiver may have ended the lane, or the sender gives it up.
            if sent == Err(PortSendError::Disconnected) || receiver.pressure().lanes == 0 {
                ended += 1;
                drop(victim);
                while receiver.pressure().lanes > 0 {
                    let _ = receiver.try_recv();
                    std::thread::yield_now();
                }
                victim = PortSender::connect(&name).unwrap();
            }
            if round % 16 == 0 {
                honest.send(&round).unwrap();
                assert_eq!(message(&other), round);
            }
        }
    }
    assert!(ended > 20, "{ended}");
}

#[test]
fn an_owner_that_lies_deceives_its_own_senders_alone() {
    let (receiver, _running, name) = own(PortOptions::new().messages(2));
    let sender = PortSender::<u64>::connect(&name).unwrap();
    let other = PortSender::<u64>::connect(&name).unwrap();
    (0..2).for_each(|number| assert!(sender.send(&number).is_ok()));
    // The owner says that it has taken more than was sent.
    receiver.port.lanes().spoil(1, LaneWord::Taken, 3);
    assert_eq!(sender.send(&2), Err(PortSendError::Disconnected));
    assert_eq!(sender.pressure().queued, 0);
    other.send(&7).unwrap();
    let mut came = vec![message(&receiver), message(&receiver), message(&receiver)];
    came.sort_unstable();
    assert_eq!(came, [0, 1, 7]);
}

#[test]
fn receivers_look_at_busy_lanes_alone() {
    process::raise_files().unwrap();
    let (receiver, _running, name) = own(PortOptions::new().messages(4));
    let lanes = 300.min(process::files() as usize / 8);
    let senders: Vec<_> = (0..lanes).map(|_| PortSender::<u64>::connect(&name).unwrap()).collect();
    assert_eq!(receiver.port.lanes().ready(), 0, "nobody has posted");
    for sender in &senders {
        sender.send(&1).unwrap();
        // It doesn't wait, and so finds the message when the bell has been heard.
        while receiver.try_recv() == Err(PortRecvError::Empty) {
            std::thread::yield_now();
        }
    }
    assert_eq!(receiver.port.lanes().ready(), lanes, "all have posted since a receiver waited");
    assert_eq!(receiver.recv_timeout(Duration::from_millis(1)), Err(PortRecvError::Timeout));
    assert_eq!(receiver.port.lanes().ready(), 0);
    for round in 0..20 {
        senders[..10].iter().for_each(|sender| assert!(sender.send(&round).is_ok()));
        (0..10).for_each(|_| assert_eq!(message(&receiver), round));
        assert!(receiver.port.lanes().ready() <= 10);
    }
}

#[test]
fn a_port_takes_no_lanes_without_receivers() {
    let (receiver, _running, name) = own(PortOptions::new());
    let sender = PortSender::<u64>::connect(&name).unwrap();
    let second = receiver.clone();
    drop(receiver);
    assert_eq!(sender.send(&1), Ok(0));
    drop(second);
    while sender.ended().is_none() {
        std::thread::yield_now();
    }
    assert_eq!(sender.unreceived(), [(0, 1)]);
    let refused = PortSender::<u64>::connect(&name).unwrap_err();
    assert!(refused.to_string().contains("no receivers"), "{refused}");
}
