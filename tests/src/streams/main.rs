//! A process with one end of streams.
//!
//! `underpass-test-stream NAME serve` exports a `Rows` as NAME.
//!
//! `underpass-test-stream NAME client` imports it, and takes orders from its standard input, one a
//! line. It answers each with a line:
//!
//! * `read COUNT`: asks for a stream of rows without an end, and reads COUNT of them.
//! * `more COUNT`: reads COUNT more.
//! * `keep COUNT`: passes a stream that the server keeps, and sends COUNT rows.
//! * `send COUNT`: sends COUNT more.
//! * `all COUNT`: reads a stream of COUNT rows to its end, and passes as many.
//!
//! With `$UNDERPASS_TEST_CPU` it uses that CPU only.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Duration;
use underpass::stream::{Stream, StreamOptions, StreamSender};
use underpass::{Server, thread};
use underpass_tests::{Ending, Row, Rows, RowsClient, Table, Torn};

const SOON: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    // It must not outlive its test.
    underpass_os::process::die_with_parent()?;
    if let Ok(cpu) = std::env::var("UNDERPASS_TEST_CPU") {
        underpass_os::cpu::confine(&[cpu.parse()?])?;
    }
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("name and role");
    let (name, role) = (next()?, next()?);
    match role.as_str() {
        "serve" => {
            let running = Server::new().export(&*name, Rows::serve(Table::default())).start()?;
            answer("ready")?;
            while order()?.is_some() {}
            drop(running);
            Ok(())
        }
        "client" => {
            // By a user-level thread, as programs do.
            let client = thread::spawn(move || client(&name).map_err(|e| e.to_string()));
            Ok(client.join().expect("it doesn't panic")?)
        }
        other => Err(format!("no role {other}").into()),
    }
}

fn answer(line: &str) -> std::io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// The next order, split at its spaces. `None` at the end of the orders.
fn order() -> std::io::Result<Option<Vec<String>>> {
    let mut line = String::new();
    let read = thread::blocking(|| stdin().lock().read_line(&mut line))?;
    Ok((read > 0).then(|| line.split_whitespace().map(str::to_owned).collect()))
}

/// What came of reading `count` rows.
fn read(rows: &mut Stream<Row, Torn>, count: u64) -> String {
    for _ in 0..count {
        match rows.recv() {
            Ok(Some(_)) => {}
            end => return format!("{end:?}"),
        }
    }
    format!("read {count}")
}

/// What came of sending `count` rows.
fn send(sender: &StreamSender<Row>, count: u64) -> String {
    for id in 0..count {
        if let Err(why) = sender.send(&Row::new(id, 100)) {
            return format!("{why:?}");
        }
    }
    format!("sent {count}")
}

fn client(name: &str) -> Result<(), Box<dyn Error>> {
    let table = RowsClient::import_within(name, SOON)?;
    answer("ready")?;
    let (mut reads, mut sends) = (None, None);
    while let Some(words) = order()? {
        let count = words.get(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        let done = match words.first().map_or("", String::as_str) {
            "read" => read(reads.insert(table.rows(u64::MAX, 100, Ending::Hold)?), count),
            "more" => read(reads.as_mut().ok_or("nothing is read")?, count),
            "keep" => {
                let (sender, rows) = StreamOptions::new().open()?;
                table.keep(rows)?;
                send(sends.insert(sender), count)
            }
            "send" => send(sends.as_ref().ok_or("nothing is sent")?, count),
            "all" => all(&table, count)?,
            other => return Err(format!("no order {other}").into()),
        };
        answer(&done)?;
    }
    Ok(())
}

/// Reads a stream, and passes one.
fn all(table: &RowsClient, count: u64) -> Result<String, Box<dyn Error>> {
    let mut read = 0;
    for row in table.rows(count, 100, Ending::Finish)? {
        read += u64::from(row.is_ok_and(|row| row.id == read));
    }
    let (sender, rows) = StreamOptions::new().open()?;
    let sends = thread::spawn(move || {
        let done = send(&sender, count);
        sender.finish();
        done
    });
    let summed = table.sum(rows)?;
    Ok(format!("read {read}, {}, {}", sends.join().expect("it doesn't panic"), summed.rows))
}
