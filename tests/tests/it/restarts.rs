//! What resilient clients see of restarts: which objects their calls reach, and how long they wait
//! for the next server.

mod generations;
mod hooks;
mod patience;

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");
