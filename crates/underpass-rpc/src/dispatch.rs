//! The server's side of a call: a message is taken, the handler runs, the reply is posted.
//!
//! [`server`] is the server's end of a channel. [`incoming`] is a call as the generated server stub
//! sees it, and [`async_handler`] a call whose handler is a future. [`deadline`] tells a handler
//! until when its caller waits. [`blocked_handlers`] counts handlers that block their processor in
//! the kernel.

pub(crate) mod async_handler;
pub(crate) mod blocked_handlers;
pub(crate) mod deadline;
pub(crate) mod incoming;
pub(crate) mod server;
