//! Streams of interfaces across machines: what they carry, how they end, and what they wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use underpass::stream::{StreamError, StreamOptions, StreamSendError};
use underpass::{CallError, Outcome, Sealed};
use underpass_grpc::remote::Remote;
use underpass_test_grpc::{RemoteProcess, Rows, RowsClient, RowsServer, sending};
use underpass_tests::{Watchdog, until};

const BINARY: &str = env!("CARGO_BIN_EXE_underpass-test-grpc");

/// More than any test takes.
const SOON: Duration = Duration::from_secs(120);

fn sealed(text: &str) -> Sealed {
    Sealed::new(text.as_bytes()).unwrap()
}

#[test]
fn items_go_in_each_direction() {
    let _watchdog = Watchdog::new("items_go_in_each_direction");
    for asynchronous in [false, true] {
        let RowsServer { rows, .. } = &RowsServer::start(asynchronous);
        let count: Vec<u32> = rows.count(5_000).unwrap().into_iter().map(Result::unwrap).collect();
        assert!(count.into_iter().eq(0..5_000));
        assert_eq!(rows.count(0).unwrap().recv(), Ok(None));

        let (numbers, sent) = sending(0..5_000);
        assert_eq!(rows.sum(sealed("four"), numbers), Ok((12_497_504, "Ok(())".to_owned())));
        assert_eq!(sent.recv().unwrap(), Ok(()));

        let (numbers, sent) = sending(0..5_000);
        let doubled = rows.double(numbers).unwrap().into_iter().map(Result::unwrap);
        assert!(doubled.eq((0..5_000).map(|n| 2 * n)));
        assert_eq!(sent.recv().unwrap(), Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_call_too() {
    use tokio_stream::StreamExt;
    let _watchdog = Watchdog::new("tasks_call_too");
    let here = tokio::task::spawn_blocking(|| RowsServer::start(false)).await.unwrap();
    let rows = &here.rows;
    let (sender, numbers) = StreamOptions::new().open::<u32>().unwrap();
    let mut doubled = rows.double_async(numbers).await.unwrap();
    // Each item goes there and back before the next.
    for n in 0..300 {
        sender.send_async(&n).await.unwrap();
        assert_eq!(doubled.next().await, Some(Ok(2 * n)));
    }
    sender.finish();
    assert_eq!(doubled.next().await, None);
}

#[test]
fn each_end_is_told() {
    let _watchdog = Watchdog::new("each_end_is_told");
    for asynchronous in [false, true] {
        let RowsServer { rows, .. } = &RowsServer::start(asynchronous);
        let mut failed = rows.fail("why").unwrap();
        assert_eq!((failed.recv(), failed.recv()), (Ok(Some(1)), Err(StreamError::Failed("why".to_owned()))));
        let mut abandoned = rows.abandon().unwrap();
        assert_eq!((abandoned.recv(), abandoned.recv()), (Ok(Some(1)), Err(StreamError::Abandoned)));

        let (sender, numbers) = StreamOptions::new().open::<u32>().unwrap();
        sender.send(&7).unwrap();
        drop(sender);
        assert_eq!(rows.sum(sealed(""), numbers), Ok((7, "Err(Abandoned)".to_owned())));

        let (sender, numbers) = StreamOptions::new().open::<u32>().unwrap();
        sender.fail(&"mine".to_owned()).unwrap();
        assert_eq!(rows.sum(sealed(""), numbers), Ok((0, "Err(Failed(\"mine\"))".to_owned())));
    }
}

#[test]
fn a_reader_that_is_dropped_ends_its_writer() {
    let _watchdog = Watchdog::new("a_reader_that_is_dropped_ends_its_writer");
    for asynchronous in [false, true] {
        let RowsServer { rows, .. } = &RowsServer::start(asynchronous);
        let mut endless = rows.endless().unwrap();
        assert_eq!((endless.recv(), endless.recv()), (Ok(Some(0)), Ok(Some(1))));
        drop(endless);
        let ended = vec!["Err(ReaderDropped)".to_owned()];
        until("the handler's end", || (rows.ends().unwrap() == ended).then_some(()));

        // The handler drops its stream, and answers by another one, which goes on.
        let (numbers, sent) = sending(5..);
        let (first, mut more) = rows.first(numbers).unwrap();
        assert_eq!((first, more.recv()), (5, Ok(Some(0))));
        assert_eq!(sent.recv().unwrap(), Err(StreamSendError::ReaderDropped));
        drop(more);

        // The result is dropped, and the arguments go on until their writer learns of it.
        let (numbers, sent) = sending(0..);
        drop(rows.double(numbers).unwrap());
        assert_eq!(sent.recv().unwrap(), Err(StreamSendError::ReaderDropped));
        until("the handlers' ends", || {
            let ends = rows.ends().unwrap();
            (ends.len() == 3)
                .then(|| assert!(ends.iter().all(|end| end.contains("ReaderDropped")), "{ends:?}"))
        });
    }
}

#[test]
fn a_call_that_fails_ends_its_stream() {
    let _watchdog = Watchdog::new("a_call_that_fails_ends_its_stream");
    for asynchronous in [false, true] {
        let RowsServer { rows, .. } = &RowsServer::start(asynchronous);
        let (numbers, sent) = sending(0..);
        assert_eq!(rows.refuse(numbers).map(drop), Err(CallError::Deadlock));
        assert_eq!(sent.recv().unwrap(), Err(StreamSendError::ReaderDropped));
        // The handler waits for numbers, and none comes in time.
        let (sender, numbers) = StreamOptions::new().open::<u32>().unwrap();
        let hasty = rows.with_deadline(Duration::from_millis(20));
        assert!(matches!(hasty.sum(sealed(""), numbers), Err(CallError::Deadline(_))));
        until("the end", || sender.ended());
    }
}

#[test]
fn a_reader_that_stops_holds_up_nobody_else() {
    let _watchdog = Watchdog::new("a_reader_that_stops_holds_up_nobody_else");
    let RowsServer { rows, .. } = &RowsServer::start(false);
    let mut stopped: Vec<_> = (0..3).map(|_| rows.endless().unwrap()).collect();
    assert!(stopped.iter_mut().all(|stream| stream.recv() == Ok(Some(0))));
    // Their writers wait for credit by now, or will.
    for _ in 0..3 {
        assert_eq!(rows.count(5000).unwrap().into_iter().filter(Result::is_ok).count(), 5000);
    }
    assert!(stopped.iter_mut().all(|stream| stream.recv() == Ok(Some(1))), "they go on");
    assert_eq!(rows.ends(), Ok(vec![]));
}

#[test]
fn a_writer_waits_for_its_reader() {
    let _watchdog = Watchdog::new("a_writer_waits_for_its_reader");
    let RowsServer { rows, .. } = &RowsServer::start(false);
    let sent = Arc::new(AtomicU32::new(0));
    let counts = sent.clone();
    let (numbers, _) = sending((0..).inspect(move |&n| counts.store(n, Ordering::SeqCst)));
    let mut doubled = rows.double(numbers).unwrap();
    // Nobody reads, so the writer stops: as many numbers as all buffers between have room for.
    let mut before = 0;
    until("the writer's wait", || {
        std::thread::sleep(Duration::from_millis(200));
        let now = sent.load(Ordering::SeqCst);
        (std::mem::replace(&mut before, now) == now && now > 0).then_some(())
    });
    assert!(before < 10_000_000, "{before}");
    assert!((0..before.min(5000)).all(|n| doubled.recv() == Ok(Some(2 * n))), "nothing is lost");
}

#[test]
fn several_streams_of_one_value_are_refused() {
    let _watchdog = Watchdog::new("several_streams_of_one_value_are_refused");
    let RowsServer { rows, .. } = &RowsServer::start(false);
    let why = rows.many(2).unwrap_err();
    assert!(
        matches!(&why, CallError::NoResources(Outcome::Executed, why) if why.contains("more than one")),
        "{why}"
    );
    assert_eq!(rows.many(0).unwrap().len(), 0);
    let mut one = rows.many(1).unwrap();
    assert_eq!(one[0].iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn items_longer_than_messages_may_be_are_refused() {
    let _watchdog = Watchdog::new("items_longer_than_messages_may_be_are_refused");
    let RowsServer { rows, .. } = &RowsServer::start(false);
    let (_sender, numbers) = StreamOptions::new().longest(5 << 20).bytes(16 << 20).open::<u32>().unwrap();
    let why = rows.double(numbers).unwrap_err();
    assert!(
        matches!(&why, CallError::NoResources(Outcome::NotStarted, why) if why.contains("longest")),
        "{why}"
    );
}

#[test]
fn streams_hear_of_their_servers_death() {
    let _watchdog = Watchdog::new("streams_hear_of_their_servers_death");
    let mut server = RemoteProcess::start(BINARY);
    let rows = RowsClient::import_by(&Remote::new(), &server.address("rows"), SOON).unwrap();
    let mut endless = rows.endless().unwrap();
    assert_eq!(endless.recv(), Ok(Some(0)));
    let (sender, numbers) = StreamOptions::new().open::<u32>().unwrap();
    sender.send(&1).unwrap();
    let mut doubled = rows.double(numbers).unwrap();
    assert_eq!(doubled.recv(), Ok(Some(2)));
    server.kill();
    let end = endless.into_iter().find_map(Result::err);
    assert_eq!(end, Some(StreamError::PeerDied));
    assert_eq!(doubled.recv(), Err(StreamError::PeerDied));
    assert_eq!(until("the death", || sender.ended()), StreamSendError::PeerDied);
    assert!(matches!(rows.count(1), Err(CallError::PeerDied(_))));
}

#[test]
fn handlers_hear_of_their_clients_death() {
    let _watchdog = Watchdog::new("handlers_hear_of_their_clients_death");
    let RowsServer { rows, address, .. } = &RowsServer::start(false);
    let mut client = std::process::Command::new(BINARY)
        .args(["stream", address.as_str()])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = client.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    assert_eq!(line, "2\n", "the client has a stream in each direction");
    client.kill().unwrap();
    client.wait().unwrap();
    let ends = until("the handler's end", || Some(rows.ends().unwrap()).filter(|ends| !ends.is_empty()));
    // The call's binding ends too, and the handler may send before it reads.
    assert!(["PeerDied", "BindingEnded"].contains(&&*ends[0]), "{ends:?}");
}
