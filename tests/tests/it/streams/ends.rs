//! How streams end while both domains live.

use super::process;
use super::served;
use underpass::stream::{StreamError, StreamOptions, StreamSendError};
use underpass::{Running, Server};
use underpass_tests::{Ending, Room, Row, Rows, Table, Torn, Watchdog, fds_of, until};

#[test]
fn the_end_is_told_from_errors() {
    let _watchdog = Watchdog::new("the_end_is_told_from_errors");
    let served = served("endings");
    let ends = [
        (Ending::Finish, None),
        (Ending::Fail, Some(StreamError::Failed(Torn { at: 2_000 }))),
        (Ending::Abandon, Some(StreamError::Abandoned)),
    ];
    for (ending, error) in ends {
        let mut rows = served.table.rows(2_000, 30, ending).unwrap();
        // What was sent before comes first, whatever the end.
        for id in 0..2_000 {
            assert_eq!(rows.recv().unwrap(), Some(Row::new(id, 30)), "{ending:?}");
        }
        assert_eq!(rows.recv(), error.map_or(Ok(None), Err));
        assert_eq!(rows.recv(), Ok(None), "there is nothing after the end");
    }
}

#[test]
fn items_may_be_errors_in_the_middle() {
    let _watchdog = Watchdog::new("items_may_be_errors_in_the_middle");
    let served = served("middle");
    let items = served.table.checked(7).unwrap();
    let items: Vec<_> = items.into_iter().map(Result::unwrap).collect();
    let no = |id| Err(format!("no {id}"));
    assert_eq!(items, [no(0), Ok(1), Ok(2), no(3), Ok(4), Ok(5), no(6)]);
}

#[test]
fn a_dropped_reader_cancels_its_writer() {
    let _watchdog = Watchdog::new("a_dropped_reader_cancels_its_writer");
    let served = served("dropped");
    // A writer that waits for credit.
    let mut rows = served.table.rows(u64::MAX, 100, Ending::Finish).unwrap();
    assert_eq!(rows.recv().unwrap(), Some(Row::new(0, 100)));
    until("a writer without credit", || (rows.queued() == 1_024).then_some(()));
    drop(rows);
    assert!(served.reports(1)[0].starts_with("ReaderDropped at 10"), "{:?}", served.reports(1));
    // One that sends nothing.
    let rows = served.table.rows(0, 100, Ending::Hold).unwrap();
    drop(rows);
    assert_eq!(served.reports(2)[1], "ReaderDropped");
    // A server that drops its argument.
    let (sender, rows) = StreamOptions::new().open().unwrap();
    served.table.keep(rows).unwrap();
    sender.send(&Row::new(0, 8)).unwrap();
    assert_eq!(sender.ended(), None);
    served.table.drop_kept().unwrap();
    let sent = until("the end", || sender.send(&Row::new(0, 8)).err());
    assert_eq!(
        (sent, sender.ended()),
        (StreamSendError::ReaderDropped, Some(StreamSendError::ReaderDropped))
    );
}

#[test]
fn streams_leave_no_files_behind() {
    let _watchdog = Watchdog::new("streams_leave_no_files_behind");
    let served = served("open-files");
    let pass = |times| {
        for _ in 0..times {
            let rows = served.table.rows(3, 8, Ending::Finish).unwrap();
            assert_eq!(rows.into_iter().filter(|row| row.is_ok()).count(), 3);
            let (sender, rows) = StreamOptions::new().open().unwrap();
            (0..3).for_each(|id| sender.send(&Row::new(id, 8)).unwrap());
            sender.finish();
            assert_eq!(served.table.sum(rows).unwrap().rows, 3);
        }
    };
    // The first ones open what stays.
    pass(3);
    let files = || fds_of(served.server.pid());
    let before = files();
    pass(100);
    until("the files to be closed", || (files() <= before).then_some(()));
}

#[test]
fn a_stream_that_nobody_takes_ends() {
    let _watchdog = Watchdog::new("a_stream_that_nobody_takes_ends");
    let (sender, rows) = StreamOptions::new().open::<u64>().unwrap();
    sender.send(&1).unwrap();
    drop(rows);
    let sent = until("the end", || sender.send(&1).err());
    assert_eq!(sent, StreamSendError::ReaderDropped);
}

/// A server in this process.
fn serve(of: &str) -> (Running, String) {
    Room::directory();
    let name = Room::name(of);
    (Server::new().export(&*name, Rows::serve(Table::default())).start().unwrap(), name)
}

#[test]
fn a_revoked_binding_ends_its_streams() {
    let _watchdog = Watchdog::new("a_revoked_binding_ends_its_streams");
    let (running, name) = serve("revoked");
    let own = underpass_tests::RowsClient::import(&name).unwrap();
    let [mut victim, mut other] = [(); 2].map(|()| process::client(&name, None));
    for client in [&mut victim, &mut other] {
        assert_eq!(client.ask("read 10"), "read 10");
        assert_eq!(client.ask("keep 10"), "sent 10");
    }
    own.read_kept().unwrap();
    let pid = victim.pid();
    assert_eq!(running.bindings().revoke(|binding| binding.peer().pid() == pid), 1);
    // The victim's ends.
    assert_eq!(victim.ask("more 100000"), "Err(BindingEnded)");
    assert_eq!(
        until("the end", || Some(victim.ask("send 1")).filter(|sent| sent != "sent 1")),
        "BindingEnded"
    );
    // The server's ends: the writer, and the reader.
    let reports = until("the reports", || Some(own.reports().unwrap()).filter(|reports| reports.len() == 2));
    // Row 0 of the last order may have been sent before the client heard of the end.
    let summed = "ids: 45, error: Some(\"BindingEnded\") }";
    assert!(reports.iter().any(|report| report.ends_with(summed)), "{reports:?}");
    assert!(reports.iter().any(|report| report.starts_with("BindingEnded at ")), "{reports:?}");
    // Those of other clients go on.
    assert_eq!(other.ask("more 100000"), "read 100000");
    assert_eq!(other.ask("send 10"), "sent 10");
    let _ = std::fs::remove_file(Room::directory().join(&name));
}

#[test]
fn streams_end_with_a_client_that_was_dropped() {
    let _watchdog = Watchdog::new("streams_end_with_a_client_that_was_dropped");
    let served = served("closed");
    let table = underpass_tests::RowsClient::import(&served.name).unwrap();
    let mut rows = table.rows(1, 8, Ending::Hold).unwrap();
    assert_eq!(rows.recv().unwrap(), Some(Row::new(0, 8)));
    drop(table);
    assert_eq!(rows.recv(), Err(StreamError::BindingEnded));
    assert_eq!(served.reports(1), ["BindingEnded"]);
}
