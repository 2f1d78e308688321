//! Bindings: how they are made, what limits them, and how they end.
//!
//! [`export`] and [`import`] are the two ways in, and [`handshake`] has the messages that they
//! exchange. [`object`] is the binding as its server sees it. [`family`] is a connection as its
//! server has it, and [`row`] one of its bindings. [`record`] is what the server's code attaches to
//! the binding. [`connections`] are those of this domain to servers. [`limits`] says what one user
//! may have. [`resilient`] imports again when a server has ended. [`running`] and [`replaced`] are
//! the end of an export, and [`run_phase`] tells the program of it. [`inspect`] is what a process
//! shows of its exports, and [`health`] whether they serve.

pub(crate) mod budget;
pub(crate) mod clock_offset;
pub(crate) mod connections;
pub(crate) mod exit_events;
pub(crate) mod export;
pub(crate) mod family;
pub(crate) mod forked;
pub(crate) mod grant;
pub(crate) mod handshake;
pub(crate) mod hang_up;
pub(crate) mod health;
pub(crate) mod implementation;
pub(crate) mod import;
pub mod inspect;
pub(crate) mod interface_exchange;
pub(crate) mod limits;
pub(crate) mod local_exports;
pub(crate) mod name;
pub(crate) mod not_exported;
pub(crate) mod object;
pub(crate) mod passing;
pub(crate) mod peer;
pub(crate) mod record;
pub(crate) mod replaced;
pub(crate) mod resilient;
pub(crate) mod row;
pub(crate) mod run_phase;
pub(crate) mod running;
pub(crate) mod service;
