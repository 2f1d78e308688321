//! What comes over a stream, in which order, and what its reader and its writer wait for.

use super::process;
use super::served;
use std::time::{Duration, Instant};
use underpass::stream::{StreamError, StreamOptions, StreamSendError};
use underpass::{CallError, thread};
use underpass_tests::{Ending, Room, Row, Rows, Summed, Watchdog, until};

const ROWS: u64 = 200_000;

/// What `count` rows sum up to.
fn sum_of(count: u64) -> Summed {
    Summed { rows: count, ids: count * (count - 1) / 2, error: None }
}

#[test]
fn all_rows_of_a_result_come_in_order() {
    let _watchdog = Watchdog::new("all_rows_of_a_result_come_in_order");
    let served = served("result");
    let mut next = 0;
    for row in served.table.rows(ROWS, 100, Ending::Finish).unwrap() {
        assert_eq!(row.unwrap(), Row::new(next, 100));
        next += 1;
    }
    assert_eq!((next, served.reports(1)), (ROWS, vec!["written".to_owned()]));
}

#[test]
fn all_rows_of_an_argument_come() {
    let _watchdog = Watchdog::new("all_rows_of_an_argument_come");
    let served = served("argument");
    let (sender, rows) = StreamOptions::new().open().unwrap();
    let sends = thread::spawn(move || {
        (0..ROWS).for_each(|id| sender.send(&Row::new(id, 100)).unwrap());
        sender.finish();
    });
    assert_eq!(served.table.sum(rows).unwrap(), sum_of(ROWS));
    sends.join().unwrap();
}

#[test]
fn one_call_has_streams_in_both_directions_at_once() {
    let _watchdog = Watchdog::new("one_call_has_streams_in_both_directions_at_once");
    let served = served("both");
    let (sender, rows) = StreamOptions::new().items(4).open().unwrap();
    let mut twice = served.table.double(rows).unwrap();
    // The answer to each row comes before the next row is sent.
    for id in 0..1_000 {
        sender.send(&Row::new(id, 20)).unwrap();
        assert_eq!(twice.recv().unwrap().map(|row| row.id), Some(2 * id));
    }
    // And now both run on by themselves.
    let sends = thread::spawn(move || {
        (0..20_000).for_each(|id| sender.send(&Row::new(id, 20)).unwrap());
        sender.finish();
    });
    let ids: Vec<_> = twice.into_iter().map(|row| row.unwrap().id).collect();
    assert!(ids.len() == 20_000 && ids.iter().enumerate().all(|(at, &id)| id == 2 * at as u64));
    sends.join().unwrap();
}

#[test]
fn a_slow_reader_holds_up_nobody_else() {
    let _watchdog = Watchdog::new("a_slow_reader_holds_up_nobody_else");
    let served = served("slow");
    // Nobody reads these, so their writers wait.
    let slow: Vec<_> = (0..10).map(|_| served.table.rows(ROWS, 100, Ending::Finish).unwrap()).collect();
    until("writers without credit", || slow.iter().all(|rows| rows.queued() == 1024).then_some(()));
    for id in 0..100 {
        assert_eq!(served.table.row(id, 8).unwrap(), Row::new(id, 8));
    }
    let other = served.table.rows(20_000, 100, Ending::Finish).unwrap();
    assert_eq!(other.into_iter().filter(|row| row.is_ok()).count(), 20_000);
    // None is lost.
    for rows in slow.into_iter().take(2) {
        assert_eq!(rows.into_iter().filter(|row| row.is_ok()).count() as u64, ROWS);
    }
}

