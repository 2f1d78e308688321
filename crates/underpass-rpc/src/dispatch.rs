//! The server's side of a call: a message is taken, the handler runs, the reply is posted.
//!
//! [`server`] is the server's end of a channel. [`incoming`] is a call as the generated server stub
//! sees it, and [`async_handler`] a call whose handler is a future. [`late`] answers calls that
//! last, after they have given their slots back. [`deferred_reply`] answers calls that any thread
//! may answer. [`rows_in_use`] is where calls begin to use the rows of their connection.
//! [`local_handlers`] calls async handlers within their domain. [`detached_call`] is a call that
//! came over no channel. [`deadline`] tells a handler until when its caller waits. [`exclusive`]
//! has one thread at a time run a service, and [`section_numbers`] tells which calls come back into
//! one. [`blocked_handlers`] counts handlers that block their processor in the
//! kernel. [`measured`] counts and times the calls of exports that are measured.

pub(crate) mod async_handler;
pub(crate) mod blocked_handlers;
pub(crate) mod deadline;
pub(crate) mod deferred_reply;
pub(crate) mod detached_call;
#[allow(unsafe_code)] // An implementation for one thread at a time.
pub(crate) mod exclusive;
pub(crate) mod incoming;
pub(crate) mod late;
pub(crate) mod local_handlers;
pub(crate) mod measured;
#[allow(unsafe_code)] // The values of rows.
pub(crate) mod rows_in_use;
pub(crate) mod section_numbers;
pub(crate) mod server;
