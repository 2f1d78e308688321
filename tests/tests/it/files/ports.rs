//! Files that lie in the sockets which a port and its senders pass to each other.

use crate::files::slow::{closers, lingering, until_nobody_closes};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use underpass::port::PortSender;
use underpass::{CallError, Wire};
use underpass_os::Socket;
use underpass_tests::{ObedientProcess, Room, ServerProcess, Watchdog, until};
use underpass_wire::{Schema, Types};

const PORT: &str = env!("CARGO_BIN_EXE_underpass-test-port");

/// What every port exports, and what a sender asks of it.
#[underpass::interface]
trait PortOpen {
    fn open(&self, port: u64, light: bool, room: OwnedFd) -> Result<Opened, OpenError>;
    fn ask(&self) -> Result<(), CallError>;
}

#[derive(Debug, Wire)]
struct Opened {
    lane: u64,
    items: u64,
    longest: u64,
    bytes: u64,
    drop_oldest: bool,
    light: bool,
    memory: OwnedFd,
    bell: OwnedFd,
}

#[derive(Debug, Wire)]
enum OpenError {
    Call(CallError),
    Refused(OpenRefused),
}

#[derive(Debug, Wire)]
enum OpenRefused {
    AnotherType,
    MemoryOfUser,
    NoReceivers,
    NoResources(String),
}

impl From<CallError> for OpenError {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

/// What a port says of the type of its messages.
fn hash_of<T: Schema>() -> u64 {
    let mut types = Types::new();
    let name = T::schema(&mut types);
    let text = format!("underpass port 1\n{}\n{:?}", name.as_str(), types.finish());
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The last close of the owner's end of a sender's socket takes as long as the sender likes. A
/// closing thread waits for it, and other senders go on.
#[test]
fn an_owner_does_not_wait_for_files_in_a_senders_socket() {
    let _watchdog = Watchdog::new("an_owner_does_not_wait_for_files_in_a_senders_socket");
    Room::directory();
    let name = Room::name("slow-bells");
    let mut owner = ObedientProcess::start_on(Command::new(PORT).args([&*name, "owner", "64"]), None, "open");
    let honest = PortSender::<(u64, Vec<u8>)>::connect(&name).unwrap();
    let hostile = PortOpenClient::import_within(&name, ServerProcess::soon()).unwrap();
    let (file, peer) = lingering();
    let (ours, theirs) = Socket::pair().unwrap();
    ours.send(&[1], &[file.as_fd()]).unwrap();
    drop((file, ours));
    // The owner keeps the socket as long as the lane, and this domain has closed its own copy by
    // then.
    drop(hostile.open(hash_of::<(u64, Vec<u8>)>(), false, theirs).unwrap());
    drop(hostile);
    // A receiver that looks takes the end of the lane, too.
    let mut sent = 0;
    until("the end of the lane", || {
        honest.send(&(sent, vec![])).unwrap();
        assert_eq!(owner.ask("take 1"), format!("took {sent}"));
        sent += 1;
        (closers(owner.pid()) == 1).then_some(())
    });
    for number in sent..sent + 100 {
        honest.send(&(number, vec![])).unwrap();
        assert_eq!(owner.ask("take 1"), format!("took {number}"));
    }
    assert_eq!(closers(owner.pid()), 1, "it is not closed yet");
    drop(peer);
    until_nobody_closes(owner.pid());
    let _ = std::fs::remove_file(Room::directory().join(&name));
}
