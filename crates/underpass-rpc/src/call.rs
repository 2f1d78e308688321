//! The client's side of a call: from the generated stub to the reply.
//!
//! [`stub`] is what generated code calls. [`client`] is the client's end of a channel. [`linkage`]
//! holds, for each slot, the caller that waits for its reply, and [`answer`] what the caller reads
//! from it. [`waiting`] is how a thread waits. [`slot_queue`] and [`task_wakeup`] are for callers
//! that wait for a free slot, and [`leasing`] says whether they wait. [`abandon`] lets another
//! thread end a wait. [`unnotified`] and [`notify_retries`] remember when the peer was last woken.
//! [`thread_index`] numbers the kernel threads. [`untyped`] calls interfaces by their description.

pub(crate) mod abandon;
pub(crate) mod answer;
pub(crate) mod client;
pub(crate) mod leasing;
pub(crate) mod linkage;
pub(crate) mod notify_retries;
pub(crate) mod slot_queue;
pub(crate) mod stub;
pub(crate) mod task_wakeup;
pub(crate) mod thread_index;
pub(crate) mod unnotified;
pub(crate) mod untyped;
#[allow(unsafe_code)]
pub(crate) mod waiting;
