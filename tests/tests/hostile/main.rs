//! Peers that lie, or damage what they share: the honest side tells them off, and goes on with the
//! others.
//!
//! The liars are clients made by hand; `hostile_server.rs` has the lying servers. `clients.rs` has
//! their lies one by one, `lying_client.rs` all of them at random, by the million; `liar.rs` says
//! what a liar does there.

mod annexes;
mod client;
mod clients;
mod clocks;
mod end;
mod honest;
mod liar;
mod lying_client;

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");
