//! Clients that do not read their socket: large results wait for room there.

use crate::hostile::end::{DONE, End, ROW};
use crate::values::hostile_clients::{import, of_vault};
use crate::values::vault_with;
use std::os::fd::OwnedFd;
use underpass_channel::{Cell, PayloadPlace, Tag};
use underpass_tests::{Transaction, Vault, Watchdog, until};
use underpass_wire::to_bytes;

/// The outcome of a call that was executed, with a result that begins with interfaces.
const DONE_WITH_INTERFACES: u16 = 13;
/// The outcome of a call that was executed, with no room for its result.
const NO_ROOM_FOR_RESULT: u16 = 8;
/// The kind of a doorbell.
const BELL: u8 = 0;
/// The kind of the message that announces an out-of-band part.
const OUT_OF_BAND: u8 = 1;
/// More doorbells than the socket has room for.
const BELLS: usize = 1000;

/// Fills the socket from the server to `end` with doorbells.
fn fill(end: &End) {
    for _ in 0..BELLS {
        end.channel.own_attention().set_unpolled();
        end.post(&Cell::inline_request(5, of_vault("get"), ROW, &to_bytes(&7u32)).unwrap());
        until("a reply", || end.take());
    }
}

/// Takes what the socket has: the number of doorbells, and the slots and files of out-of-band
/// messages.
fn read(end: &End) -> (usize, Vec<(u16, Vec<OwnedFd>)>) {
    let (mut bells, mut parts, mut said) = (0, Vec::new(), [0; 16]);
    while let Ok(received) = end.socket.receive(&mut said) {
        assert!(received.len > 0, "the server keeps the connection");
        match said[0] {
            BELL => bells += 1,
            OUT_OF_BAND => parts.push((u16::from_le_bytes([said[2], said[3]]), received.files)),
            kind => panic!("message {kind} is not expected"),
        }
    }
    (bells, parts)
}

/// Asks for a transaction beside more bytes than an A-stack has, over each of the slots.
fn begin(end: &End, slots: impl IntoIterator<Item = u16>) {
    for slot in slots {
        let bytes = to_bytes(&80_000u32);
        end.post(&Cell::inline_request(slot, of_vault("begin_beside"), ROW, &bytes).unwrap());
    }
}

/// How many transactions the server has, as an honest client learns.
fn counts(vault: &underpass_tests::VaultClient) -> (u64, u64) {
    vault.transactions().unwrap()
}

#[test]
fn a_client_that_reads_slowly_gets_its_results() {
    let _watchdog = Watchdog::new("a_client_that_reads_slowly_gets_its_results");
    let (server, vault) = vault_with("slow-reader", "vault", None);
    let end = import(server.name());
    for round in 1..=2 {
        fill(&end);
        let begun = counts(&vault).1;
        begin(&end, 8..12);
        until("the calls to be executed", || (counts(&vault).1 == begun + 4).then_some(()));
        let (bells, mut parts) = read(&end);
        assert!(bells < BELLS, "the socket was full");
        for _ in 8..12 {
            let reply = until("a reply", || {
                parts.extend(read(&end).1);
                end.take()
            });
            assert_eq!((reply.what(), reply.place), (DONE_WITH_INTERFACES, PayloadPlace::OutOfBand));
            parts.extend(read(&end).1);
            let place = parts.iter().position(|(slot, _)| *slot == reply.slot());
            let (_, files) = parts.swap_remove(place.expect("its out-of-band part came first"));
            assert_eq!(files.len(), 1);
        }
        assert_eq!(counts(&vault).0, 4 * round, "the transactions are the client's");
    }
    drop(end);
    until("all to be dropped", || (counts(&vault).0 == 0).then_some(()));
}

#[test]
fn a_client_that_never_reads_loses_its_own_results_alone() {
    let _watchdog = Watchdog::new("a_client_that_never_reads_loses_its_own_results_alone");
    let (server, vault) = vault_with("no-reader", "vault", None);
    let end = import(server.name());
    fill(&end);
    let slots = 8..32;
    begin(&end, slots.clone());
    let mut lost = 0;
    let mut others = 0;
    while lost < slots.len() {
        // Others get their large results meanwhile.
        let (bytes, transaction) = vault.begin_beside(80_000).unwrap();
        assert_eq!((bytes, transaction.commit()), (vec![7; 80_000], Ok(())));
        others += 1;
        while let Some(reply) = end.take() {
            assert_eq!(reply.what(), NO_ROOM_FOR_RESULT);
            lost += 1;
        }
    }
    assert!(others > 1, "they did not wait for each other");
    until("what nobody got to be dropped", || (counts(&vault).0 == 0).then_some(()));
    // The connection goes on, and so do its slots.
    assert!(read(&end).0 > 0);
    end.channel.own_attention().set_unpolled();
    begin(&end, [8]);
    assert_eq!(until("a reply", || end.take()).what(), DONE_WITH_INTERFACES);
    end.post(&Cell::inline_request(9, of_vault("get"), ROW, &to_bytes(&7u32)).unwrap());
    assert_eq!(until("a reply", || end.take()).what(), DONE);
}

#[test]
fn results_that_wait_end_with_their_client() {
    let _watchdog = Watchdog::new("results_that_wait_end_with_their_client");
    let (server, vault) = vault_with("gone-reader", "vault", None);
    for round in 0..3 {
        let end = import(server.name());
        fill(&end);
        let begun = counts(&vault).1;
        begin(&end, 8..24);
        if round > 0 {
            until("the calls to be executed", || (counts(&vault).1 == begun + 16).then_some(()));
        }
        if round > 1 {
            // A violation, in place of a death.
            end.post(&Cell::request(u16::MAX, 0, Tag::NONE));
        }
        drop(end);
        until("all to be dropped", || (counts(&vault).0 == 0).then_some(()));
    }
    assert!(vault.begin().is_ok());
}
