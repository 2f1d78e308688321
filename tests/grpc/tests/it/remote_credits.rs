//! Streams between machines whose readers stop: what still comes through, and what ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use underpass::stream::{Stream, StreamError, StreamOptions, StreamSendError};
use underpass::{CallError, Outcome, Sealed};
use underpass_grpc::remote::Remote;
use underpass_test_grpc::{RemoteProcess, Rows, RowsClient, RowsServer, sending};
use underpass_tests::{Watchdog, until};

const BINARY: &str = env!("CARGO_BIN_EXE_underpass-test-grpc");

/// More than any test takes.
const SOON: Duration = Duration::from_secs(120);

/// How the handlers' streams have ended, when `count` of them have.
fn ends(rows: &RowsClient, count: usize) -> Vec<String> {
    until("the handlers' ends", || Some(rows.ends().unwrap()).filter(|ends| ends.len() >= count))
}

#[test]
fn a_dropped_reader_is_told_past_unread_items() {
    let _watchdog = Watchdog::new("a_dropped_reader_is_told_past_unread_items");
    for asynchronous in [false, true] {
        let RowsServer { rows, .. } = &RowsServer::start(asynchronous);
        // The handler drops its stream, and nobody reads the other one.
        let (numbers, sent) = sending(5..);
        let (first, more) = rows.first(numbers).unwrap();
        assert_eq!((first, sent.recv().unwrap()), (5, Err(StreamSendError::ReaderDropped)));
        drop(more);
        assert_eq!(ends(rows, 1), ["Err(ReaderDropped)"]);

        // The client drops its stream, and the handler does not read the other one.
        let (numbers, sent) = sending(0..);
        let mut deaf = rows.deaf(numbers).unwrap();
        assert_eq!(deaf.recv(), Ok(Some(0)));
        drop(deaf);
        assert_eq!(ends(rows, 2)[1], "Err(ReaderDropped)");
        // The handler has dropped the other one afterwards.
        assert_eq!(sent.recv().unwrap(), Err(StreamSendError::ReaderDropped));
    }
}

#[test]
fn many_stopped_readers_hold_up_nobody_else() {
    let _watchdog = Watchdog::new("many_stopped_readers_hold_up_nobody_else");
    let RowsServer { rows, .. } = &RowsServer::start(false);
    let begin = |_| {
        let (numbers, sent) = sending(0..);
        let mut deaf = rows.deaf(numbers).unwrap();
        assert_eq!(deaf.recv(), Ok(Some(0)));
        (deaf, sent)
    };
    // Both directions of their connection are as full as they can get.
    let mut stopped: Vec<_> = (0..12).map(begin).collect();
    for _ in 0..3 {
        assert_eq!(rows.count(3000).unwrap().into_iter().filter(Result::is_ok).count(), 3000);
        let (numbers, _) = sending(0..3000);
        assert_eq!(rows.double(numbers).unwrap().into_iter().filter(Result::is_ok).count(), 3000);
    }
    for (deaf, sent) in &mut stopped {
        assert!((1..2000).all(|n| deaf.recv() == Ok(Some(n))), "it goes on, and nothing is lost");
        assert!(sent.try_recv().is_err(), "its writer waits");
    }
}

/// Shorter and longer than a message, and than all credit.
fn items_of_all_lengths() -> impl Iterator<Item = Vec<u8>> {
    let lengths = [0, 1, 500, 600, 20_000, 40_000, 70_000, 140_000, 300_000, 1_000_000];
    lengths.into_iter().cycle().take(60).zip(0u8..).map(|(length, n)| vec![n; length])
}

