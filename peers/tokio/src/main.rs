//! What tokio takes: a `LocalSet` on the current-thread runtime, the fastest of its ways for one
//! thread.
#![forbid(unsafe_code)]

use std::future::Future;
use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, Notify};
use tokio::task::{LocalSet, spawn_local};
use underpass_peer::tasks::{self, Executor};

/// A runtime and the set of its tasks, for as long as the process lives.
#[derive(Clone, Copy)]
struct Tokio {
    runtime: &'static Runtime,
    set: &'static LocalSet,
}

impl Executor for Tokio {
    fn within<T: 'static>(self, task: impl Future<Output = T> + 'static) -> T {
        self.set.block_on(self.runtime, self.spawn(task))
    }

    fn spawn<T: 'static>(self, task: impl Future<Output = T> + 'static) -> impl Future<Output = T> + 'static {
        let task = self.set.spawn_local(task);
        async { task.await.expect("a measured task panicked") }
    }

    fn start(self, task: impl Future<Output = ()> + 'static) {
        drop(spawn_local(task));
    }
}

/// `lock`: acquires and releases a mutex that nobody else wants.
fn lock(tokio: Tokio, count: u64) -> Duration {
    tokio.within(async move {
        let mutex = Mutex::new(0_u64);
        let begun = Instant::now();
        for _ in 0..count {
            *black_box(&mutex).lock().await += 1;
        }
        begun.elapsed()
    })
}

/// `ping-pong`: two tasks, each with a `Notify` that the other wakes it by.
fn ping_pong(tokio: Tokio, count: u64) -> Duration {
    tasks::cycles(tokio, count, Notify::new, Notify::notify_one, async |notify: &Notify| {
        notify.notified().await
    })
}

fn main() -> io::Result<()> {
    let runtime = Builder::new_current_thread().build()?;
    let tokio = Tokio { runtime: Box::leak(Box::new(runtime)), set: Box::leak(Box::new(LocalSet::new())) };
    underpass_peer::serve(
        "tokio",
        "tokio",
        &[
            ("yield", &|count| tasks::yields(tokio, count)),
            ("fork-join", &|count| tasks::fork_join(tokio, count)),
            ("fork", &|count| tasks::fork(tokio, count)),
            ("lock", &|count| lock(tokio, count)),
            ("ping-pong", &|count| ping_pong(tokio, count)),
            ("park", &|count| tasks::park(tokio, count)),
            ("call", &underpass_peer::call),
        ],
    )
}
