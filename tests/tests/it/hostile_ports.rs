//! Ends of synchronous ports that write anything into all that they share. Honest ends of the same
//! port, or of the same domain, go on.
//!
//! `hostile/liar.rs` says what a liar does. Lanes and streams have such tests of their own, beside
//! their code.

use crate::hostile::client::import_by;
use crate::hostile::end::{DONE, End, HEAD, Head, ROW, gone};
use crate::hostile::liar::{Liar, Numbers};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use underpass::port::sync::{SyncPortSender, SyncSendError};
use underpass::{CallError, thread};
use underpass_channel::layout::STACK;
use underpass_channel::{Cell, Channel, Fence, Region};
use underpass_os::{Directory, Listening, Socket, clock};
use underpass_tests::{ObedientProcess, Room, Watchdog, fds_of, long, regions_of, until};
use underpass_wire::{from_bytes, to_bytes};

const PORT: &str = env!("CARGO_BIN_EXE_underpass-test-sync-port");

/// A number, and bytes.
type Note = (u64, Vec<u8>);

/// A million with `UNDERPASS_TEST_LONG=1`, otherwise as many as take some seconds.
fn mutations() -> u32 {
    if long() { 1_000_000 } else { 50_000 }
}

fn watchdog(name: &'static str) -> Watchdog {
    Watchdog::within(name, Duration::from_secs(if long() { 3600 } else { 120 }))
}

/// What a sender of such a port says first.
#[derive(Debug)]
struct SenderHello {
    /// The hashes of the port's interface.
    hashes: Vec<u64>,
}

impl SenderHello {
    /// What an honest sender says to somebody who then hangs up.
    fn heard(of: &str) -> Self {
        Room::directory();
        let name = Room::name(of);
        let listening = Listening::bind(&Directory::from_environment(), &name, 0o600).unwrap();
        let connects = {
            let name = name.clone();
            std::thread::spawn(move || SyncPortSender::<Note, u64>::connect(&name).map(drop))
        };
        let socket = until("the sender", || listening.accept().ok());
        socket.wait(u64::MAX / 2).unwrap();
        let mut said = [0; 1024];
        let len = socket.receive(&mut said).unwrap().len;
        socket.hang_up();
        assert!(connects.join().unwrap().is_err());
        type Hello = (Head, Vec<u64>, (bool, Option<u32>, bool), (i64, u64), Vec<u128>);
        let (head, hashes, ..): Hello = from_bytes(&said[..len]).unwrap();
        assert_eq!(head, HEAD);
        Self { hashes }
    }

    /// The same, for a client that shares no connection.
    fn to_bytes(&self) -> Vec<u8> {
        let (capabilities, clock) = ((false, None::<u32>, false), (clock::ahead_ns(), clock::now_ns()));
        to_bytes(&(HEAD, &self.hashes, capabilities, clock, Vec::<u128>::new()))
    }
}

#[test]
fn an_owner_answers_honest_senders_while_another_writes_at_random() {
    let _watchdog = watchdog("an_owner_answers_honest_senders_while_another_writes_at_random");
    let hello = SenderHello::heard("heard-by-sender");
    let name = Room::name("lied-to-owner");
    let mut owner = ObedientProcess::start_on(Command::new(PORT).args([&*name, "owner", "8"]), None, "open");
    let honest = SyncPortSender::<Note, u64>::connect(&name).unwrap();
    assert_eq!(owner.ask(&format!("serve 2 {}", u64::MAX)), "serves");
    assert_eq!(honest.send(&(1, vec![])), Ok(2));
    let (files, mut numbers) = (fds_of(owner.pid()), Numbers(0x5eed));
    // Send, open, skip, and procedures that no port has.
    let procedures = [0, 0, 0, 0, 1, 2, 1000, u16::MAX];
    let (mut done, mut bindings) = (0, 0);
    while done < mutations() {
        let mut liar = Liar::new(import_by(&name, &hello.to_bytes()).0, &mut numbers, &procedures, false);
        bindings += 1;
        for n in 1.. {
            liar.mutate();
            done += 1;
            if n % 64 == 0 {
                assert_eq!(honest.send(&(n, vec![7; 20])), Ok(2 * n));
            }
            if n % 8 == 0 && (liar.hear() || done >= mutations()) {
                break;
            }
        }
        liar.ends();
    }
    println!("{done} mutations over {bindings} bindings");
    assert!(bindings > 3, "the owner closes such bindings: {bindings}");
    assert_eq!((honest.send(&(5, vec![])), honest.under_way()), (Ok(10), 0));
    until("the owner to let go", || (fds_of(owner.pid()) <= files).then_some(()));
    owner.kill();
    let _ = std::fs::remove_file(Room::directory().join(&name));
}

/// What a server says first to a client whose interface has this hash.
fn welcome(hash: u64) -> Vec<u8> {
    to_bytes(&(HEAD, 0u8, (false, None::<u32>, false), hash, None::<u128>, 1u128, ROW.word()))
}

