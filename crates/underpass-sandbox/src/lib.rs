//! Domains that can do nothing but serve and call: no files, no network, no other processes, and
//! bounded memory and processor time.
//!
//! *Decides:* what a sandboxed domain may still do (`policy.rs`), in which order it gives up the
//! rest (`walls.rs`), and how its end is told (`ended.rs`).
//!
//! *Must not know:* how calls travel. What it starts is an ordinary
//! [`Server`](underpass_rpc::Server), and who calls it imports it as any other.
//!
//! *Read first:* `inside.rs`, what the sandboxed process does; then `supervisor.rs`, who looks
//! after it.
//!
//! # The two halves
//!
//! One program plays both parts, or two programs do. The one that wants a sandbox describes it with
//! a [`Sandbox`] and [`start`](Sandbox::start)s it. The process in it calls [`inside`] first thing
//! in `main`, sets up what it needs with all rights of its user (reads its models and settings,
//! imports the bindings that it will call), and then calls [`Inside::serve`]: it takes the names of
//! its exports, the walls go up around all its kernel threads, the starter is told what holds, and
//! only then the process serves, and can do nothing else.
//!
//! So the program is trusted until it serves, and what it *reads* from its callers never is: a
//! decoder that a crafted file has taken over can compute, answer wrongly, crash, loop and fill its
//! own memory. It can't open a file or a socket, start or signal a process, or look into one.
//!
//! # Examples
//! ```no_run
//! use underpass_rpc::Server;
//! use underpass_sandbox::Sandbox;
//!
//! # fn start(service: underpass_rpc::Service) -> Result<(), Box<dyn std::error::Error>> {
//! // First of all in `main`. `service` comes from an interface's `serve`.
//! if let Some(inside) = underpass_sandbox::inside()? {
//!     // The sandboxed process.
//!     match inside.serve(Server::new().export("decoder", service))? {}
//! }
//! let domain = Sandbox::this_program().memory(256 << 20).start()?;
//! println!("{}", domain.report());
//! // Here `DecoderClient::import("decoder")`, as from any server.
//! println!("{}", domain.end());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod domain;
mod ended;
mod error;
mod forbidden;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;
mod inside;
mod message;
mod outputs;
mod policy;
mod report;
mod sandbox;
mod spec;
mod supervisor;
mod walls;

pub use domain::Domain;
pub use ended::Ended;
pub use error::StartError;
pub use inside::{Inside, inside};
pub use report::{Measure, Report};
pub use sandbox::Sandbox;
