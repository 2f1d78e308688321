//! Domains that can only serve and call. They have no files, no network and no other processes, and
//! their memory and processor time are limited.
//!
//! *Decides:* what a sandboxed domain may still do (`policy.rs`), in which order it gives up the
//! rest (`walls.rs`), and how its end is reported (`ended.rs`).
//!
//! *Must not know:* how calls travel. The process is an ordinary [`Server`](underpass_rpc::Server),
//! and its clients import it as any other.
//!
//! *Read first:* `inside.rs`, the sandboxed process. Then `supervisor.rs`, its supervisor.
//!
//! # The two halves
//!
//! Both parts may be one program or two. The starting program describes a sandbox by a [`Sandbox`]
//! and [`start`](Sandbox::start)s it. The started process goes through these steps:
//!
//! 1. It calls [`inside`] first thing in `main`.
//! 2. With all rights of its user it prepares its work: it reads its models and settings, and
//!    imports the bindings that it will call.
//! 3. It calls [`Inside::serve`]. This takes the names of its exports, restricts all its kernel
//!    threads, and reports to the starter which measures hold. Only then the process serves, and it
//!    can do nothing else.
//!
//! So the program is trusted until it serves. What it *reads* from its callers is never trusted. A
//! decoder that a crafted file has taken over can compute, answer wrongly, crash, loop and fill its
//! own memory. It cannot open a file or a socket, start or signal a process, or look into one.
//!
//! # Examples
//! ```no_run
//! use underpass::{Sandbox, Server, sandbox};
//!
//! # fn start(service: underpass::Service) -> Result<(), Box<dyn std::error::Error>> {
//! // First of all in `main`. `service` comes from an interface's `serve`.
//! if let Some(inside) = sandbox::inside()? {
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
