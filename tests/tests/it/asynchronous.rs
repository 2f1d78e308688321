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

/// Starts smol's timers, whose files stay: for tests that count what the process has.
fn start_timers() {
    smol::block_on(smol::Timer::after(std::time::Duration::ZERO));
}
