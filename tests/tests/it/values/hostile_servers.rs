//! Servers that name interfaces which they were not given, or answer what nobody asked.

use crate::hostile::end::{DONE, End, HEAD, ROW};
use crate::values::hostile_clients::procedure;
use std::os::fd::AsFd;
use std::sync::Arc;
use underpass::{CallError, Outcome};
use underpass_channel::layout::STACK;
use underpass_channel::{Cell, Channel, Fence, Region, Tag};
use underpass_os::{Directory, Listening, Memory};
use underpass_tests::{Adds, Room, SinkClient, Transaction, Vault, VaultClient, Watchdog, until};
use underpass_wire::to_bytes;

/// The outcome of a call whose result begins with interfaces.
const DONE_WITH_INTERFACES: u16 = 13;

/// A hand-made server serves one client by `serve` while `call` calls it.
fn lied_to<R>(of: &str, serve: impl FnOnce(&End) + Send, call: impl FnOnce(&VaultClient) -> R) -> R {
    let name = Room::name(of);
    let listening = Listening::bind(&Directory::from_environment(), &name, 0o600).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = until("a client", || listening.accept().ok());
            socket.wait(u64::MAX / 2).unwrap();
            socket.admit_files(true);
            assert!(socket.receive(&mut [0; 1024]).unwrap().len > 0, "an honest client says hello");
            let (channel, file) = Channel::create(Fence::Full, STACK).unwrap();
            let hash = VaultClient::descriptor().hash;
            let capabilities = (false, None::<u32>, false);
            let said = to_bytes(&(HEAD, 0u8, capabilities, hash, None::<u128>, 7u128, ROW.word()));
            socket.send(&said, &[file.as_fd()]).unwrap();
            let region = Arc::new(Region::adopt(file.as_fd(), STACK).unwrap());
            let end = End { socket, number: 0, channel, region };
            serve(&end);
            end.hung_up();
        });
        let vault = VaultClient::import(&name).unwrap();
        call(&vault)
    })
}

/// Takes the next call, which is of the procedure `name`, and answers it.
fn answer(end: &End, name: &str, what: u16, bytes: &[u8]) -> Cell {
    let call = until("a call", || end.take());
    assert_eq!(call.what(), procedure(VaultClient::descriptor(), name));
    end.post(&Cell::inline(call.slot(), what, bytes).unwrap());
    call
}

/// A result that begins with these words.
fn result(words: &[u64]) -> Vec<u8> {
    let mut bytes = (words.len() as u16).to_le_bytes().to_vec();
    words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes.push(0);
    bytes
}

#[test]
fn a_word_that_was_not_given_is_the_error_of_its_call() {
    let _watchdog = Watchdog::new("a_word_that_was_not_given_is_the_error_of_its_call");
    let words = [1 << 63 | ROW.word(), 1 << 63, u64::MAX, 1 << 40 | 1, 1 << 62];
    let serve = |end: &End| {
        for word in words {
            answer(end, "begin", DONE_WITH_INTERFACES, &result(&[word]));
        }
        answer(end, "begin", DONE_WITH_INTERFACES, &result(&[7, 8].map(|index| Tag::new(index, 1).word())));
        answer(end, "begin", DONE_WITH_INTERFACES, &[9, 0, 1]);
        answer(end, "begin", DONE_WITH_INTERFACES, &[]);
        answer(end, "begin", DONE, &[0]);
        answer(end, "get", DONE_WITH_INTERFACES, &[0, 0, 0, 0]);
    };
    lied_to("words", serve, |vault| {
        for _ in 0..words.len() + 4 {
            let begun = vault.begin();
            assert!(matches!(begun, Err(CallError::Decode(Outcome::Executed, _))), "{begun:?}");
        }
        assert_eq!(vault.get(1), Ok(None), "no words at all are no lie");
    });
}

#[test]
fn one_row_that_is_given_twice_has_two_holders() {
    let _watchdog = Watchdog::new("one_row_that_is_given_twice_has_two_holders");
    let (row, later) = (Tag::new(5, 1), Tag::new(5, 2));
    let serve = |end: &End| {
        for tag in [row, row, later, row] {
            answer(end, "begin", DONE_WITH_INTERFACES, &result(&[tag.word()]));
        }
        let call = until("a call over the later row", || end.take());
        assert_eq!(call.tag(), later);
        end.post(&Cell::inline(call.slot(), DONE, &[0]).unwrap());
    };
    lied_to("twice", serve, |vault| {
        let held: Vec<_> = (0..4).map(|_| vault.begin().unwrap()).collect();
        // The later row stays, whatever comes of the earlier ones.
        assert!(matches!(held[3].commit(), Err(CallError::Closed(Outcome::NotStarted))));
        assert_eq!(held[2].commit(), Ok(()));
        drop(held);
    });
}

#[test]
fn a_reverse_channel_that_nobody_asked_for_ends_the_connection() {
    let _watchdog = Watchdog::new("a_reverse_channel_that_nobody_asked_for_ends_the_connection");
    let mut opened = [0; 16];
    opened[0] = 15;
    let serve = |end: &End| end.say(&opened, &[]);
    lied_to("unasked", serve, |vault| {
        assert!(matches!(vault.get(1), Err(CallError::ProtocolViolation(_))));
    });
    // Memory that the server could make smaller.
    let serve = |end: &End| {
        let asked = until("the request", || {
            let mut said = [0; 16];
            end.socket.receive(&mut said).ok().map(|_| said[0])
        });
        assert_eq!(asked, 14);
        let (_memory, file) = Memory::create("hostile", 4096).unwrap();
        end.say(&opened, &[file.as_fd()]);
    };
    lied_to("damaged", serve, |vault| {
        let given = vault.watch(SinkClient::new(Adds::default()));
        assert!(given.is_err(), "{given:?}");
        assert!(matches!(vault.get(1), Err(CallError::ProtocolViolation(_))));
    });
    // None at all: the call alone fails.
    let serve = |end: &End| {
        until("the request", || end.socket.receive(&mut [0; 16]).ok());
        end.say(&opened, &[]);
        answer(end, "get", DONE, &[0, 0]);
    };
    lied_to("none", serve, |vault| {
        let given = vault.watch(SinkClient::new(Adds::default()));
        assert!(matches!(given, Err(CallError::NoResources(Outcome::NotStarted, _))), "{given:?}");
        assert_eq!(vault.get(1), Ok(None));
    });
}
