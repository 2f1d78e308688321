//! A message that was sent, and whose reply is to come.

use crate::sync::errors::SyncSendError;
use crate::wait_until::WaitUntil;
use crate::waiters::{Unwoken, Waiters};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use underpass_rpc::Outcome;

/// The end of a call that carries a message.
type Sending<R> = Pin<Box<dyn Future<Output = Result<R, SyncSendError>> + Send>>;

/// The reply to a message, which may still be to come; from
/// [`SyncPortSender::begin`](crate::sync::SyncPortSender::begin). As a future it is for tasks.
///
/// If it is dropped, the message is given up: the receiver may have it all the same.
#[must_use = "if it is dropped, nobody waits for the reply"]
pub struct PendingReply<R>(State<R>);

enum State<R> {
    UnderWay(Sending<R>, Arc<Woken>),
    /// The reply came while the message was sent.
    Came(Result<R, SyncSendError>),
    /// It was taken.
    Taken,
}

/// Wakes the thread that waits.
struct Woken(Waiters);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.ring();
    }
}

impl<R: Send + 'static> PendingReply<R> {
    /// Waits until `send` has posted its message.
    pub(crate) fn begin<F>(send: impl FnOnce(Box<dyn FnMut() + Send>) -> F) -> Result<Self, SyncSendError>
    where
        F: Future<Output = Result<R, SyncSendError>> + Send + 'static,
    {
        let posted = Arc::new(AtomicBool::new(false));
        let post = posted.clone();
        // Relaxed, both: the thread that polls posts.
        let sending: Sending<R> = Box::pin(send(Box::new(move || post.store(true, Ordering::Relaxed))));
        let mut begun = Self(State::UnderWay(sending, Arc::new(Woken(Waiters::new()))));
        loop {
            if let Some(came) = begun.poll_once() {
                return came.map(|reply| Self(State::Came(Ok(reply))));
            }
            if posted.load(Ordering::Relaxed) {
                return Ok(begun);
            }
            begun.sleep(WaitUntil::Endless).map_err(|_| SyncSendError::Cancelled(Outcome::NotStarted))?;
        }
    }

    /// Waits for the reply.
    ///
    /// # Errors
    /// [`SyncSendError`].
    pub fn wait(self) -> Result<R, SyncSendError> {
        self.wait_within(WaitUntil::Endless).unwrap_or_else(|_| {
            // An endless wait is not late. The drop of the message has given it up.
            Err(SyncSendError::Cancelled(Outcome::Unknown))
        })
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

    fn wait_within(mut self, limit: WaitUntil) -> Result<Result<R, SyncSendError>, Self> {
        loop {
            if let Some(came) = self.poll_once() {
                return Ok(came);
            }
            match self.sleep(limit) {
                Ok(()) => {}
                Err(Unwoken::Late) => return Err(self),
                Err(Unwoken::Cancelled) => return Ok(Err(SyncSendError::Cancelled(Outcome::Unknown))),
            }
        }
    }

    fn poll_once(&mut self) -> Option<Result<R, SyncSendError>> {
        let waker = match &self.0 {
            State::UnderWay(_, woken) => Waker::from(woken.clone()),
            State::Came(_) | State::Taken => Waker::noop().clone(),
        };
        match Pin::new(self).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(came) => Some(came),
            Poll::Pending => None,
        }
    }

    fn sleep(&self, limit: WaitUntil) -> Result<(), Unwoken> {
        match &self.0 {
            State::UnderWay(_, woken) => woken.0.wait(limit),
            State::Came(_) | State::Taken => Ok(()),
        }
    }
}

impl<R> Unpin for PendingReply<R> {}

impl<R> Future for PendingReply<R> {
    type Output = Result<R, SyncSendError>;

    /// # Panics
    /// If it is polled after its end.
    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::UnderWay(sending, _) = &mut self.0 {
            let came = std::task::ready!(sending.as_mut().poll(task));
            self.0 = State::Taken;
            return Poll::Ready(came);
        }
        match std::mem::replace(&mut self.0, State::Taken) {
            State::Came(came) => Poll::Ready(came),
            State::UnderWay(..) | State::Taken => panic!("a future is not polled after its end"),
        }
    }
}

impl<R> fmt::Debug for PendingReply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingReply").finish_non_exhaustive()
    }
}
