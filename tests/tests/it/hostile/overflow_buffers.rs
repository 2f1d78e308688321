//! Clients that lie about overflow buffers, or damage them while the server reads.

use crate::hostile::clients::{Scene, call, outcome};
use crate::hostile::end::procedure;
use crate::hostile::end::{BAD_ARGUMENTS, DONE, End, ROW, payload_file};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use underpass_channel::layout::{OVERFLOW_SIZES, SLOTS};
use underpass_channel::{Cell, OverflowBuffer, PayloadPlace};
use underpass_os::Memory;
use underpass_tests::{Watchdog, until};
use underpass_wire::{Sink, to_bytes};

/// Announces that the next message over `slot` consists of the first `length` bytes of `file`,
/// which becomes overflow buffer `number` of that slot.
fn announce(end: &End, slot: u16, number: u16, length: u64, files: &[BorrowedFd<'_>]) {
    let mut said = crate::hostile::end::announcement(slot, length);
    said[1] = 3;
    said[6..8].copy_from_slice(&number.to_le_bytes());
    end.say(&said, files);
}

/// Offers `file` as an overflow buffer of `slot`, for results.
fn offer(end: &End, slot: u16, number: u16, files: &[BorrowedFd<'_>]) {
    let mut said = crate::hostile::end::announcement(slot, 0);
    said[0] = 10;
    said[6..8].copy_from_slice(&number.to_le_bytes());
    end.say(&said, files);
}

fn in_overflow_buffer(slot: u16, what: u16, length: u32) -> Cell {
    Cell { place: PayloadPlace::OverflowBuffer, length, ..Cell::request(slot, what, ROW) }
}

fn aside(end: &End, slot: u16) {
    end.post(&crate::hostile::end::out_of_band(slot, procedure("count")));
}

fn overflow_buffer() -> (OverflowBuffer, OwnedFd) {
    OverflowBuffer::create(1).unwrap().unwrap()
}

#[test]
fn a_file_that_is_no_overflow_buffer_is_not_mapped() {
    let _watchdog = Watchdog::new("a_file_that_is_no_overflow_buffer_is_not_mapped");
    let scene = Scene::new("no-overflow-buffer");
    // A file that is not memory; memory without seals, which could shrink under the server; a size
    // that no overflow buffer has.
    let null: OwnedFd = File::open("/dev/null").unwrap().into();
    let unsealed = payload_file(&vec![0; *OVERFLOW_SIZES.start()]);
    let (_odd, odd) = Memory::create("hostile", OVERFLOW_SIZES.start() + 4096).unwrap();
    let (_large, large) = Memory::create("hostile", 2 * OVERFLOW_SIZES.end()).unwrap();
    for file in [null.as_fd(), unsealed.as_fd(), odd.as_fd(), large.as_fd()] {
        scene.closes(|end| {
            announce(end, 0, 1, 10, &[file]);
            aside(end, 0);
        });
    }
    let (_, good) = overflow_buffer();
    // More bytes than it has; an invalid number; no file, and two files; a slot that does not
    // exist.
    scene.closes(|end| {
        announce(end, 0, 1, *OVERFLOW_SIZES.start() as u64 + 1, &[good.as_fd()]);
        aside(end, 0);
    });
    scene.closes(|end| announce(end, 0, 0, 10, &[good.as_fd()]));
    scene.closes(|end| announce(end, 0, 1, 10, &[]));
    scene.closes(|end| announce(end, 0, 1, 10, &[good.as_fd(); 2]));
    scene.closes(|end| announce(end, SLOTS as u16, 1, 10, &[good.as_fd()]));
    scene.closes(|end| offer(end, 0, 0, &[good.as_fd()]));
    scene.closes(|end| offer(end, 0, 1, &[]));
    scene.closes(|end| offer(end, 0, 1, &[good.as_fd(); 2]));
    scene.closes(|end| offer(end, SLOTS as u16, 1, &[good.as_fd()]));
    // A buffer that does not exist.
    scene.closes(|end| end.post(&in_overflow_buffer(0, procedure("count"), 10)));
    scene.closes(|end| {
        let mut said = crate::hostile::end::announcement(0, 10);
        said[1] = 2;
        end.say(&said, &[]);
        aside(end, 0);
    });
}

#[test]
fn an_overflow_buffer_that_changes_while_it_is_read_hurts_one_call_at_the_most() {
    let _watchdog = Watchdog::new("an_overflow_buffer_that_changes_while_it_is_read");
    let scene = Scene::new("changes");
    let end = scene.import();
    let (overflow_buffer, file) = overflow_buffer();
    let honest = to_bytes(&vec![7u8; 40_000]);
    overflow_buffer.sink().put(&honest);
    announce(&end, 0, 1, honest.len() as u64, &[file.as_fd()]);
    aside(&end, 0);
    assert_eq!(outcome(&end, 0), DONE);
    let count = procedure("count");
    for round in 0..300u32 {
        overflow_buffer.sink().put(&honest);
        end.post(&in_overflow_buffer(0, count, honest.len() as u32));
        // Lying lengths, and pages that are taken away, while the server reads.
        match round % 3 {
            0 => overflow_buffer.sink().put(&[255; 64]),
            1 => overflow_buffer.give_back(),
            _ => overflow_buffer.sink().put(&to_bytes(&vec![1u8; 39_999])),
        }
        let outcome = outcome(&end, 0);
        assert!(outcome == DONE || outcome == BAD_ARGUMENTS, "{outcome}");
    }
    // By the buffer word a client says that it has dropped the overflow buffer. A buffer that it
    // names afterwards does not exist.
    end.channel.set_mapped_overflow(0, 77);
    end.post(&in_overflow_buffer(0, count, honest.len() as u32));
    end.hung_up();
    drop((file, overflow_buffer));
    drop(end);
    scene.is_unharmed();
}

#[test]
fn overflow_buffers_that_nobody_asked_for_don_t_pile_up() {
    let _watchdog = Watchdog::new("overflow_buffers_that_nobody_asked_for_don_t_pile_up");
    let scene = Scene::new("offers");
    let end = scene.import();
    let (_overflow_buffer, file) = overflow_buffer();
    for round in 1..1000u16 {
        until("room in the socket", || {
            let mut said = [0; 16];
            (said[0], said[2]) = (10, (round % SLOTS as u16) as u8);
            said[6..8].copy_from_slice(&round.to_le_bytes());
            end.socket.send(&said, &[file.as_fd()]).ok()
        });
    }
    assert_eq!(call(&end, 0, procedure("add"), &[1, 2]), DONE);
    drop(end);
    scene.is_unharmed();
}

#[test]
fn pages_that_reading_holes_took_go_when_another_overflow_buffer_takes_its_place() {
    let _watchdog = Watchdog::new("pages_that_reading_holes_took_go");
    let scene = Scene::new("holes");
    let end = scene.import();
    // Everything except the length is a hole. The server's reading fills the holes, and would cost
    // the server memory for as long as the client keeps the file.
    let honest = to_bytes(&vec![0u8; 60_000]);
    let read = |number: u16| {
        let (overflow_buffer, file) = overflow_buffer();
        overflow_buffer.sink().put(&honest[..16]);
        let file = File::from(file);
        announce(&end, 0, number, honest.len() as u64, &[file.as_fd()]);
        aside(&end, 0);
        assert_eq!(outcome(&end, 0), DONE);
        (overflow_buffer, file)
    };
    let blocks = |(_, file): &(OverflowBuffer, File)| file.metadata().unwrap().blocks();
    let first = read(1);
    assert!(blocks(&first) * 512 >= 60_000, "the server has read them");
    let _second = read(2);
    until("the server to give the first one's back", || (blocks(&first) == 0).then_some(()));
    drop(end);
    scene.is_unharmed();
}
