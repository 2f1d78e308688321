//! A sender's end: credits, numbers, and the calls that carry messages. S1 to S3 of `README.md`.

use crate::errors::ConnectError;
use crate::guard::lock;
use crate::sync::errors::SyncSendError;
use crate::sync::interface::{NO_NUMBER, OPEN, PortRefusal, RefusalMark, SEND, SKIP, SyncPortSizes};
use crate::wait_until::WaitUntil;
use crate::waiters::{Unwoken, Waiters};
use std::borrow::Borrow;
use std::sync::Arc;
use std::task::{Context, Poll};
use underpass_os::{failpoint, fork};
use underpass_rpc::{CallError, Outcome, Stub, detached};
use underpass_sync::Mutex;
use underpass_wire::{Encode, Schema};

/// The implementation of a port is never local: its messages go over a channel, also within one
/// domain.
#[derive(Debug)]
pub(crate) enum Elsewhere {}

/// A sender's end, which the clones of the sender share.
#[derive(Debug)]
pub(crate) struct SyncSenderEnd {
    pub(crate) stub: Stub<Elsewhere>,
    pub(crate) sizes: SyncPortSizes,
    /// Whether its messages have numbers.
    ordered: bool,
    counts: Mutex<Counts>,
    credits: Waiters,
}

/// What S1 takes.
#[derive(Debug)]
struct Counts {
    /// How many more messages may be under way.
    credits: u64,
    /// The number of the next message.
    next: u64,
}

impl SyncSenderEnd {
    /// Asks the owner for its sizes. `resilient`: the binding may lead to another owner later.
    pub(crate) fn connect(stub: Stub<Elsewhere>, resilient: bool) -> Result<Arc<Self>, ConnectError> {
        let sizes = stub.call::<(), SyncPortSizes, RefusalMark>(OPEN, &()).map_err(ConnectError::of)?;
        // An owner that says 0 would have no sender.
        let counts = Counts { credits: sizes.messages.max(1), next: 0 };
        let ordered = sizes.ordered && !resilient;
        Ok(Arc::new(Self { stub, sizes, ordered, counts: Mutex::new(counts), credits: Waiters::new() }))
    }

    /// *S1,* if there is a credit. Returns the message's number.
    #[inline]
    fn take(&self) -> Option<u64> {
        let mut counts = lock(&self.counts);
        counts.credits = counts.credits.checked_sub(1)?;
        let number = if self.ordered { counts.next } else { NO_NUMBER };
        counts.next += 1;
        failpoint!("sync-sender-turn");
        let hand_on = counts.credits > 0 && self.credits.any();
        drop(counts);
        if hand_on {
            self.credits.ring();
        }
        Some(number)
    }

    /// *S1,* waiting for a credit. The message must not be longer than the port allows.
    #[inline]
    pub(crate) fn turn(self: &Arc<Self>, limit: WaitUntil) -> Result<Turn<&Arc<Self>>, SyncSendError> {
        loop {
            if let Some(number) = self.take() {
                return Ok(Turn { end: self, number: Some(number), settled: false });
            }
            self.wait(limit)?;
        }
    }

    #[cold]
    fn wait(&self, limit: WaitUntil) -> Result<(), SyncSendError> {
        if limit == WaitUntil::Now {
            return Err(SyncSendError::Full);
        }
        let counts = lock(&self.counts);
        if counts.credits > 0 {
            return Ok(());
        }
        let waiting = self.credits.enter();
        drop(counts);
        // As with every call, the deadline of the call that the thread serves counts too.
        let limit = match (limit, underpass_rpc::deadline()) {
            (WaitUntil::Endless, Some(served)) => WaitUntil::Until(served),
            (WaitUntil::Until(own), Some(served)) => WaitUntil::Until(own.min(served)),
            (limit, _) => limit,
        };
        let woken = self.credits.wait(limit);
        drop(waiting);
        woken.map_err(|why| match why {
            Unwoken::Late => SyncSendError::Timeout(Outcome::NotStarted),
            Unwoken::Cancelled => SyncSendError::Cancelled(Outcome::NotStarted),
        })
    }

