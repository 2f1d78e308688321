//! Invocations at interrupt level: short operations that run at their home between two of its
//! threads, with preemption off (Psyche, sections 3.1 and 5.1).
//!
//! | | an ordinary call | an invocation at interrupt level |
//! |---|---|---|
//! | runs on | a thread of its own | the thread of the home's signals |
//! | may block | yes | no |
//! | arguments and results | any | six words each |
//! | excludes other code of the home by | locks | [`mask`](InvocationHome::mask) |
//! | its caller | blocks | spins, then looks again every 50 µs, until its deadline |
//!
//! The paper finds them right for special cases: operations of low latency that can't be done by
//! reading memory, and homes that are idle (section 6). Take an ordinary call otherwise.
//!
//! # Examples
//! ```
//! use std::time::Duration;
//! use underpass::homed::invoke::{HomeInvoker, InvocationHandlers};
//! use underpass::homed::{HomedObject, ObjectHome};
//!
//! /// An operation on which both sides agree.
//! const ADD: u64 = 1;
//!
//! # let dir = std::env::temp_dir().join(format!("underpass-doc-invoke-{}", std::process::id()));
//! # // SAFETY: no other thread has been started yet.
//! # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
//! // In the home's process:
//! let (service, total) = ObjectHome::new(0_u64)?;
//! let handled = total.clone();
//! let (services, home) = InvocationHandlers::new()
//!     // Handlers alone change the total, so they never wait for each other.
//!     .on(ADD, move |[more, ..]| {
//!         let version = handled.update(|total| *total += more).unwrap_or(0);
//!         [version, 0, 0, 0, 0, 0]
//!     })
//!     .start();
//! let server = underpass::Server::new().export("total", service);
//! let running = services.export(server, "add").start()?;
//!
//! // In another process, or in several:
//! let total = HomedObject::<u64>::import("total")?;
//! let add = HomeInvoker::connect("add")?;
//! let [version, ..] = add.invoke(ADD, [42, 0, 0, 0, 0, 0], Duration::from_secs(10))?;
//! let seen = total.access()?;
//! assert_eq!((seen.value, seen.number()), (42, version));
//! # drop((running, home));
//! # std::fs::remove_dir_all(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![doc = include_str!("invoke/README.md")]

#[cfg(not(underpass_loom))]
mod attach;
#[cfg(not(underpass_loom))]
mod errors;
#[cfg(not(underpass_loom))]
mod handlers;
#[cfg(not(underpass_loom))]
pub(crate) mod home;
#[cfg(not(underpass_loom))]
mod invoker;
pub(crate) mod layout;
#[cfg(not(underpass_loom))]
pub(crate) mod masked;
#[cfg(not(underpass_loom))]
mod process_invoker;
pub(crate) mod requests;
pub(crate) mod section;

#[cfg(not(underpass_loom))]
pub use errors::{InvokeError, InvokerConnectError};
#[cfg(not(underpass_loom))]
pub use handlers::{InvocationHandlers, InvocationServices};
#[cfg(not(underpass_loom))]
pub use home::{InvocationHome, InvocationMask, MaskedInterrupts};
#[cfg(not(underpass_loom))]
pub use invoker::HomeInvoker;
#[cfg(not(underpass_loom))]
pub use process_invoker::ProcessInvoker;
