//! How a starter hears of its domain's forbidden calls.

use crate::ended::Blow;
use crate::supervisor::Shared;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use underpass_os::forbidden::{Notification, SeccompListener};
use underpass_os::signal;
use underpass_os::thread::{Tid, current};

/// The real-time signal by which the thread that listens is stopped.
const SIGNAL: i32 = 6;
/// How long to wait before the signal is sent again: the first may have come too early.
const AGAIN: Duration = Duration::from_millis(1);

/// A kernel thread that waits in the kernel for a domain's forbidden calls, and has the supervisor
/// end the domain for the first.
///
/// The supervisor itself can't wait for it, among other things, by `epoll`: that shows no call
/// which a signal has ended, and a domain can send itself signals.
pub(crate) struct Watcher {
    thread: JoinHandle<()>,
    tid: Tid,
    over: Arc<AtomicBool>,
}

impl Watcher {
    pub(crate) fn start(listener: SeccompListener, shared: &Arc<Shared>) -> io::Result<Self> {
        signal::install_interrupting(signal::realtime(SIGNAL))?;
        let over = Arc::new(AtomicBool::new(false));
        let (its_over, shared) = (over.clone(), shared.clone());
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let run = move || {
            let _ = tell.send(current());
            signal_may_come();
            // Relaxed: the signal that comes after it is sent again and again.
            while !its_over.load(Ordering::Relaxed) && listens(&listener, &shared) {}
        };
        let builder = std::thread::Builder::new().name("underpass-watch".to_owned());
        let thread = builder.stack_size(64 * 1024).spawn(run)?;
        let tid = told.recv().map_err(|_| io::Error::other("the thread has ended"))?;
        Ok(Self { thread, tid, over })
    }

    /// The domain has ended.
    pub(crate) fn stop(self) {
        // Relaxed: see above.
        self.over.store(true, Ordering::Relaxed);
        while !self.thread.is_finished() {
            // Since Linux 6.11 it ends by itself.
            let _ = self.tid.signal(signal::realtime(SIGNAL));
            std::thread::sleep(AGAIN);
        }
    }
}

/// The thread that starts a sandbox may hold signals back.
fn signal_may_come() {
    let _ = signal::unblock(signal::realtime(SIGNAL));
}

/// Hears of the next call; says whether there may be another. Until the domain has ended the
/// listener stays open: without it, calls that are held up would fail, and no more.
fn listens(listener: &SeccompListener, shared: &Shared) -> bool {
    match listener.next() {
        Ok(Notification::Call(number)) => shared.strike(Blow::Forbidden(Some(number))),
        Ok(Notification::TakenBack) => shared.strike(Blow::Forbidden(None)),
        Ok(Notification::Interrupted) => {}
        Ok(Notification::Ended) => return false,
        Err(_) => {
            // Nothing is heard of the domain's calls any more.
            shared.strike(Blow::Killed);
            return false;
        }
    }
    true
}
