//! The client's side of a call: from the generated stub to the reply.
//!
//! [`stub`] is what generated code calls. [`client`] is the client's end of a channel. [`linkage`]
//! holds who waits for which call, and [`waiting`] how a thread waits. [`queue`] and [`summons`]
//! are for callers that wait for a slot. [`abandon`] lets somebody else end a wait.

pub(crate) mod abandon;
pub(crate) mod answer;
pub(crate) mod client;
pub(crate) mod desk;
pub(crate) mod leasing;
pub(crate) mod linkage;
pub(crate) mod notify_retries;
pub(crate) mod queue;
pub(crate) mod stub;
pub(crate) mod summons;
pub(crate) mod unnotified;
#[allow(unsafe_code)]
pub(crate) mod waiting;
