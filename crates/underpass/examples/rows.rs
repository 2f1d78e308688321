//! Rows streamed from a table of another process: `cargo run --example rows`, or with the number of
//! rows and a name to look for.

use std::process::Command;
use std::time::{Duration, Instant};
use underpass::stream::{Stream, StreamOptions};
use underpass::{CallError, Server};

const NAME: &str = "table";

#[derive(underpass::Wire)]
struct Row {
    id: u64,
    name: String,
}

#[underpass::interface]
trait Table {
    /// All rows, in the order of their numbers.
    fn rows(&self) -> Result<Stream<Row>, CallError>;
    /// Of the rows that come, those that the table has too.
    fn known(&self, rows: Stream<Row>) -> Result<Stream<Row>, CallError>;
}

/// A table whose rows are computed as they are asked for.
struct Computed {
    rows: u64,
}

fn name_of(id: u64) -> String {
    format!("row {id}")
}

impl Table for Computed {
    fn rows(&self) -> Result<Stream<Row>, CallError> {
        // A thread sends them as far as the reader's credit goes, and stops when nobody reads.
        Ok(Stream::of((0..self.rows).map(|id| Row { id, name: name_of(id) }))?)
    }

    fn known(&self, rows: Stream<Row>) -> Result<Stream<Row>, CallError> {
        let most = self.rows;
        let known = rows.into_iter().map_while(Result::ok).filter(move |row| row.id < most);
        Ok(Stream::of(known)?)
    }
}

fn serve(rows: u64) -> Result<(), Box<dyn std::error::Error>> {
    Ok(Server::new().export(NAME, Table::serve(Computed { rows })).run()?)
}

fn read(name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let table = TableClient::import_within(NAME, Duration::from_secs(5))?;

    // The first rows are here before the last ones are made.
    let begun = Instant::now();
    let (mut count, mut first) = (0, None);
    for row in table.rows()? {
        first.get_or_insert_with(|| begun.elapsed());
        count += u64::from(!row?.name.is_empty());
    }
    println!("{count} rows in {:?}, the first one after {:?}", begun.elapsed(), first.unwrap_or_default());

    // This reader goes as soon as it has found its row. Then the table's thread stops.
    for row in table.rows()? {
        let row = row?;
        if row.name == name {
            println!("{name:?} has number {}", row.id);
            break;
        }
    }

    // Both directions at once: an answer for each row that is known.
    let (sender, asked) = StreamOptions::new().open()?;
    let mut known = table.known(asked)?;
    for id in [1, u64::MAX, 2] {
        sender.send(&Row { id, name: name_of(id) })?;
    }
    sender.finish();
    while let Some(row) = known.recv()? {
        println!("{:?} is known", row.name);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next() {
        Some(role) if role == "serve" => serve(arguments.next().ok_or("how many rows")?.parse()?),
        rows => {
            let rows = rows.unwrap_or_else(|| "100000".to_owned());
            let name = arguments.next().unwrap_or_else(|| name_of(7));
            let mut server = Command::new(std::env::current_exe()?).args(["serve", &rows]).spawn()?;
            let read = read(&name);
            server.kill()?;
            server.wait()?;
            read
        }
    }
}
