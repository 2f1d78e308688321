//! The reply to a message, before it has come.
//!
//! A user-level thread carries the message. So its slot of the connection is free as soon as the
//! reply has come, or the call is answered late, whether anybody waits here or not.

use crate::guard::lock;
use crate::sync::errors::SyncSendError;
use crate::wait_until::WaitUntil;
use crate::waiters::{Unwoken, Waiters};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use underpass_os::fork;
use underpass_rpc::{Outcome, cancellation};
use underpass_sync::Mutex;
use underpass_threads::{Thread, spawn};

/// The reply to a message, which may still be to come; from
/// [`SyncPortSender::begin`](crate::sync::SyncPortSender::begin). As a future it is for tasks.
///
/// If it is dropped, the message is given up: the receiver may have it all the same.
#[must_use = "if it is dropped, the message is given up"]
pub struct PendingReply<R> {
    coming: Arc<Coming<R>>,
    carrier: Thread,
}

/// Where the carrier leaves the reply.
struct Coming<R> {
    state: Mutex<State<R>>,
    waiters: Waiters,
}

enum State<R> {
    UnderWay,
    Came(Result<R, SyncSendError>),
    Taken,
}

impl<R> Coming<R> {
    /// Under the lock: the reply, if it has come. Otherwise calls `wait`, which enters a waiter.
    fn take_or<W>(&self, wait: impl FnOnce() -> W) -> Result<Result<R, SyncSendError>, W> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Came(came) => Ok(came),
            State::UnderWay => {
                *state = State::UnderWay;
                Err(wait())
            }
            State::Taken => panic!("a future is not polled after its end"),
        }
    }
}

/// Leaves what came, when it is dropped.
struct Carried<R> {
    there: Arc<Coming<R>>,
    came: Option<Result<R, SyncSendError>>,
}

impl<R> Drop for Carried<R> {
    fn drop(&mut self) {
        if let Some(came) = self.came.take() {
            *lock(&self.there.state) = State::Came(came);
            self.there.waiters.ring();
        }
    }
}

impl<R: Send + 'static> PendingReply<R> {
    /// Of the message that `send` sends, on a thread of its own. The thread works for the call that
    /// the calling thread serves, if there is one.
    pub(crate) fn carried_by(send: impl FnOnce() -> Result<R, SyncSendError> + Send + 'static) -> Self {
        let coming = Arc::new(Coming { state: Mutex::new(State::UnderWay), waiters: Waiters::new() });
        let (there, work) = (coming.clone(), cancellation());
        let carrier = spawn(move || {
            // What remains if the user's code panics, which encodes and decodes.
            let mut carried = Carried { there, came: Some(Err(SyncSendError::Cancelled(Outcome::Unknown))) };
            carried.came = Some(work.scope(send));
        });
        Self { coming, carrier: carrier.thread().clone() }
    }

    /// Waits for the reply.
    ///
    /// # Errors
    /// [`SyncSendError`].
    pub fn wait(self) -> Result<R, SyncSendError> {
        // An endless wait is not late.
        self.wait_within(WaitUntil::Endless).unwrap_or(Err(SyncSendError::Cancelled(Outcome::Unknown)))
    }

    /// Waits for the reply, but no longer than `span`.
    ///
    /// # Errors
    /// Itself, if none came in time: it can be waited for again.
    pub fn wait_timeout(self, span: Duration) -> Result<Result<R, SyncSendError>, Self> {
        self.wait_within(WaitUntil::of(span))
    }

    /// The reply, if it has come.
    ///
    /// # Errors
    /// Itself, if none has come.
    pub fn try_wait(self) -> Result<Result<R, SyncSendError>, Self> {
        self.wait_within(WaitUntil::Now)
    }

    fn wait_within(self, limit: WaitUntil) -> Result<Result<R, SyncSendError>, Self> {
        let waiters = &self.coming.waiters;
        loop {
            let waiting = match self.coming.take_or(|| waiters.enter()) {
                Ok(came) => return Ok(came),
                Err(waiting) => waiting,
            };
            let woken = waiters.wait(limit);
            drop(waiting);
            match woken {
                Ok(()) => {}
                Err(Unwoken::Late) => return Err(self),
                Err(Unwoken::Cancelled) => return Ok(Err(SyncSendError::Cancelled(Outcome::Unknown))),
            }
        }
    }
}

impl<R> Future for PendingReply<R> {
    type Output = Result<R, SyncSendError>;

    /// # Panics
    /// If it is polled after its end.
    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let waiters = &self.coming.waiters;
        match self.coming.take_or(|| waiters.leave_waker(task.waker())) {
            Ok(came) => Poll::Ready(came),
            Err(()) => Poll::Pending,
        }
    }
}

impl<R> Drop for PendingReply<R> {
    fn drop(&mut self) {
        // A forked child has no carrier.
        if !fork::is_forked() && matches!(*lock(&self.coming.state), State::UnderWay) {
            self.carrier.cancel();
        }
    }
}

impl<R> fmt::Debug for PendingReply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingReply").field("carrier", &self.carrier).finish_non_exhaustive()
    }
}
