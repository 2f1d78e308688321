//! Callers that are async tasks, and async handlers: under tokio on one thread, under tokio on
//! several, and under smol.

mod callers;
mod cancelled;
mod deferred;
mod executors;
mod handlers;
mod late;
mod late_ends;
mod waits;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// For tests that wait until this process has as few files as before. They run one at a time, or
/// each would wait for the other's files.
fn counts_files() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // smol keeps the files of its timers once they exist.
    smol::block_on(smol::Timer::after(std::time::Duration::ZERO));
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
