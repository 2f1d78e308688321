//! What tonic's generator makes of `proto/greeter.proto`.
//!
//! Both programs beside it use it as it is: the transport is not its matter.
#![forbid(unsafe_code)]

/// Messages, client and server.
#[allow(missing_docs, clippy::all, clippy::missing_errors_doc, reason = "generated")]
#[rustfmt::skip]
#[path = "generated/greeter.rs"]
pub mod greeter;
