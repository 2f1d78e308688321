//! One result of many rows, about 300 bytes each: over Underpass, and by postcard over a Unix
//! socket.
//!
//! `underpass-rows [ROWS [ROUNDS]]` starts a server of both kinds in another process, has the rows
//! from it by turns, and prints the medians and their ratio. Each side's server makes the rows anew
//! for each call, as one that looks them up in its tables does. That time is in both.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use underpass::{CallError, Server};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A row as a table of customers has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, underpass::Wire)]
struct Row {
    id: u64,
    parent: Option<u64>,
    created: u64,
    balance: f64,
    orders: u32,
    kind: u8,
    active: bool,
    name: String,
    email: String,
    address: String,
    comment: String,
}

/// A row that differs from all others.
fn row(id: u64) -> Row {
    Row {
        id,
        parent: (id % 3 == 0).then_some(id / 3),
        created: 1_700_000_000 + id,
        balance: id as f64 / 7.0,
        orders: id as u32 % 1000,
        kind: id as u8,
        active: id % 2 == 0,
        name: format!("customer number {id:08}"),
        email: format!("customer.{id:08}@mail.example.org"),
        address: format!("{:>8}, a street of some length, a town of some size, a country", id % 977),
        comment: format!(
            "{:>8}: a sentence or two that somebody has typed when the customer called last, and that nobody has read since",
            id
        ),
    }
}

#[underpass::interface]
trait Table {
    /// The first `count` rows.
    fn rows(&self, count: u64) -> Result<Vec<Row>, CallError>;
}

/// What both servers have.
struct Rows(Vec<Row>);

impl Table for Rows {
    fn rows(&self, count: u64) -> Result<Vec<Row>, CallError> {
        Ok(self.0[..count as usize].to_vec())
    }
}

/// The socket's server, a thread for each client: a count comes, and a length and so many bytes go
/// back.
fn serve_socket(mut stream: UnixStream, rows: &Rows) -> Outcome {
    let mut count = [0; 8];
    while stream.read_exact(&mut count).is_ok() {
        let result = rows.rows(u64::from_le_bytes(count))?;
        let bytes = postcard::to_stdvec(&result)?;
        stream.write_all(&(bytes.len() as u64).to_le_bytes())?;
        stream.write_all(&bytes)?;
    }
    Ok(())
}

/// The socket's client.
fn ask_socket(stream: &mut UnixStream, count: u64) -> Outcome<Vec<Row>> {
    stream.write_all(&count.to_le_bytes())?;
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
    stream.read_exact(&mut bytes)?;
    Ok(postcard::from_bytes(&bytes)?)
}

/// The process of the servers.
fn serve(directory: &Path, count: u64) -> Outcome {
    let all = || Rows((0..count).map(row).collect());
    let running = Server::new().directory(directory).export("rows", Table::serve(all())).start()?;
    let listener = UnixListener::bind(directory.join("socket"))?;
    let rows = all();
    std::thread::scope(|scope| {
        for stream in listener.incoming().flatten() {
            // An error has ended this client's connection.
            scope.spawn(|| serve_socket(stream, &rows).ok());
        }
    });
    running.stop();
    Ok(())
}

/// A part of this program in a process of its own; ended when dropped.
struct Part(Child);

impl Part {
    /// Starts it with `directory` as that of names.
    fn start(part: &str, directory: &Path, numbers: [u64; 2]) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(part).arg(directory).args(numbers.map(|number| number.to_string()));
        Ok(Self(command.env("UNDERPASS_DIR", directory).spawn()?))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What one call took.
fn timed(ask: impl FnOnce() -> Outcome<Vec<Row>>, expected: u64) -> Outcome<Duration> {
    let begun = Instant::now();
    let rows = ask()?;
    let took = begun.elapsed();
    assert_eq!(rows.len() as u64, expected);
    assert_eq!(rows.last().map(|last| last.id), expected.checked_sub(1));
    Ok(took)
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [part, directory, count, rounds] = &arguments[..] {
        let (directory, count, rounds) = (Path::new(directory), count.parse()?, rounds.parse()?);
        return if part == "serve" { serve(directory, count) } else { compare(directory, count, rounds) };
    }
    let number = |at: usize, otherwise| arguments.get(at).map_or(Ok(otherwise), |word| word.parse::<u64>());
    let numbers = [number(0, 200_000)?, number(1, 15)?];
    let directory = std::env::temp_dir().join(format!("underpass-rows-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let compared = {
        let _servers = Part::start("serve", &directory, numbers)?;
        Part::start("compare", &directory, numbers)?.0.wait()?.success()
    };
    std::fs::remove_dir_all(&directory)?;
    if compared { Ok(()) } else { Err("the client failed".into()) }
}

/// The process of the clients.
fn compare(directory: &Path, count: u64, rounds: u64) -> Outcome {
    let table = TableClient::import_within("rows", Duration::from_secs(60))?;
    let mut stream = loop {
        match UnixStream::connect(directory.join("socket")) {
            Ok(stream) => break stream,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let (mut ours, mut socket) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let one = timed(|| Ok(table.rows(count)?), count)?;
        let other = timed(|| ask_socket(&mut stream, count), count)?;
        // The first round warms both up.
        if round > 0 {
            ours.push(one);
            socket.push(other);
        }
    }
    let (ours, socket) = (median(&mut ours), median(&mut socket));
    let ratio = ours / socket;
    println!(
        "{count} rows: {ours:.0} ms over Underpass, {socket:.0} ms by postcard over a socket: {ratio:.2}"
    );
    Ok(())
}
