//! The raw limits: two processes answer each other through shared words, without the runtime.

pub mod ping;
pub(crate) mod responder;
#[allow(unsafe_code, reason = "two processes share the words; each block says why it may")]
pub mod shared_words;
