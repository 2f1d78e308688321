//! Metrics by method: calls, errors by kind, bytes, and the times of one call in 64.
//!
//! They are off at first, and cost nothing then.
//! [`Service::measured`](crate::Service::measured) switches them on for an export, and the client's
//! `measured` for an import. `UNDERPASS_METRICS=1` in the environment does so for all exports and
//! imports of a process. `underpass top` shows them, and the crates `underpass-prometheus` and
//! `underpass-opentelemetry` export them.
//!
//! # Examples
//! ```no_run
//! use underpass::{CallError, metrics};
//!
//! #[underpass::interface]
//! trait Greeter {
//!     fn greet(&self, whom: &str) -> Result<String, CallError>;
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let greeter = GreeterClient::import("greeter")?.measured("greeter");
//! greeter.greet("Ada")?;
//! let greet = &metrics::snapshot()[0].methods[0];
//! assert_eq!((greet.calls(), greet.latency.count()), (1, 1));
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use underpass_rpc::metrics::*;
