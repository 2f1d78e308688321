//! The tokio runtime that carries remote calls. Programs need none of their own.

use std::io;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::available_parallelism;
use tokio::runtime::{Builder, Handle, Runtime};

/// The most threads of the runtime.
const MOST_THREADS: usize = 4;

/// The runtime, and the process that has its threads: a forked child has none of them.
static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// The runtime, which is started at the first use and never ends.
///
/// # Errors
/// No thread can be started.
pub(super) fn runtime() -> io::Result<&'static Handle> {
    let process = std::process::id();
    let mut known = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, runtime)) = known.filter(|(of, _)| *of == process) {
        return Ok(runtime.handle());
    }
    let threads = available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(threads).thread_name("underpass-remote").enable_all().build()?;
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    *known = Some((process, runtime));
    Ok(runtime.handle())
}

/// Runs `work` on the runtime, and blocks the calling kernel thread until it has ended. The thread
/// may be one of another runtime.
///
/// # Errors
/// There is no runtime, or the work has panicked.
pub(super) fn wait_for<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    let (tell, told) = mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        let _ = tell.send(work.await);
    });
    told.recv().map_err(|_| io::Error::other("the work has panicked"))
}
