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

use std::sync::{Mutex, MutexGuard, PoisonError};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");
const SANDBOXED: &str = env!("CARGO_BIN_EXE_underpass-test-sandboxed");

/// A forked child has the files that another test has open at that moment, so these tests run one
/// at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
