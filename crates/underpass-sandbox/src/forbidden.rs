//! Reports a domain's forbidden calls to its starter.

use crate::ended::Blow;
use crate::supervisor::SupervisorState;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use underpass_os::forbidden::{Notification, SeccompListener};
use underpass_os::signal;
use underpass_os::thread::{Tid, current};

/// The real-time signal that stops the listening thread.
const SIGNAL: i32 = 6;
/// The time after which the signal is sent again, because the first may have come too early.
const AGAIN: Duration = Duration::from_millis(1);

/// A kernel thread that waits in the kernel for a domain's forbidden calls. At the first one, it
/// makes the supervisor end the domain.
///
/// The supervisor cannot wait for such calls itself by `epoll`. `epoll` does not show a call that a
/// signal has ended, and a domain can send itself signals.
pub(crate) struct Watcher {
    thread: JoinHandle<()>,
    tid: Tid,
    over: Arc<AtomicBool>,
}

impl Watcher {
    pub(crate) fn start(listener: SeccompListener, shared: &Arc<SupervisorState>) -> io::Result<Self> {
        signal::install_interrupting(signal::realtime(SIGNAL))?;
        let over = Arc::new(AtomicBool::new(false));
        let (its_over, shared) = (over.clone(), shared.clone());
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let run = move || {
            let _ = tell.send(current());
            signal_may_come();
            // Relaxed: the signal that follows is sent repeatedly.
            while !its_over.load(Ordering::Relaxed) && listens(&listener, &shared) {}
        };
        let builder = std::thread::Builder::new().name("underpass-watch".to_owned());
        let thread = builder.stack_size(64 * 1024).spawn(run)?;
        let tid = told.recv().map_err(|_| io::Error::other("the thread has ended"))?;
        Ok(Self { thread, tid, over })
    }

    /// The domain has ended.
    pub(crate) fn stop(self) {
        // Relaxed: as above.
        self.over.store(true, Ordering::Relaxed);
        while !self.thread.is_finished() {
            // Since Linux 6.11 the wait ends by itself.
            let _ = self.tid.signal(signal::realtime(SIGNAL));
            std::thread::sleep(AGAIN);
        }
    }
}

/// The thread that starts a sandbox may have blocked signals, so this unblocks the signal.
fn signal_may_come() {
    let _ = signal::unblock(signal::realtime(SIGNAL));
}

/// Waits for the next call. Returns whether there may be another. The listener stays open until the
/// domain has ended: without it, calls that are held up would only fail.
fn listens(listener: &SeccompListener, shared: &SupervisorState) -> bool {
    match listener.next() {
        Ok(Notification::Call(number)) => shared.strike(Blow::Forbidden(Some(number))),
        Ok(Notification::TakenBack) => shared.strike(Blow::Forbidden(None)),
        Ok(Notification::Interrupted) => {}
        Ok(Notification::Ended) => return false,
        Err(_) => {
            // The domain's calls cannot be received any more.
            shared.strike(Blow::Killed);
            return false;
        }
    }
    true
}
