//! Callers that are async tasks, and handlers that are: under tokio, on one thread and on several,
//! and under smol.

mod callers;
mod cancelled;
mod executors;
mod handlers;
mod waits;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// For tests that wait until this process has as few files as before: one at a time, or each would
/// wait for what the other holds.
fn counts_files() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // What smol has for its timers stays once it is there.
    smol::block_on(smol::Timer::after(std::time::Duration::ZERO));
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
