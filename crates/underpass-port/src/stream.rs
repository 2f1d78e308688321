//! Streams: arguments and results of a call that come item by item.
//!
//! A method that returns a million rows in a `Vec` needs memory for all of them, on both sides, and
//! its caller sees the first one last. With a [`Stream`] the caller reads the first row while the
//! server looks for the second. A stream carries items in one direction. A method that takes a
//! stream and returns one has both at once.
//!
//! ```
//! use underpass::stream::{Stream, StreamOptions};
//! use underpass::{CallError, Server, thread};
//!
//! #[derive(Debug, PartialEq, underpass::Wire)]
//! pub struct Row {
//!     id: u32,
//!     name: String,
//! }
//!
//! #[underpass::interface]
//! pub trait Table {
//!     /// The rows from `first` on.
//!     fn rows(&self, first: u32) -> Result<Stream<Row>, CallError>;
//!     /// Adds rows as they come. Returns how many.
//!     fn add(&self, rows: Stream<Row>) -> Result<u32, CallError>;
//! }
//!
//! struct Numbers;
//!
//! impl Table for Numbers {
//!     fn rows(&self, first: u32) -> Result<Stream<Row>, CallError> {
//!         let rows = (first..first + 100_000).map(|id| Row { id, name: format!("row {id}") });
//!         Ok(Stream::of(rows)?)
//!     }
//!
//!     fn add(&self, rows: Stream<Row>) -> Result<u32, CallError> {
//!         Ok(rows.into_iter().map_while(Result::ok).count() as u32)
//!     }
//! }
//!
//! # let dir = std::env::temp_dir().join(format!("underpass-doc-stream-{}", std::process::id()));
//! # // SAFETY: no other thread has been started yet.
//! # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
//! let running = Server::new().export("numbers", Table::serve(Numbers)).start()?;
//!
//! // A client, in another process: the first two rows. When the stream is dropped, the server's
//! // thread stops.
//! let table = TableClient::import("numbers")?;
//! let mut rows = table.rows(7)?;
//! assert_eq!(rows.recv()?, Some(Row { id: 7, name: "row 7".to_owned() }));
//! assert_eq!(rows.recv()?.map(|row| row.id), Some(8));
//! drop(rows);
//!
//! // The client sends while the server counts.
//! let (sender, rows) = StreamOptions::new().open()?;
//! let sends = thread::spawn(move || {
//!     for id in 0..3 {
//!         sender.send(&Row { id, name: String::new() })?;
//!     }
//!     sender.finish();
//!     Ok::<(), underpass::stream::StreamSendError>(())
//! });
//! assert_eq!(table.add(rows)?, 3);
//! sends.join().unwrap()?;
//! # drop(running);
//! # std::fs::remove_dir_all(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | a stream has | how |
//! |---|---|
//! | back-pressure | credits in items and bytes ([`StreamOptions`]). `send` waits for credit, and blocks the calling thread alone; `send_async` blocks none |
//! | an end | `finish` is the end, `fail` is an error of your own type. A sender that is dropped otherwise leaves [`StreamError::Abandoned`] |
//! | errors in the middle | the item type may be a `Result` |
//! | cancellation | when the reader is dropped, `send` fails with [`StreamSendError::ReaderDropped`] |
//! | deadlines | `with_deadline` on either end, `recv_timeout`, `send_timeout` |
//! | death | the reader gets what was sent, and then [`StreamError::PeerDied`]; `send` fails with [`StreamSendError::PeerDied`] |
//!
//! A stream that a handler opens, or gets, ends with the binding of its caller. So the client keeps
//! its stub as long as it reads. Items can't contain open files or streams: pass those by a call.
//!
//! # Costs
//! A call with a stream costs as much as one with three open files. An item costs what a message of
//! an asynchronous port costs: one copy in, one copy out, and no system call unless the other side
//! waits.
#![doc = include_str!("stream/README.md")]

mod bell_byte;
mod binding;
mod errors;
#[cfg(fuzzing)]
pub(crate) mod fuzz;
pub(crate) mod machines;
mod offer;
mod open_stream;
mod options;
#[cfg(any(test, fuzzing))]
mod parcel;
mod reader;
mod reader_end;
mod sender;
#[cfg(test)]
mod tests;
mod words;
mod writer_end;

pub use errors::{OpenStreamError, StreamError, StreamSendError};
pub use options::{StreamEnds, StreamOptions};
pub use reader::{Stream, StreamItems};
pub use sender::StreamSender;
