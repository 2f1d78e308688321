//! The threads and tasks of this domain that wait for one thing: a message, or room.

use crate::guard::lock;
use crate::wait_until::WaitUntil;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use underpass_sync::Mutex;
use underpass_sync::mpmc::{Receiver, RecvTimeoutError, Sender, bounded};

/// Those that wait. A *token* wakes one thread, or stays for the next one; it wakes all tasks.
#[derive(Debug)]
pub(crate) struct Waiters {
    token: Sender<()>,
    tokens: Receiver<()>,
    tasks: Mutex<Vec<Waker>>,
    /// Threads that wait or are about to, and tasks in the list.
    count: AtomicUsize,
}

/// Why a wait has ended without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwoken {
    Late,
    Cancelled,
}

/// Counts a thread that waits, until dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a Waiters);

impl Waiters {
    pub(crate) fn new() -> Self {
        let (token, tokens) = bounded(1);
        Self { token, tokens, tasks: Mutex::new(Vec::new()), count: AtomicUsize::new(0) }
    }

    /// Gives a token.
    pub(crate) fn ring(&self) {
        // If there is one already, the thread that takes it looks at everything.
        let _ = self.token.try_send(());
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        self.count.fetch_sub(tasks.len(), Ordering::Relaxed);
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Whether anyone waits. The lock of the thing orders it: those that wait are counted under it.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Counts the calling thread, which is about to wait. Call it with the lock of the thing held.
    pub(crate) fn enter(&self) -> Waiting<'_> {
        self.count.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }

    /// Leaves a task's waker. Call it with the lock of the thing held.
    pub(crate) fn leave_waker(&self, waker: &Waker) {
        let mut tasks = lock(&self.tasks);
        if !tasks.iter().any(|other| other.will_wake(waker)) {
            tasks.push(waker.clone());
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The tokens, for a select.
    pub(crate) fn tokens(&self) -> &Receiver<()> {
        &self.tokens
    }

    /// Waits for a token.
    pub(crate) fn wait(&self, limit: WaitUntil) -> Result<(), Unwoken> {
        // This holds a sender, so the tokens are never disconnected.
        match limit {
            WaitUntil::Endless => self.tokens.recv().map_err(|_| Unwoken::Cancelled),
            WaitUntil::Until(deadline) => {
                self.tokens.recv_deadline(deadline).map_err(|missed| match missed {
                    RecvTimeoutError::Timeout => Unwoken::Late,
                    RecvTimeoutError::Cancelled | RecvTimeoutError::Disconnected => Unwoken::Cancelled,
                })
            }
            WaitUntil::Now => Err(Unwoken::Late),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}
