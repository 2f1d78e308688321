//! Peers that lie or damage what they share. The honest side closes their bindings and goes on with
//! the others.
//!
//! The liars here are hand-made clients. Lying servers are in `hostile_server.rs`. `clients.rs` has
//! single lies, and `lying_client.rs` has all lies at random, by the million. `liar.rs` says what a
//! liar does there.

pub(crate) mod client;
mod clients;
mod clocks;
pub(crate) mod end;
pub(crate) mod honest;
mod late_client;
pub(crate) mod liar;
mod lying_client;
mod overflow_buffers;
mod rows;

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");
