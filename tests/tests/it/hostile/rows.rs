//! Clients that name rows that they don't have, and show secrets that are not theirs.

use crate::hostile::client::{answer, connect, hello_of, import_by};
use crate::hostile::clients::{Scene, call, outcome};
use crate::hostile::end::{DONE, End, HEAD, ROW, gone, out_of_band, payload_file, procedure, until_gone};
use underpass_channel::{Cell, Tag};
use underpass_tests::{Watchdog, until};
use underpass_wire::from_bytes;

/// The outcome of a call over a row that is closed or free.
const NO_BINDING: u16 = 11;

/// The secret and the tag in a welcome.
fn welcomed(said: &[u8]) -> (u128, u64) {
    type Welcome = ((u32, u32, u64), u8, (bool, Option<u32>, bool), u64, Option<u128>, u128, u64);
    let ((head, kind, _, _, _, secret, tag), prefixes): (Welcome, bool) = from_bytes(said).unwrap();
    assert!(prefixes, "the server knows prefixes of requests");
    assert_eq!((head, kind), (HEAD, 0));
    (secret, tag)
}

/// The place and the tag in an answer that joins.
fn joined(said: &[u8]) -> (u8, Tag) {
    type Joined = ((u32, u32, u64), u8, u8, u64, Option<u128>, u64);
    let (head, kind, place, _, _, tag): Joined = from_bytes(said).unwrap();
    assert_eq!((head, kind), (HEAD, 6));
    (place, Tag::of_word(tag))
}

/// Says over the socket that nobody uses the row any more.
fn release(end: &End, tag: Tag) {
    let mut bytes = [0; 16];
    bytes[0] = 13;
    bytes[8..].copy_from_slice(&tag.word().to_le_bytes());
    end.say(&bytes, &[]);
}

fn over(tag: Tag, slot: u16) -> Cell {
    Cell::inline_request(slot, procedure("add"), tag, &[1, 2]).unwrap()
}

#[test]
fn a_tag_that_names_no_row_is_refused() {
    let _watchdog = Watchdog::new("a_tag_that_names_no_row_is_refused");
    let scene = Scene::new("tags");
    let end = scene.import();
    let most = Tag::ROWS as u32 - 1;
    for (index, generation) in [(0, 0), (0, 2), (0, u32::MAX), (1, 1), (7, 1), (8, 1), (99_999, 1), (most, 1)]
    {
        end.post(&over(Tag::new(index, generation), 3));
        assert_eq!(outcome(&end, 3), NO_BINDING, "{index} in its generation {generation}");
        // What came along is taken, so that the next call over the slot finds nothing of it.
        end.pass(3, 2, payload_file(&[1, 2]).as_fd());
        let mut cell = out_of_band(3, procedure("add"));
        cell.payload.set_word(0, Tag::new(index, generation).word());
        end.post(&cell);
        assert_eq!(outcome(&end, 3), NO_BINDING);
        assert_eq!(call(&end, 3, procedure("add"), &[1, 2]), DONE, "the binding goes on");
    }
    drop(end);
    scene.is_unharmed();
    // A request without room for a tag.
    scene.closes(|end| end.post(&Cell { length: 7, ..Cell::request(0, procedure("null"), ROW) }));
}

#[test]
fn a_row_that_is_not_there_is_not_released() {
    let _watchdog = Watchdog::new("a_row_that_is_not_there_is_not_released");
    let scene = Scene::new("releases");
    let end = scene.import();
    for tag in [Tag::new(0, 2), Tag::new(5, 1), Tag::new(Tag::ROWS as u32 - 1, 9), Tag::of_word(0)] {
        release(&end, tag);
        assert_eq!(call(&end, 0, procedure("add"), &[1, 2]), DONE, "{tag:?}");
    }
    // Its only row: that ends the connection.
    release(&end, ROW);
    end.hung_up();
    scene.is_unharmed();
}

#[test]
fn a_secret_leads_to_the_connection_of_its_own_client() {
    let _watchdog = Watchdog::new("a_secret_leads_to_the_connection_of_its_own_client");
    let scene = Scene::new("secrets");
    let (first, said) = import_by(scene.name(), &hello_of(&[], false));
    let (secret, tag) = welcomed(&said);
    assert_eq!(tag, ROW.word());
    // Another number, and the number of a client that differs in what the two sides agreed on.
    for hello in [hello_of(&[!secret, 0, 1], false), hello_of(&[secret], true)] {
        let (end, said) = import_by(scene.name(), &hello);
        assert_ne!(welcomed(&said).0, secret);
        assert_eq!(call(&end, 0, procedure("add"), &[1, 2]), DONE);
    }
    // Its own, among others. The second socket is closed.
    let socket = connect(scene.name());
    let (said, files) = answer(&socket, &hello_of(&[1, secret, 2], false)).expect("an answer");
    let (place, row) = joined(&said);
    assert_eq!((place, row.index(), files.len()), (1, 1, 0));
    until_gone(&socket);
    first.post(&over(row, 9));
    assert_eq!((outcome(&first, 9), call(&first, 9, procedure("add"), &[1, 2])), (DONE, DONE));
    // A row of one connection means nothing over another.
    let (other, _) = import_by(scene.name(), &hello_of(&[], false));
    other.post(&over(row, 9));
    assert_eq!(outcome(&other, 9), NO_BINDING);
    // After the release the tag is stale, also when the row is used again.
    release(&first, row);
    until("the release", || {
        first.post(&over(row, 9));
        (outcome(&first, 9) == NO_BINDING).then_some(())
    });
    let (said, _) = answer(&connect(scene.name()), &hello_of(&[secret], false)).expect("an answer");
    let (_, again) = joined(&said);
    assert_eq!((again.index(), again.generation()), (row.index(), row.generation() + 1));
    for (tag, what) in [(row, NO_BINDING), (again, DONE)] {
        first.post(&over(tag, 9));
        assert_eq!(outcome(&first, 9), what);
    }
    // A secret of a connection that has ended leads to a new one.
    drop(first);
    until("the end", || {
        let socket = connect(scene.name());
        let (said, _) = answer(&socket, &hello_of(&[secret], false)).expect("an answer");
        (said[16] == 0).then_some(())
    });
    drop(other);
    scene.is_unharmed();
}

#[test]
fn a_hello_shows_a_few_secrets_at_most() {
    let _watchdog = Watchdog::new("a_hello_shows_a_few_secrets_at_most");
    let scene = Scene::new("many-secrets");
    let socket = connect(scene.name());
    let (said, files) = answer(&socket, &hello_of(&[7; 5], false)).expect("an answer");
    assert_eq!((said[16], files.len()), (3, 0), "it is refused");
    until("the server to hang up", || gone(&socket).then_some(()));
    scene.is_unharmed();
}
