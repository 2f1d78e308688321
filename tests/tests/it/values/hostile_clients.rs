//! Clients that name interfaces which they were not given, release what they don't have, and ask
//! for too much.

use crate::hostile::end::{BAD_ARGUMENTS, DONE, End, HEAD, ROW};
use crate::values::vault_with;
use std::os::fd::AsFd;
use std::sync::Arc;
use underpass_channel::layout::STACK;
use underpass_channel::{Cell, Channel, Fence, Region, Tag};
use underpass_os::{Directory, Socket, clock};
use underpass_tests::{ServerProcess, Transaction, TransactionClient, Vault, VaultClient, Watchdog, until};
use underpass_wire::{Descriptor, from_bytes, to_bytes};

/// The outcome of a call that was executed, with a result that begins with interfaces.
const DONE_WITH_INTERFACES: u16 = 13;
/// The outcome of a call over a row that is closed or free.
const NO_BINDING: u16 = 11;
/// The outcome of a call that found no room.
const NO_RESOURCES: u16 = 3;
/// The bit of a procedure's number that says that the arguments begin with interfaces.
const WITH_INTERFACES: u16 = 1 << 15;
/// The bit of a word that says that the row is the receiver's.
const HOME: u64 = 1 << 63;

pub fn procedure(of: &Descriptor, name: &str) -> u16 {
    of.procedures.iter().find(|procedure| procedure.name == name).expect("such a procedure").index
}

pub fn of_vault(name: &str) -> u16 {
    procedure(VaultClient::descriptor(), name)
}

fn of_transaction(name: &str) -> u16 {
    procedure(TransactionClient::descriptor(), name)
}

/// A hand-made binding to a vault.
pub fn import(name: &str) -> End {
    let socket = Socket::connect(&Directory::from_environment(), name).unwrap();
    let (clock, capabilities) = ((clock::ahead_ns(), clock::now_ns()), (false, None::<u32>, false));
    let hashes = VaultClient::descriptor().hashes();
    socket.send(&to_bytes(&(HEAD, hashes, capabilities, clock, Vec::<u128>::new())), &[]).unwrap();
    socket.wait(u64::MAX / 2).unwrap();
    let mut said = vec![0; 64 * 1024];
    let received = socket.receive(&mut said).unwrap();
    let (head, kind): (_, u8) = from_bytes(&said[..17]).unwrap();
    assert_eq!((head, kind, received.files.len()), (HEAD, 0, 1));
    let channel = Channel::adopt(received.files[0].as_fd(), Fence::Full, STACK).unwrap();
    let region = Arc::new(Region::adopt(received.files[0].as_fd(), STACK).unwrap());
    End { socket, number: 0, channel, region }
}

fn exchange(end: &End, tag: Tag, what: u16, bytes: &[u8]) -> Cell {
    end.post(&Cell::inline_request(5, what, tag, bytes).unwrap());
    until("a reply", || end.take())
}

fn call(end: &End, what: u16, bytes: &[u8]) -> u16 {
    exchange(end, ROW, what, bytes).what()
}

/// Arguments that begin with these words.
fn with_words(words: &[u64]) -> Vec<u8> {
    let mut bytes = (words.len() as u16).to_le_bytes().to_vec();
    words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes
}

/// Begins a transaction. Returns its row.
fn begin(end: &End) -> Tag {
    let reply = exchange(end, ROW, of_vault("begin"), &[]);
    assert_eq!(reply.what(), DONE_WITH_INTERFACES);
    let (count, word, good): (u16, u64, u8) = from_bytes(reply.bytes()).unwrap();
    assert_eq!((count, good, word & HOME), (1, 0, 0));
    Tag::of_word(word)
}

/// Says something about a row over the socket.
fn say(end: &End, kind: u8, tag: Tag) {
    let mut bytes = [0; 16];
    bytes[0] = kind;
    bytes[8..].copy_from_slice(&tag.word().to_le_bytes());
    end.say(&bytes, &[]);
}

const RELEASE: u8 = 13;
const ASK_REVERSE: u8 = 14;
const CAME_HOME: u8 = 16;

fn is_unharmed((server, vault): &(ServerProcess, VaultClient)) {
    assert!(vault.get(1).is_ok(), "the server {} lives", server.pid());
}

