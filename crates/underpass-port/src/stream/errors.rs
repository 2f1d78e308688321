//! Why streams can't be opened, and how they end.

use std::error::Error;
use std::fmt;
use std::io;
use underpass_channel::BadLaneSizes;
use underpass_rpc::{CallError, Outcome};

/// Why a stream could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenStreamError {
    /// No stream has these sizes. *Remedy:* ask for fewer or shorter items.
    Sizes(BadLaneSizes),
    /// The streams that handlers of this domain have opened for the caller's user take as much
    /// memory as they may: 256 MiB. All clients on other machines count as one user. Its
    /// streams may also take a quarter of the open files. *Remedy:* open smaller streams
    /// ([`StreamOptions::bytes`](crate::stream::StreamOptions::bytes)), or fewer at once.
    MemoryOfUser,
    /// This domain has no memory or no open files left. *Remedy:* raise its limits.
    System(io::Error),
}

/// Why a reader gets no further item. `E` is the type of the errors with which the writer may end
/// the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError<E = String> {
    /// The writer has ended the stream with this error.
    Failed(E),
    /// The writer was dropped before it finished the stream, for example by a panic. Items are
    /// missing. *Remedy:* call again.
    Abandoned,
    /// The writer's domain has died. *Remedy:* call again.
    PeerDied,
    /// The binding over which the stream was passed has ended. *Remedy:* keep the client as long as
    /// its streams; if it was revoked, import again.
    BindingEnded,
    /// The writer has broken the rules: its memory made no sense, or an item was no value of the
    /// type. *Remedy:* none; use it no more.
    Malformed,
    /// No item came in time: wait longer. If it was the stream's own
    /// [deadline](crate::stream::Stream::with_deadline), the stream has ended.
    Timeout,
    /// The thread was asked to end while it waited: let it end.
    Cancelled,
    /// This domain has no memory or no open files left for its end. *Remedy:* raise its limits.
    NoResources,
}

/// Why an item was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamSendError {
    /// There is no credit now: try again, or wait with `send`.
    Full,
    /// There was no credit all the time: wait longer, or give the stream up.
    Timeout,
    /// The reader has dropped its end, or nobody has taken it: stop sending.
    ReaderDropped,
    /// The reader's domain has died: stop sending.
    PeerDied,
    /// The binding over which the stream was passed has ended: stop sending.
    BindingEnded,
    /// The reader has broken the rules: stop sending.
    Malformed,
    /// The thread was asked to end while it waited: let it end.
    Cancelled,
    /// The item is longer than the stream allows, or contains an open file or a stream. *Remedy:*
    /// send less, or see [`StreamOptions::longest`](crate::stream::StreamOptions::longest). Pass
    /// files by a call.
    TooLong,
    /// The system has refused memory for the stream. *Remedy:* give this domain more.
    NoMemory,
}

impl fmt::Display for OpenStreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sizes(e) => write!(f, "the stream can't be opened: {e}"),
            Self::MemoryOfUser => f.write_str(
                "the stream can't be opened: those of the caller's user take as much memory as they may; open \
                 smaller ones, see `StreamOptions::bytes`",
            ),
            Self::System(e) => {
                write!(
                    f,
                    "the stream can't be opened: this domain has no room: {e}; see `ulimit -n` and `ulimit -v`"
                )
            }
        }
    }
}

impl Error for OpenStreamError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Sizes(e) => Some(e),
            Self::MemoryOfUser => None,
            Self::System(e) => Some(e),
        }
    }
}

impl From<io::Error> for OpenStreamError {
    fn from(e: io::Error) -> Self {
        Self::System(e)
    }
}

impl From<BadLaneSizes> for OpenStreamError {
    fn from(e: BadLaneSizes) -> Self {
        Self::Sizes(e)
    }
}

/// So that a handler that can't open a stream fails by `?`.
impl From<OpenStreamError> for CallError {
    fn from(e: OpenStreamError) -> Self {
        Self::NoResources(Outcome::Executed, e.to_string())
    }
}

impl<E: fmt::Display> fmt::Display for StreamError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(e) => write!(f, "the writer has ended the stream: {e}"),
            Self::Abandoned => {
                f.write_str("the stream is incomplete: its writer gave up before the end; call again")
            }
            Self::PeerDied => {
                f.write_str("the stream is incomplete: the domain of its writer has died; call again")
            }
            Self::BindingEnded => f.write_str(
                "the stream is incomplete: its binding has ended; keep the client, or import again",
            ),
            Self::Malformed => f.write_str("the stream has ended: its writer has broken the rules"),
            Self::Timeout => f.write_str("no item came in time; wait longer"),
            Self::Cancelled => f.write_str("no item: the thread was cancelled; let it end"),
            Self::NoResources => f.write_str(
                "the stream can't be read: this domain has no room; see `ulimit -n` and `ulimit -v`",
            ),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for StreamError<E> {}

impl fmt::Display for StreamSendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the item was not sent: the stream has no credit; wait with `send`",
            Self::Timeout => "the item was not sent: the stream had no credit all the time; wait longer",
            Self::ReaderDropped => "the item was not sent: the reader wants no more; stop sending",
            Self::PeerDied => "the item was not sent: the reader's domain has died; stop sending",
            Self::BindingEnded => "the item was not sent: the stream's binding has ended; stop sending",
            Self::Malformed => "the item was not sent: the reader has broken the rules; stop sending",
            Self::Cancelled => "the item was not sent: the thread was cancelled; let it end",
            Self::TooLong => {
                "the item was not sent: it is longer than the stream allows, or has an open file; see \
                 `StreamOptions::longest`"
            }
            Self::NoMemory => {
                "the item was not sent: the system has refused memory for it; give the machine more"
            }
        })
    }
}

impl Error for StreamSendError {}
