//! An interface with streams, and its implementation.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use underpass::stream::{Stream, StreamOptions, StreamSendError, StreamSender};
use underpass::{CallError, thread};

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, underpass::Wire)]
pub struct Row {
    /// Its number.
    pub id: u64,
    /// Its contents.
    pub bytes: Vec<u8>,
}

impl Row {
    /// Row `id`, of `len` bytes.
    pub fn new(id: u64, len: u64) -> Self {
        Self { id, bytes: vec![id as u8; len as usize] }
    }
}

/// How a writer ends its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub enum Ending {
    /// It finishes it.
    Finish,
    /// It ends it with an error.
    Fail,
    /// It drops its end.
    Abandon,
    /// It keeps its end.
    Hold,
}

/// An error at the end of a stream.
#[derive(Clone, Debug, PartialEq, Eq, underpass::Wire)]
pub struct Torn {
    /// The row that could not be read.
    pub at: u64,
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} is torn", self.at)
    }
}

/// What a reader has found.
#[derive(Clone, Debug, PartialEq, Eq, underpass::Wire)]
pub struct Summed {
    /// How many rows.
    pub rows: u64,
    /// The sum of their numbers.
    pub ids: u64,
    /// The error at the end, if there was one.
    pub error: Option<String>,
}

impl Summed {
    /// Reads `rows` to their end.
    ///
    /// # Panics
    /// If a row has other contents than its number says.
    pub fn of(rows: Stream<Row>) -> Self {
        let mut summed = Self { rows: 0, ids: 0, error: None };
        for row in rows {
            match row {
                Ok(row) => {
                    assert!(row.bytes.iter().all(|&byte| byte == row.id as u8), "row {}", row.id);
                    (summed.rows, summed.ids) = (summed.rows + 1, summed.ids + row.id);
                }
                Err(why) => summed.error = Some(format!("{why:?}")),
            }
        }
        summed
    }
}

/// Streams as arguments and results.
#[underpass::interface]
pub trait Rows {
    /// `count` rows of `len` bytes, and then this ending.
    fn rows(&self, count: u64, len: u64, ending: Ending) -> Result<Stream<Row, Torn>, CallError>;
    /// One row.
    fn row(&self, id: u64, len: u64) -> Result<Row, CallError>;
    /// Reads all rows.
    fn sum(&self, rows: Stream<Row>) -> Result<Summed, CallError>;
    /// The rows as they come, with twice their numbers.
    fn double(&self, rows: Stream<Row>) -> Result<Stream<Row>, CallError>;
    /// The numbers below `count`, of which those that 3 divides are errors.
    fn checked(&self, count: u64) -> Result<Stream<Result<u64, String>>, CallError>;
    /// Keeps a stream, and reads nothing.
    fn keep(&self, rows: Stream<Row>) -> Result<(), CallError>;
    /// Reads what it keeps, while the caller goes on. `report` tells what was found.
    fn read_kept(&self) -> Result<(), CallError>;
    /// Drops what it keeps.
    fn drop_kept(&self) -> Result<(), CallError>;
    /// How its writers and its readers of kept streams have ended, in this order of time.
    fn reports(&self) -> Result<Vec<String>, CallError>;
    /// A stream with credit for this many bytes, of which none comes.
    fn large(&self, bytes: u64) -> Result<Stream<Row>, CallError>;
    /// What is sent if an item has an open file.
    fn files(&self) -> Result<String, CallError>;
}

/// The implementation of [`Rows`].
#[derive(Debug, Default)]
pub struct Table {
    kept: Mutex<Vec<Stream<Row>>>,
    reports: Arc<Mutex<Vec<String>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `sender` has ended, and blocks no processor meanwhile.
fn end_of<E: underpass::Wire>(sender: &StreamSender<Row, E>) -> StreamSendError {
    loop {
        if let Some(why) = sender.ended() {
            return why;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sends `count` rows, and ends as told. Returns how.
fn write(sender: StreamSender<Row, Torn>, count: u64, len: u64, ending: Ending) -> String {
    for id in 0..count {
        if let Err(why) = sender.send(&Row::new(id, len)) {
            return format!("{why:?} at {id}");
        }
    }
    match ending {
        Ending::Finish => sender.finish(),
        Ending::Fail => return format!("{:?}", sender.fail(&Torn { at: count })),
        Ending::Abandon => drop(sender),
        Ending::Hold => {
            return format!("{:?}", end_of(&sender));
        }
    }
    "written".to_owned()
}

impl Rows for Table {
    fn rows(&self, count: u64, len: u64, ending: Ending) -> Result<Stream<Row, Torn>, CallError> {
        let (sender, stream) = StreamOptions::new().open_failing()?;
        let reports = self.reports.clone();
        drop(thread::spawn(move || {
            let report = write(sender, count, len, ending);
            lock(&reports).push(report);
        }));
        Ok(stream)
    }

    fn row(&self, id: u64, len: u64) -> Result<Row, CallError> {
        Ok(Row::new(id, len))
    }

    fn sum(&self, rows: Stream<Row>) -> Result<Summed, CallError> {
        Ok(Summed::of(rows))
    }

    fn double(&self, rows: Stream<Row>) -> Result<Stream<Row>, CallError> {
        let twice = rows.into_iter().map_while(Result::ok).map(|row| Row::new(2 * row.id, 5));
        Ok(Stream::of(twice)?)
    }

    fn checked(&self, count: u64) -> Result<Stream<Result<u64, String>>, CallError> {
        let check = |id: u64| if id.is_multiple_of(3) { Err(format!("no {id}")) } else { Ok(id) };
        Ok(Stream::of((0..count).map(check))?)
    }

    fn keep(&self, rows: Stream<Row>) -> Result<(), CallError> {
        lock(&self.kept).push(rows);
        Ok(())
    }

    fn read_kept(&self) -> Result<(), CallError> {
        for rows in std::mem::take(&mut *lock(&self.kept)) {
            let reports = self.reports.clone();
            drop(thread::spawn(move || {
                let summed = Summed::of(rows);
                lock(&reports).push(format!("{summed:?}"));
            }));
        }
        Ok(())
    }

    fn drop_kept(&self) -> Result<(), CallError> {
        lock(&self.kept).clear();
        Ok(())
    }

    fn reports(&self) -> Result<Vec<String>, CallError> {
        Ok(lock(&self.reports).clone())
    }

    fn large(&self, bytes: u64) -> Result<Stream<Row>, CallError> {
        let (sender, stream) = StreamOptions::new().bytes(bytes as usize).open()?;
        drop(thread::spawn(move || end_of(&sender)));
        Ok(stream)
    }

    fn files(&self) -> Result<String, CallError> {
        let (sender, _stream) = StreamOptions::new().open::<std::fs::File>()?;
        let file = std::fs::File::open("/dev/null").expect("there is one");
        Ok(format!("{:?}", sender.send(&file)))
    }
}