    /// *S1,* for a task.
    pub(crate) fn poll_turn<'a>(self: &'a Arc<Self>, task: &Context<'_>) -> Poll<Turn<&'a Arc<Self>>> {
        loop {
            if let Some(number) = self.take() {
                return Poll::Ready(Turn { end: self, number: Some(number), settled: false });
            }
            let counts = lock(&self.counts);
            if counts.credits == 0 {
                self.credits.leave_waker(task.waker());
                return Poll::Pending;
            }
        }
    }

    /// A message is under way no more.
    #[inline]
    fn give_back(&self) {
        let mut counts = lock(&self.counts);
        counts.credits += 1;
        let any = self.credits.any();
        drop(counts);
        if any {
            self.credits.ring();
        }
    }

    /// Whether the port takes messages of this length.
    #[inline]
    pub(crate) fn check<T: Encode + ?Sized>(&self, message: &T) -> Result<(), SyncSendError> {
        let size = T::FIXED.unwrap_or_else(|| message.size());
        if size as u64 > self.sizes.longest { Err(SyncSendError::TooLong) } else { Ok(()) }
    }

    /// How many messages are under way.
    pub(crate) fn under_way(&self) -> u64 {
        self.sizes.messages.max(1).saturating_sub(lock(&self.counts).credits)
    }
}

/// A message under way: a credit and a number. When it is dropped, the credit goes back, once the
/// owner knows what has become of the number (O2).
#[derive(Debug)]
pub(crate) struct Turn<E: Borrow<Arc<SyncSenderEnd>>> {
    end: E,
    /// `None` if another value has it.
    number: Option<u64>,
    /// The owner has answered it, or never will.
    settled: bool,
}

impl<E: Borrow<Arc<SyncSenderEnd>>> Turn<E> {
    /// *S2 and S3,* over `stub`, which is that of the end, with terms of its own.
    #[inline]
    pub(crate) fn send<A: Encode + ?Sized, R: Schema>(
        mut self,
        stub: &Stub<Elsewhere>,
        message: &A,
    ) -> Result<R, SyncSendError> {
        let number = self.number.unwrap_or(NO_NUMBER);
        let result = stub.call::<_, R, RefusalMark>(SEND, &(&number, message));
        self.concludes(result)
    }

    /// *S2 and S3,* for a task.
    pub(crate) async fn send_async<A: Encode + Sync + ?Sized, R: Schema>(
        mut self,
        message: &A,
    ) -> Result<R, SyncSendError> {
        let number = self.number.unwrap_or(NO_NUMBER);
        let arguments = (&number, message);
        let stub = &self.end.borrow().stub;
        let result = stub.call_async::<_, R, RefusalMark>(SEND, &arguments).await;
        self.concludes(result)
    }

    #[inline]
    fn concludes<R>(&mut self, result: Result<R, PortRefusal>) -> Result<R, SyncSendError> {
        self.settled = match &result {
            Ok(_) | Err(PortRefusal::TooLong | PortRefusal::NotReceived) => true,
            Err(PortRefusal::Call(error)) => settles(error),
        };
        failpoint!("sync-sender-answered");
        result.map_err(SyncSendError::of)
    }

    /// The same, for another thread.
    pub(crate) fn owned(mut self) -> Turn<Arc<SyncSenderEnd>> {
        let number = self.number.take();
        Turn { end: self.end.borrow().clone(), number, settled: self.settled }
    }
}

/// Whether a message with this error has come to the owner (D2), or no number comes any more.
#[cold]
fn settles(error: &CallError) -> bool {
    use CallError::{Captured, Closed, Dropped, Forked, PeerDied, Revoked};
    matches!(error, Captured(_) | Closed(_) | Dropped(_) | Forked | PeerDied(_) | Revoked(_))
}

impl<E: Borrow<Arc<SyncSenderEnd>>> Drop for Turn<E> {
    fn drop(&mut self) {
        let end = self.end.borrow();
        let Some(number) = self.number.filter(|_| !fork::is_forked()) else { return };
        if self.settled || number == NO_NUMBER {
            return end.give_back();
        }
        let end = end.clone();
        // It may take as long as the owner is stopped.
        drop(underpass_threads::spawn(move || {
            failpoint!("sync-sender-skips");
            // If it fails, the binding has ended.
            let _ = detached(|| end.stub.call::<_, (), RefusalMark>(SKIP, &number));
            end.give_back();
        }));
    }
}
