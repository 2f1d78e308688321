//! `streams`: rows of 100 bytes over a stream, beside messages of the same size over a port, and
//! beside calls that return one row each.

use crate::calls::{self, Calls};
use crate::catalogue::{Benchmark, Scenario};
use crate::measure::in_process::InProcess;
use crate::processes::client::ScenarioClient;
use crate::processes::role::ChildRole;
use crate::{BenchError, Figures, Pinning};
use std::hint::black_box;
use std::time::Duration;
use underpass::port::{Arrival, PortOptions, PortSender};
use underpass::stream::{Stream, StreamOptions};
use underpass::{CallError, Server, thread};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "streams",
    about: "rows of 100 B over a stream, beside an asynchronous port and calls of one row",
    scenarios: &[
        Scenario {
            name: "pinned",
            cases: &["rows/pinned"],
            pinning: Pinning::Apart,
            client: |client| measure(client, "rows/pinned"),
            server,
        },
        Scenario {
            name: "one-cpu",
            cases: &["rows/one-cpu"],
            pinning: Pinning::Together,
            client: |client| measure(client, "rows/one-cpu"),
            server,
        },
    ],
};

/// Bytes of a row, and items of credit for both ways.
const BYTES: usize = 100;
const CREDIT: usize = 1_024;

/// A row takes no more than that times what a message of a port takes.
const OF_PORT: f64 = 1.25;
/// A call of one row takes at least that times what a row of a stream takes.
const OF_CALL: f64 = 5.0;

/// The names of the table, and of the port that the client owns.
const TABLE: &str = "rows";
const PORT: &str = "messages";

/// How long the other side may take to start.
const APPEAR: Duration = Duration::from_secs(10);

type Row = [u8; BYTES];

/// The interface that the client calls.
#[underpass::interface]
pub(crate) trait RowTable {
    /// Rows without an end.
    fn rows(&self) -> Result<Stream<Row>, CallError>;
    /// One row.
    fn row(&self) -> Result<Row, CallError>;
    /// Sends to the client's port without an end.
    fn send_to_port(&self) -> Result<(), CallError>;
}

struct Zeros;

impl RowTable for Zeros {
    fn rows(&self) -> Result<Stream<Row>, CallError> {
        let (sender, stream) = StreamOptions::new().items(CREDIT).open()?;
        drop(thread::spawn(move || while sender.send(black_box(&[7; BYTES])).is_ok() {}));
        Ok(stream)
    }

    fn row(&self) -> Result<Row, CallError> {
        Ok([7; BYTES])
    }

    fn send_to_port(&self) -> Result<(), CallError> {
        drop(thread::spawn(|| {
            let sender = PortSender::<Row>::connect_within(PORT, APPEAR).expect("the client owns it");
            while sender.send(black_box(&[7; BYTES])).is_ok() {}
        }));
        Ok(())
    }
}

fn server(_: &ChildRole) -> Result<(), BenchError> {
    Ok(calls::exporting(calls::NAME).export(TABLE, RowTable::serve(Zeros)).run()?)
}

fn measure(client: &ScenarioClient, case: &str) -> Result<(), BenchError> {
    let probe = calls::import()?;
    let table = RowTableClient::import_within(TABLE, APPEAR)?;
    let (service, receiver) = PortOptions::new().messages(CREDIT).open::<Row>()?;
    let _running = Server::new().export(PORT, service).start()?;
    table.send_to_port()?;
    let mut rows = table.rows()?;
    client.settle()?;
    let mut messages = InProcess::new("port", 1, |_| match receiver.recv() {
        Ok(Arrival::Message(came)) => _ = black_box(came.message),
        other => panic!("the server sends without an end: {other:?}"),
    });
    let mut items = InProcess::new("stream", 1, |_| match rows.recv() {
        Ok(Some(row)) => _ = black_box(row),
        other => panic!("the stream has no end: {other:?}"),
    });
    let calling = table.clone();
    let mut call = Calls::new("call", 1, move || calling.row().map(|row| _ = black_box(row))).counted(&probe);
    let contest = client.contest(&mut [&mut messages, &mut items, &mut call], 0, 1)?;
    let figures = Figures::of(&contest, 1, 0);
    let (within, faster) = (figures.ratio <= OF_PORT, contest.ratios(2, 1).median());
    let figures = figures
        .with("call_ns", contest.measured[2].slices().median())
        .with("call_ratio", faster)
        .judged("bar_port", OF_PORT, within)
        .judged("bar_call", OF_CALL, faster >= OF_CALL);
    client.report(case, figures)
}
