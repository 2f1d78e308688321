//! Peers that lie, or damage what they share: the honest side tells them off, and goes on with the others.
//!
//! The liars are clients made by hand; `hostile_server.rs` has the lying servers.

mod client;
mod clients;
mod end;
mod mutations;

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");