#[test]
fn a_forged_or_stale_word_is_the_error_of_its_call() {
    let _watchdog = Watchdog::new("a_forged_or_stale_word_is_the_error_of_its_call");
    let scene = vault_with("forged", "vault", None);
    let end = import(scene.0.name());
    let (own, stale) = (begin(&end), begin(&end));
    let theirs = scene.1.begin().unwrap();
    let asks = of_vault("who_calls") | WITH_INTERFACES;
    let home = |tag: Tag| with_words(&[tag.word() | HOME]);
    assert_eq!(call(&end, asks, &home(own)), DONE);
    say(&end, RELEASE, stale);
    until("the release", || {
        (exchange(&end, stale, of_transaction("commit"), &[]).what() == NO_BINDING).then_some(())
    });
    let free = Tag::new(99_999, 1);
    let words = [
        stale.word() | HOME,
        free.word() | HOME,
        // The vault's own row is of another interface.
        ROW.word() | HOME,
        // Rows of this client, which has no channel for them.
        own.word(),
        free.word(),
        // Bits that no honest client sets.
        own.word() | HOME | 1 << 40,
        own.word() | HOME | 1 << 62,
        u64::MAX,
        0,
        HOME,
    ];
    for word in words {
        assert_eq!(call(&end, asks, &with_words(&[word])), BAD_ARGUMENTS, "{word:#x}");
    }
    // Too few words, none, too many, and other bytes behind them.
    for bytes in [&[][..], &[1], &[1, 0], &[1, 0, 1, 2, 3], &[0, 0], &[0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(call(&end, asks, bytes), BAD_ARGUMENTS, "{bytes:?}");
    }
    assert_eq!(call(&end, asks, &with_words(&[own.word() | HOME, own.word() | HOME])), BAD_ARGUMENTS);
    assert_eq!(call(&end, of_vault("who_calls"), &[]), BAD_ARGUMENTS, "no words at all");
    assert_eq!(call(&end, of_vault("transactions") | WITH_INTERFACES, &home(own)), BAD_ARGUMENTS);
    assert_eq!(call(&end, 0x3fff | WITH_INTERFACES, &home(own)), 10, "no such procedure");
    // Nothing of that has harmed what there is.
    assert_eq!(call(&end, asks, &home(own)), DONE);
    assert_eq!(exchange(&end, own, of_transaction("commit"), &[]).what(), DONE);
    assert_eq!(theirs.commit(), Ok(()));
    drop(end);
    until("the liar's transactions to be dropped", || (scene.1.transactions().unwrap().0 == 1).then_some(()));
    is_unharmed(&scene);
}

#[test]
fn releases_of_others_and_twice_change_nothing() {
    let _watchdog = Watchdog::new("releases_of_others_and_twice_change_nothing");
    let scene = vault_with("releases", "vault", None);
    let theirs = [scene.1.begin().unwrap(), scene.1.begin().unwrap()];
    let end = import(scene.0.name());
    let rows: Vec<_> = (0..3).map(|_| begin(&end)).collect();
    for _ in 0..3 {
        say(&end, RELEASE, rows[1]);
        say(&end, RELEASE, Tag::new(rows[0].index() as u32, rows[0].generation() + 1));
        say(&end, CAME_HOME, rows[0]);
        say(&end, CAME_HOME, Tag::new(7, 7));
    }
    until("the release", || (scene.1.transactions().unwrap().0 == 4).then_some(()));
    let again = begin(&end);
    assert_eq!((again.index(), again.generation()), (rows[1].index(), rows[1].generation() + 1));
    say(&end, RELEASE, rows[1]);
    for row in [rows[0], rows[2], again] {
        assert_eq!(exchange(&end, row, of_transaction("commit"), &[]).what(), DONE);
    }
    assert_eq!(exchange(&end, rows[1], of_transaction("commit"), &[]).what(), NO_BINDING);
    assert!(theirs.iter().all(|transaction| transaction.commit().is_ok()));
    // Its import ends, and the values go on.
    say(&end, RELEASE, ROW);
    until("the release", || (call(&end, of_vault("unwatch"), &[]) == NO_BINDING).then_some(()));
    assert_eq!(exchange(&end, again, of_transaction("commit"), &[]).what(), DONE);
    is_unharmed(&scene);
}

#[test]
fn invented_rows_are_charged_and_end_with_their_client() {
    let _watchdog = Watchdog::new("invented_rows_are_charged_and_end_with_their_client");
    let scene = vault_with("invented", "vault-few", Some(10));
    let end = import(scene.0.name());
    say(&end, ASK_REVERSE, Tag::of_word(0));
    let file = until("the reverse channel", || {
        let mut said = [0; 16];
        let received = end.socket.receive(&mut said).ok()?;
        assert_eq!((said[0], received.files.len()), (15, 1));
        Some(received)
    });
    let watch = of_vault("watch") | WITH_INTERFACES;
    for index in 0..10 {
        assert_eq!(call(&end, watch, &with_words(&[Tag::new(index, 1).word()])), DONE);
    }
    // One more than its user may have.
    assert_eq!(call(&end, watch, &with_words(&[Tag::new(10, 1).word()])), NO_RESOURCES);
    // One row twice: each of its holders is charged, and releases it.
    assert_eq!(call(&end, of_vault("unwatch"), &[]), DONE);
    let twice = with_words(&[Tag::new(3, 1).word()]);
    assert_eq!((call(&end, watch, &twice), call(&end, watch, &twice)), (DONE, DONE));
    // The server calls the rows, and this client never answers.
    end.post(&Cell::inline_request(9, of_vault("publish"), ROW, &[0; 8]).unwrap());
    drop((end, file));
    // What the server's own code keeps is charged until that drops it.
    scene.1.unwatch().unwrap();
    until("the quota to come back", || scene.1.begin_many(10).ok());
    is_unharmed(&scene);
}

#[test]
fn a_second_request_for_the_reverse_channel_ends_the_connection() {
    let _watchdog = Watchdog::new("a_second_request_for_the_reverse_channel_ends_the_connection");
    let scene = vault_with("asks", "vault", None);
    let end = import(scene.0.name());
    say(&end, ASK_REVERSE, Tag::of_word(0));
    say(&end, ASK_REVERSE, Tag::of_word(0));
    end.hung_up();
    // What only a server says, and what is for a channel that there is not.
    for (kind, location) in [(15, 0), (14, 8), (13, 8), (0, 0x18)] {
        let end = import(scene.0.name());
        let mut bytes = [0; 16];
        (bytes[0], bytes[1]) = (kind, location);
        end.say(&bytes, &[]);
        end.hung_up();
    }
    is_unharmed(&scene);
}
