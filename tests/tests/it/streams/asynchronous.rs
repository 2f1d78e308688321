//! Streams in async code: under tokio on one thread, and under smol.

use super::served;
use futures_core::Stream as _;
use std::future::poll_fn;
use std::pin::Pin;
use underpass::stream::{Stream, StreamError, StreamOptions, StreamSendError};
use underpass_tests::{Ending, Row, Rows, Summed, Torn, Watchdog};

/// The next item of `stream`.
async fn next(stream: &mut Stream<Row, Torn>) -> Option<Result<Row, StreamError<Torn>>> {
    poll_fn(|task| Pin::new(&mut *stream).poll_next(task)).await
}

/// Reads a stream and writes one, at once, on one kernel thread.
async fn both(served: &super::Served) {
    const ROWS: u64 = 20_000;
    let mut rows = served.table.rows(ROWS, 100, Ending::Fail).unwrap();
    let (sender, kept) = StreamOptions::new().items(16).open().unwrap();
    served.table.keep(kept).unwrap();
    served.table.read_kept().unwrap();
    let reads = async {
        for id in 0..ROWS {
            assert_eq!(next(&mut rows).await, Some(Ok(Row::new(id, 100))));
        }
        assert_eq!(next(&mut rows).await, Some(Err(StreamError::Failed(Torn { at: ROWS }))));
        assert_eq!(next(&mut rows).await, None);
    };
    let writes = async {
        for id in 0..ROWS {
            sender.send_async(&Row::new(id, 20)).await.unwrap();
        }
        sender.finish();
    };
    smol::future::zip(reads, writes).await;
    let summed = Summed { rows: ROWS, ids: ROWS * (ROWS - 1) / 2, error: None };
    let reports = served.reports(2);
    assert!(reports.contains(&format!("{summed:?}")), "{reports:?}");
}

#[test]
fn a_task_reads_and_writes_under_tokio() {
    let _watchdog = Watchdog::new("a_task_reads_and_writes_under_tokio");
    let served = served("tokio");
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(both(&served));
}

#[test]
fn a_task_reads_and_writes_under_smol() {
    let _watchdog = Watchdog::new("a_task_reads_and_writes_under_smol");
    let served = served("smol");
    smol::block_on(both(&served));
}

#[test]
fn a_task_hears_of_deaths() {
    let _watchdog = Watchdog::new("a_task_hears_of_deaths");
    let mut served = served("async-death");
    let mut rows = served.table.rows(0, 8, Ending::Hold).unwrap();
    let (sender, kept) = StreamOptions::new().items(1).open().unwrap();
    served.table.keep(kept).unwrap();
    sender.send(&Row::new(0, 8)).unwrap();
    let row = Row::new(1, 8);
    let both = async {
        let kills = async {
            // Both wait by now, or are about to.
            smol::future::yield_now().await;
            served.server.kill();
        };
        let (read, (sent, ())) =
            smol::future::zip(next(&mut rows), smol::future::zip(sender.send_async(&row), kills)).await;
        assert_eq!((read, sent), (Some(Err(StreamError::PeerDied)), Err(StreamSendError::PeerDied)));
    };
    smol::block_on(both);
}
