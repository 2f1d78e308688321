//! What a service manager hears of a server: that it is ready, reloads, stops, and is alive.
//!
//! The protocol is that of `sd_notify(3)`: datagrams of lines to the socket that
//! `$NOTIFY_SOCKET` names. systemd speaks it, and so do others. Sockets that a manager passes are
//! [`Server::socket_activation`](underpass_rpc::Server::socket_activation).
//!
//! *Decides:* what is told, when, and how the watchdog learns that the runtime works.
//!
//! *Must not know:* what a server exports.
//!
//! *Read first:* `manager.rs`.
//!
//! # Examples
//! ```no_run
//! use std::time::Duration;
//! use underpass::Server;
//! use underpass::service::ServiceManager;
//!
//! # fn run(service: underpass::Service) -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::new()
//!     .socket_activation()
//!     .export("fs.cache", service)
//!     .drain_on_signals(Duration::from_secs(10));
//! // Sends READY=1, STOPPING=1, and WATCHDOG=1 while the runtime works.
//! ServiceManager::from_environment()?.announce(server).run()?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod address;
mod manager;
mod watchdog;

pub use manager::ServiceManager;
