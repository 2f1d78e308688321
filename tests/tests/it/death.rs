//! `kill -9` of either side, at any moment.

mod ends;
mod ports;
mod rounds;

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");
