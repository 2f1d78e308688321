//! How coroutines are started: the only unsafe code.

use may::coroutine::{self, Builder, JoinHandle};

/// Starts a coroutine from a plain thread, and waits for its end and its result.
pub fn within<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    // SAFETY: no measured body uses a thread-local of its own, nor more than a little of its 32 KiB
    // of stack.
    let coroutine = unsafe { coroutine::spawn(body) };
    coroutine.join().expect("a measured coroutine panicked")
}

/// Starts a coroutine from another, which runs on when the new one blocks, yields or ends.
///
/// `coroutine::spawn` takes about three times as long, because it always wakes the worker with a
/// write to an `eventfd`.
pub fn start<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    // SAFETY: as in `within`; and no measured coroutine is cancelled.
    let coroutine = unsafe { Builder::new().spawn_local(body) };
    coroutine.expect("a coroutine could not be started")
}
