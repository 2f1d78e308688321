//! The client's side of a call: from the generated stub to the reply.
//!
//! [`stub`] is what generated code calls. [`client`] is the client's end of a channel. [`linkage`]
//! holds, for each slot, the caller that waits for its reply, and [`answer`] what the caller reads
//! from it. [`waiting`] is how a thread waits. [`queue`] and [`summons`] are for callers that wait
//! for a free slot, and [`leasing`] says whether they wait. [`abandon`] lets another thread end a
//! wait. [`unrung`] and [`insisted`] remember when the peer was last woken. [`desk`] numbers the
//! kernel threads.

pub(crate) mod abandon;
pub(crate) mod answer;
pub(crate) mod client;
pub(crate) mod desk;
pub(crate) mod insisted;
pub(crate) mod leasing;
pub(crate) mod linkage;
pub(crate) mod queue;
pub(crate) mod stub;
pub(crate) mod summons;
pub(crate) mod unrung;
#[allow(unsafe_code)]
pub(crate) mod waiting;
