//! What async-executor takes: its `StaticLocalExecutor`, ticked in a loop, the fastest of its ways
//! for one thread.
#![forbid(unsafe_code)]

use async_executor::{LocalExecutor, StaticLocalExecutor};
use async_lock::Mutex;
use event_listener::{Event, IntoNotification, listener};
use futures_lite::future::block_on;
use std::cell::Cell;
use std::future::Future;
use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};
use underpass_peer::tasks::{self, Executor};

/// An executor that lives as long as the process, which spares each task its place in a list of all
/// tasks.
#[derive(Clone, Copy)]
struct Smol(&'static StaticLocalExecutor);

impl Executor for Smol {
    /// Ticks by hand, which is faster than `StaticLocalExecutor::run`, and sleeps as that does.
    fn within<T: 'static>(self, task: impl Future<Output = T> + 'static) -> T {
        let task = self.0.spawn(task);
        loop {
            while self.0.try_tick() {}
            if task.is_finished() {
                return block_on(task);
            }
            block_on(self.0.tick());
        }
    }

    fn spawn<T: 'static>(self, task: impl Future<Output = T> + 'static) -> impl Future<Output = T> + 'static {
        self.0.spawn(task)
    }

    fn start(self, task: impl Future<Output = ()> + 'static) {
        self.0.spawn(task).detach();
    }
}

/// What an async condition variable is made of: the condition, and the event that tells it may have
/// changed.
#[derive(Default)]
struct Turn {
    come: Cell<bool>,
    event: Event,
}

impl Turn {
    /// Gives the turn to the task that waits for it. Relaxed: both tasks are of one thread.
    fn give(&self) {
        self.come.set(true);
        self.event.notify(1.relaxed());
    }

    /// Waits for the turn and takes it.
    async fn take(&self) {
        while !self.come.replace(false) {
            listener!(self.event => told);
            if self.come.replace(false) {
                return;
            }
            told.await;
        }
    }
}

/// `lock`: acquires and releases a mutex that nobody else wants.
fn lock(smol: Smol, count: u64) -> Duration {
    smol.within(async move {
        let mutex = Mutex::new(0_u64);
        let begun = Instant::now();
        for _ in 0..count {
            *black_box(&mutex).lock().await += 1;
        }
        begun.elapsed()
    })
}

/// `ping-pong`: two tasks, each with an event that the other wakes it by.
fn ping_pong(smol: Smol, count: u64) -> Duration {
    tasks::cycles(smol, count, Turn::default, Turn::give, Turn::take)
}

fn main() -> io::Result<()> {
    let smol = Smol(LocalExecutor::new().leak());
    underpass_peer::serve(
        "async-executor",
        "async-executor",
        &[
            ("yield", &|count| tasks::yields(smol, count)),
            ("fork-join", &|count| tasks::fork_join(smol, count)),
            ("fork", &|count| tasks::fork(smol, count)),
            ("lock", &|count| lock(smol, count)),
            ("ping-pong", &|count| ping_pong(smol, count)),
            ("park", &|count| tasks::park(smol, count)),
            ("call", &underpass_peer::call),
        ],
    )
}