/// Accepts a sender as an honest owner does, up to the sizes of the port: eight messages.
fn accept(socket: Socket, hash: u64) -> Option<End> {
    socket.wait(u64::MAX / 2).ok()?;
    socket.admit_files(true);
    (socket.receive(&mut [0; 1024]).ok()?.len > 0).then_some(())?;
    let (channel, file) = Channel::create(Fence::Full, STACK).unwrap();
    socket.send(&welcome(hash), &[file.as_fd()]).ok()?;
    let region = Arc::new(Region::adopt(file.as_fd(), STACK).unwrap());
    let end = End { socket, number: 0, channel, region };
    let sizes = to_bytes(&(0u8, (1u64, 8u64, STACK as u64, true)));
    loop {
        if let Some(opens) = end.take() {
            end.post(&Cell::inline(opens.slot(), DONE, &sizes).unwrap());
            return Some(end);
        }
        if gone(&end.socket) {
            return None;
        }
        std::thread::yield_now();
    }
}

/// Sends over one sender after another, until `over`. Counts the replies that are violations.
fn send(name: &str, over: &AtomicBool, violations: &AtomicU64) {
    while !over.load(Ordering::Relaxed) {
        // The owner is slow to answer, or has finished.
        let Ok(sender) = SyncPortSender::<Note, u64>::connect(name) else { continue };
        for number in 0.. {
            let told = match number % 4 {
                0 => sender.try_send(&(number, vec![])),
                1 => sender
                    .begin((number, vec![3; 100]))
                    .and_then(|pending| pending.wait_timeout(Duration::from_millis(1)).unwrap_or(Ok(0))),
                _ => sender.send_timeout(&(number, vec![1; 9]), Duration::from_millis(1)),
            };
            match told {
                Err(SyncSendError::Call(CallError::ProtocolViolation(_))) => {
                    violations.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                // The binding has ended, or the owner holds too many of its slots.
                Err(SyncSendError::Disconnected(..) | SyncSendError::Full) => break,
                Err(SyncSendError::Timeout(_)) if over.load(Ordering::Relaxed) => break,
                _ => {}
            }
        }
    }
}

#[test]
fn senders_go_on_while_an_owner_writes_at_random() {
    let _watchdog = watchdog("senders_go_on_while_an_owner_writes_at_random");
    let hash = SenderHello::heard("heard-by-owner").hashes[0];
    let (name, other) = (Room::name("lying-owner"), Room::name("other-owner"));
    let mut owner = ObedientProcess::start_on(Command::new(PORT).args([&*other, "owner", "8"]), None, "open");
    let honest = SyncPortSender::<Note, u64>::connect(&other).unwrap();
    assert_eq!(owner.ask(&format!("serve 1 {}", u64::MAX)), "serves");
    assert_eq!(honest.send(&(1, vec![])), Ok(2));
    let listening = Listening::bind(&Directory::from_environment(), &name, 0o600).unwrap();
    let (over, violations) = (AtomicBool::new(false), AtomicU64::new(0));
    // Most outcomes that an owner may report are `Done`.
    let outcomes = [0, 0, 0, 0, 0, 1, 2, 3, 4, 9, 12];
    let (mut done, mut bindings) = (0, 0);
    std::thread::scope(|scope| {
        let sends = || send(&name, &over, &violations);
        let senders =
            [scope.spawn(sends), scope.spawn(move || thread::scope(|scope| drop(scope.spawn(sends))))];
        let mut numbers = Numbers(0x11a7);
        // Until a lie is found, however long that takes.
        while done < mutations() || violations.load(Ordering::Relaxed) == 0 {
            let Some(end) = listening.accept().ok().and_then(|socket| accept(socket, hash)) else {
                std::thread::yield_now();
                continue;
            };
            bindings += 1;
            let mut liar = Liar::new(end, &mut numbers, &outcomes, true);
            for n in 1.. {
                liar.mutate();
                done += 1;
                if n % 256 == 0 {
                    assert_eq!(honest.send(&(n, vec![])), Ok(2 * n));
                }
                if n % 8 == 0 && (liar.hear() || n > 4000) {
                    break;
                }
            }
            liar.ends();
        }
        over.store(true, Ordering::Relaxed);
        // A sender that connects once more is refused.
        until("the senders to leave", || {
            listening.accept().ok().inspect(Socket::hang_up);
            senders.iter().all(|sender| sender.is_finished()).then_some(())
        });
    });
    println!("{done} mutations over {bindings} bindings, {violations:?} closed for a violation");
    assert_eq!((honest.send(&(5, vec![])), honest.under_way()), (Ok(10), 0));
    until("this domain to let go", || (regions_of(std::process::id()) == 1).then_some(()));
    drop(honest);
    owner.kill();
    let _ = std::fs::remove_file(Room::directory().join(&other));
}
