//! The activation server: how the processors of a machine are divided among domains (OThreads,
//! section 3.3).
//!
//! *Decides:* which domain gets a processor, which one gives a processor up, and what happens to a
//! domain that does not obey.
//!
//! *Must not know:* threads and calls. The policy knows neither shared memory nor clocks: its user
//! tells it what domains want and what time it is.
//!
//! | folder | what is in it |
//! |---|---|
//! | `policy/` | which domain gets a processor, and which gives one up |
//! | `page/` | the page of a domain, and how processors change hands in shared memory |
//! | `server/` | the server process |
//! | `client/` | the part that lives in each domain |
//! | `pinned/` | programs without the runtime, which the server pins to CPUs, and the jobserver |
//!
//! *Read first:* [the rules and their proof](policy), then [the page](page) and its proof.
#![forbid(unsafe_code)]

#[cfg(not(underpass_loom))]
mod client;
#[cfg(not(underpass_loom))]
mod messages;
pub mod page;
#[cfg(not(underpass_loom))]
pub mod pinned;
#[cfg(not(underpass_loom))]
pub mod policy;
#[cfg(not(underpass_loom))]
pub mod server;

#[cfg(not(underpass_loom))]
pub use client::{DomainClient, client};
#[cfg(not(underpass_loom))]
pub use messages::NAME;
#[cfg(not(underpass_loom))]
pub use policy::{
    Decision, Disobedience, DomainCounts, DomainId, NodePolicy, Obedience, ProcessorTime, Rules, Terms,
};
