//! A way to call another process, as it is measured: a server, and a client that is told by lines
//! what to call.
//!
//! *Decides:* the protocol (`peers/README.md` says it in words), the work that a call does, and how
//! it is timed. All peers share this code, Underpass among them.
//!
//! *Must not know:* any of the packages measured.
//!
//! *Read first:* [`Variant`], then [`Load`].
#![forbid(unsafe_code)]

mod lines;
mod load;
mod peer;
mod tasks;
mod threads;
mod work;

pub use load::{Load, Totals, repeat, repeat_async};
pub use peer::{Client, Peer, Variant, ending, locked, ready};
pub use tasks::repeat_together;
pub use threads::{Connection, ThreadClient};
pub use work::{Work, answer, answer_in_place};

/// Why a peer cannot go on. The client's line tells it.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What nearly all functions of a peer return.
pub type Outcome<T = ()> = Result<T, Failure>;
