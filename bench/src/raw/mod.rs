//! What runs without the runtime: the raw limits, where two processes answer each other through
//! shared words, and the C library's lock for several processes.

pub(crate) mod pairs;
pub mod ping;
pub(crate) mod pthread;
pub(crate) mod region_words;
pub(crate) mod responder;
#[allow(unsafe_code, reason = "two processes share the words; each block says why it may")]
pub mod shared_words;