#[test]
fn items_of_all_lengths_come_to_a_slow_reader() {
    let _watchdog = Watchdog::new("items_of_all_lengths_come_to_a_slow_reader");
    let RowsServer { rows, .. } = &RowsServer::start(false);
    let (sender, numbers) = StreamOptions::new().longest(1 << 20).bytes(2 << 20).open::<Vec<u8>>().unwrap();
    let mut echo = rows.echo(numbers).unwrap();
    let sends = std::thread::spawn(move || {
        items_of_all_lengths().for_each(|item| sender.send(&item).unwrap());
        sender.finish();
    });
    for item in items_of_all_lengths() {
        // Other calls go on between two items.
        assert_eq!(rows.count(1).unwrap().recv(), Ok(Some(0)));
        assert!(echo.recv().unwrap() == Some(item));
    }
    assert_eq!(echo.recv(), Ok(None));
    sends.join().unwrap();
}

#[test]
fn a_dropped_writer_is_told_behind_its_items() {
    let _watchdog = Watchdog::new("a_dropped_writer_is_told_behind_its_items");
    let RowsServer { rows, .. } = &RowsServer::start(false);
    let (sender, numbers) = StreamOptions::new().longest(1 << 20).bytes(2 << 20).open::<Vec<u8>>().unwrap();
    let mut echo: Stream<Vec<u8>> = rows.echo(numbers).unwrap();
    let sends = std::thread::spawn(move || {
        (0..20u8).for_each(|n| sender.send(&vec![n; 100_000]).unwrap());
        drop(sender);
    });
    // Beyond the credit of both directions, so that it has waited for its reader.
    assert!((0..20u8).all(|n| echo.recv() == Ok(Some(vec![n; 100_000]))));
    sends.join().unwrap();
    // The handler finishes its own stream then.
    assert_eq!(echo.recv(), Ok(None));
}

#[test]
fn a_servers_death_ends_streams_that_nobody_reads() {
    let _watchdog = Watchdog::new("a_servers_death_ends_streams_that_nobody_reads");
    let mut server = RemoteProcess::start(BINARY);
    let rows = RowsClient::import_by(&Remote::new(), &server.address("rows"), SOON).unwrap();
    let (numbers, sent) = sending(0..);
    let mut deaf = rows.deaf(numbers).unwrap();
    assert_eq!(deaf.recv(), Ok(Some(0)));
    let mut endless = rows.endless().unwrap();
    assert_eq!(endless.recv(), Ok(Some(0)));
    // The result of this call comes after all numbers.
    let (tell, begun) = mpsc::channel();
    let (numbers, summed) = sending((0..).inspect(move |&n| {
        if n == 5000 {
            tell.send(()).unwrap();
        }
    }));
    let summing = rows.clone();
    let sum = std::thread::spawn(move || summing.sum(Sealed::new(b"").unwrap(), numbers));
    begun.recv().unwrap();
    server.kill();
    // The writers hear of it, though nobody reads what has come.
    assert_eq!(sent.recv().unwrap(), Err(StreamSendError::PeerDied));
    assert_eq!(deaf.into_iter().find_map(Result::err), Some(StreamError::PeerDied));
    assert_eq!(endless.into_iter().find_map(Result::err), Some(StreamError::PeerDied));
    assert_eq!(summed.recv().unwrap(), Err(StreamSendError::PeerDied));
    assert_eq!(sum.join().unwrap(), Err(CallError::PeerDied(Outcome::Unknown)));
}

/// A client process with a stream in each direction, which nobody reads.
fn unread(address: &str) -> Child {
    let mut client = Command::new(BINARY).args(["unread", address]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "0\n", "its call has begun");
    client
}

#[test]
fn a_clients_death_ends_streams_that_nobody_reads() {
    let _watchdog = Watchdog::new("a_clients_death_ends_streams_that_nobody_reads");
    let RowsServer { rows, address, .. } = &RowsServer::start(false);
    let mut clients: Vec<_> = (0..3).map(|_| unread(address)).collect();
    for client in &mut clients {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    for end in ends(rows, 3) {
        assert!(end == "Err(PeerDied)" || end == "Err(BindingEnded)", "{end}");
    }
    assert_eq!(rows.count(3).unwrap().into_iter().filter(Result::is_ok).count(), 3);
}
