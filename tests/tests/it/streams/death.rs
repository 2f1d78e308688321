//! What the ends of streams learn when a process dies or stops.

use super::process;
use super::served;
use std::time::Duration;
use underpass::Server;
use underpass::stream::{StreamError, StreamOptions, StreamSendError};
use underpass_tests::{Ending, Room, Row, Rows, RowsClient, Table, Watchdog, cont, stop, until};

#[test]
fn what_a_dead_writer_had_sent_comes_before_its_death() {
    let _watchdog = Watchdog::new("what_a_dead_writer_had_sent_comes_before_its_death");
    let mut served = served("dead-writer");
    let mut rows = served.table.rows(300, 100, Ending::Hold).unwrap();
    until("all rows", || (rows.queued() == 300).then_some(()));
    served.server.kill();
    for id in 0..300 {
        assert_eq!(rows.recv(), Ok(Some(Row::new(id, 100))));
    }
    assert_eq!((rows.recv(), rows.recv()), (Err(StreamError::PeerDied), Ok(None)));
}

#[test]
fn a_reader_that_waits_hears_of_its_writers_death() {
    let _watchdog = Watchdog::new("a_reader_that_waits_hears_of_its_writers_death");
    let mut served = served("dead-silent-writer");
    let rows = served.table.rows(1, 100, Ending::Hold).unwrap();
    let reads = underpass::thread::spawn(move || {
        rows.into_iter().map(|row| row.map(|row| row.id)).collect::<Vec<_>>()
    });
    served.server.kill();
    let read = reads.join().unwrap();
    assert_eq!(read.last(), Some(&Err(StreamError::PeerDied)), "{read:?}");
}

#[test]
fn a_writer_hears_of_its_readers_death() {
    let _watchdog = Watchdog::new("a_writer_hears_of_its_readers_death");
    let mut served = served("dead-reader");
    let (sender, rows) = StreamOptions::new().items(4).open().unwrap();
    served.table.keep(rows).unwrap();
    (0..4).for_each(|id| sender.send(&Row::new(id, 8)).unwrap());
    // It waits for credit, or is about to.
    let sends = underpass::thread::spawn(move || sender.send(&Row::new(4, 8)));
    served.server.kill();
    assert_eq!(sends.join().unwrap(), Err(StreamSendError::PeerDied));
}

#[test]
fn a_server_hears_of_its_clients_death() {
    let _watchdog = Watchdog::new("a_server_hears_of_its_clients_death");
    Room::directory();
    let name = Room::name("dead-client");
    let _running = Server::new().export(&*name, Rows::serve(Table::default())).start().unwrap();
    let own = RowsClient::import(&name).unwrap();
    let mut client = process::client(&name, None);
    assert_eq!(client.ask("read 10"), "read 10");
    assert_eq!(client.ask("keep 10"), "sent 10");
    own.read_kept().unwrap();
    client.kill();
    let reports = until("the reports", || Some(own.reports().unwrap()).filter(|reports| reports.len() == 2));
    // The binding ends at about the same time.
    let is_end = |report: &str| ["PeerDied", "BindingEnded"].iter().any(|end| report.contains(end));
    assert!(reports.iter().all(|report| is_end(report)), "{reports:?}");
    assert!(reports.iter().any(|report| report.starts_with("Summed { rows: 10, ids: 45")), "{reports:?}");
    let _ = std::fs::remove_file(Room::directory().join(&name));
}

#[test]
fn a_stopped_process_holds_up_only_its_own_streams() {
    let _watchdog = Watchdog::new("a_stopped_process_holds_up_only_its_own_streams");
    let (stopped, other) = (served("stopped"), served("not-stopped"));
    let mut rows = stopped.table.rows(5_000, 100, Ending::Finish).unwrap();
    let (sender, kept) = StreamOptions::new().items(4).open().unwrap();
    stopped.table.keep(kept).unwrap();
    stop(stopped.server.pid());
    // All that was sent before, and no more.
    let mut came = 0;
    while rows.recv_timeout(Duration::from_millis(5)) != Err(StreamError::Timeout) {
        came += 1;
    }
    (0..4).for_each(|id| sender.send(&Row::new(id, 8)).unwrap());
    let late = sender.send_timeout(&Row::new(4, 8), Duration::from_millis(5));
    assert_eq!((late, sender.ended()), (Err(StreamSendError::Timeout), None));
    // Other servers' streams go on.
    let rows_of_other = other.table.rows(5_000, 100, Ending::Finish).unwrap();
    assert_eq!(rows_of_other.into_iter().filter(|row| row.is_ok()).count(), 5_000);
    cont(stopped.server.pid());
    assert_eq!(came + rows.into_iter().filter(|row| row.is_ok()).count(), 5_000);
    stopped.table.read_kept().unwrap();
    sender.send(&Row::new(4, 8)).unwrap();
}

#[test]
fn writers_are_killed_at_any_moment() {
    let _watchdog = Watchdog::new("writers_are_killed_at_any_moment");
    for round in 0..20 {
        let mut served = served("any-moment");
        let rows = served.table.rows(u64::MAX, 50, Ending::Finish).unwrap();
        let mut next = 0;
        for row in rows {
            match row {
                Ok(row) => {
                    assert_eq!(row, Row::new(next, 50));
                    next += 1;
                    if next == 500 * (round + 1) {
                        served.server.kill();
                    }
                }
                Err(why) => assert_eq!(why, StreamError::PeerDied),
            }
        }
        assert!(next >= 500 * (round + 1));
    }
}
