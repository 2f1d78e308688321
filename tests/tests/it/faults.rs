//! What a system does to programs: they fork, execute others, are stopped, and run out of
//! resources.

mod child;
mod clocks;
mod contained;
mod exec;
mod files;
mod fork;
mod group;
mod grouped;
mod memory;
mod refused_pages;
mod stopped;

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");
const SANDBOXED: &str = env!("CARGO_BIN_EXE_underpass-test-sandboxed");