#[test]
fn credits_count_items_and_bytes() {
    let _watchdog = Watchdog::new("credits_count_items_and_bytes");
    let (sender, mut rows) = StreamOptions::new().items(3).open::<u64>().unwrap();
    (0..3).for_each(|id| sender.try_send(&id).unwrap());
    assert_eq!(sender.try_send(&3), Err(StreamSendError::Full));
    assert_eq!(rows.recv(), Ok(Some(0)));
    sender.try_send(&3).unwrap();
    assert_eq!((sender.queued(), rows.queued()), (3, 3));

    let (sender, mut rows) = StreamOptions::new().longest(1_000).bytes(4_096).open::<Vec<u8>>().unwrap();
    let sent = until("a stream without credit", || sender.try_send(&vec![7; 900]).err());
    assert_eq!((sent, sender.queued()), (StreamSendError::Full, 4));
    // A short one has room still.
    sender.try_send(&vec![8; 100]).unwrap();
    assert_eq!(rows.recv(), Ok(Some(vec![7; 900])));
    sender.try_send(&vec![9; 900]).unwrap();
    assert_eq!(sender.try_send(&vec![0; 1_001]), Err(StreamSendError::TooLong));
}

#[test]
fn waits_end_at_deadlines() {
    let _watchdog = Watchdog::new("waits_end_at_deadlines");
    let served = served("deadlines");
    let soon = || Instant::now() + Duration::from_millis(5);
    let mut rows = served.table.rows(1, 8, Ending::Hold).unwrap();
    assert_eq!(rows.recv().unwrap().map(|row| row.id), Some(0));
    // A limit of one wait costs nothing.
    assert_eq!(rows.recv_timeout(Duration::from_millis(5)), Err(StreamError::Timeout));
    assert_eq!(rows.recv_timeout(Duration::ZERO), Err(StreamError::Timeout));
    assert_eq!(served.table.reports().unwrap(), [""; 0]);
    // At the stream's own deadline it ends.
    let mut rows = rows.with_deadline(soon());
    assert_eq!((rows.recv(), rows.recv()), (Err(StreamError::Timeout), Ok(None)));
    assert_eq!(served.reports(1), ["ReaderDropped"]);

    let (sender, kept) = StreamOptions::new().items(1).open().unwrap();
    served.table.keep(kept).unwrap();
    sender.send(&Row::new(0, 8)).unwrap();
    let late = sender.send_timeout(&Row::new(1, 8), Duration::from_millis(5));
    assert_eq!(late, Err(StreamSendError::Timeout));
    let sender = sender.with_deadline(soon());
    assert_eq!(sender.send(&Row::new(1, 8)), Err(StreamSendError::Timeout));
    served.table.read_kept().unwrap();
    sender.with_deadline(Instant::now() + Duration::from_secs(60)).send(&Row::new(1, 8)).unwrap();
    assert_eq!(
        served.reports(2)[1],
        format!("{:?}", Summed { rows: 2, ids: 1, error: Some("Abandoned".to_owned()) })
    );
}

#[test]
fn items_with_open_files_are_refused() {
    let _watchdog = Watchdog::new("items_with_open_files_are_refused");
    assert_eq!(served("files").table.files().unwrap(), "Err(TooLong)");
}

#[test]
fn the_streams_of_a_user_take_a_bounded_memory() {
    let _watchdog = Watchdog::new("the_streams_of_a_user_take_a_bounded_memory");
    let served = served("memory");
    let large = || served.table.large(32 << 20);
    let mut kept: Vec<_> = (0..7).map(|_| large().unwrap()).collect();
    let full = large().unwrap_err();
    assert!(
        matches!(&full, CallError::NoResources(_, why) if why.contains("memory as they may")),
        "{full:?}"
    );
    let too_large = served.table.large(64 << 20).unwrap_err();
    assert!(matches!(too_large, CallError::NoResources(..)), "{too_large:?}");
    // One that is dropped makes room for another.
    drop(kept.pop());
    until("room for one more", || large().ok());
}

#[test]
fn both_sides_share_one_cpu() {
    let _watchdog = Watchdog::new("both_sides_share_one_cpu");
    Room::directory();
    let name = Room::name("one-cpu-stream");
    let _server = process::serve(&name, Some(0));
    let mut client = process::client(&name, Some(0));
    assert_eq!(client.ask("all 10000"), "read 10000, sent 10000, 10000");
    let _ = std::fs::remove_file(Room::directory().join(&name));
}
