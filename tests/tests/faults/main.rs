//! What a system does to programs: processes that fork, execute others and are stopped, and what
//! runs out.

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

use std::sync::{Mutex, MutexGuard, PoisonError};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");
const SANDBOXED: &str = env!("CARGO_BIN_EXE_underpass-test-sandboxed");

/// One test at a time: a child that is forked off has what another test has open at that moment.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
