//! Sending to a synchronous port.

use crate::errors::ConnectError;
use crate::pressure::{OtherSide, Pressure};
use crate::sync::errors::SyncSendError;
use crate::sync::interface::descriptor;
use crate::sync::message::SyncMessage;
use crate::sync::pending::PendingReply;
use crate::sync::sender_end::{Elsewhere, SyncSenderEnd, Turn};
use crate::wait_until::WaitUntil;
use std::borrow::Borrow;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass_os::fork;
use underpass_rpc::{AllLeased, Counters, ImportError, Policy, ServerState, Stub};
use underpass_wire::Schema;

/// Sends to a synchronous port. The clones share credits and an order: their messages are received
/// in the order in which they were sent. A domain that connects twice has two orders.
///
/// # Examples
/// See the [module](crate::sync).
pub struct SyncPortSender<M, R> {
    end: Arc<SyncSenderEnd>,
    of: PhantomData<fn(M) -> R>,
}

impl<M: SyncMessage, R: Schema + Send + 'static> SyncPortSender<M, R> {
    /// Connects to the port that is exported as `name`.
    ///
    /// # Errors
    /// [`ConnectError`], each variant with its remedy.
    pub fn connect(name: &str) -> Result<Self, ConnectError> {
        Self::over(Stub::import(name, descriptor::<M, R>(), None), false)
    }

    /// Connects to the port that is exported as `name`, or that will be within `time`.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), when the time is over.
    pub fn connect_within(name: &str, time: Duration) -> Result<Self, ConnectError> {
        Self::over(Stub::import(name, descriptor::<M, R>(), Some(time)), false)
    }

    /// Connects to the port that is exported as `name`, and connects again whenever the owner has
    /// ended, as `policy` says. Messages that were not received are sent again.
    ///
    /// Messages over such a sender have the order in which each thread sends them, if it waits for
    /// the replies. Those that are [begun](Self::begin) have none.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_resilient(name: &str, policy: Policy) -> Result<Self, ConnectError> {
        Self::over(Stub::import_resilient(name, descriptor::<M, R>(), policy), true)
    }

    fn over(stub: Result<Stub<Elsewhere>, ImportError>, resilient: bool) -> Result<Self, ConnectError> {
        let end = SyncSenderEnd::connect(stub.map_err(ConnectError::Import)?, resilient)?;
        Ok(Self { end, of: PhantomData })
    }

    /// Sends a message, and waits for the reply; before that, it waits for room.
    ///
    /// # Errors
    /// [`SyncSendError`], except `Full`. `Timeout` if the thread serves a call with a deadline.
    #[inline]
    pub fn send(&self, message: &M::Sent) -> Result<R, SyncSendError> {
        self.end.check(message)?;
        let turn = self.end.turn(WaitUntil::Endless)?;
        turn.send(&self.end.stub, message).map_err(SyncSendError::after_waiting)
    }

    /// Sends a message if there is room for it, and waits for the reply.
    ///
    /// # Errors
    /// [`SyncSendError`], except `Timeout`.
    pub fn try_send(&self, message: &M::Sent) -> Result<R, SyncSendError> {
        self.end.check(message)?;
        let turn = self.end.turn(WaitUntil::Now)?;
        turn.send(&self.end.stub.when_all_leased(AllLeased::Fail), message)
    }

    /// Sends a message; waits for room and for the reply no longer than `span`, both together.
    ///
    /// # Errors
    /// [`SyncSendError`], except `Full`.
    pub fn send_timeout(&self, message: &M::Sent, span: Duration) -> Result<R, SyncSendError> {
        self.send_until(message, Instant::now().checked_add(span))
    }

    /// Sends a message; waits for room and for the reply, but not beyond `deadline`.
    ///
    /// # Errors
    /// [`SyncSendError`], except `Full`.
    pub fn send_deadline(&self, message: &M::Sent, deadline: Instant) -> Result<R, SyncSendError> {
        self.send_until(message, Some(deadline))
    }

    fn send_until(&self, message: &M::Sent, deadline: Option<Instant>) -> Result<R, SyncSendError> {
        // A time that the clock does not reach is no limit.
        let Some(deadline) = deadline else { return self.send(message) };
        self.end.check(message)?;
        let turn = self.end.turn(WaitUntil::Until(deadline))?;
        let left = deadline.saturating_duration_since(Instant::now());
        turn.send(&self.end.stub.with_deadline(left), message).map_err(SyncSendError::after_waiting)
    }

    /// Sends a message, and waits for room and for the reply without blocking a thread. A future
    /// that is dropped gives the message up: the receiver may have it all the same.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_async(&self, message: &M::Sent) -> Result<R, SyncSendError> {
        self.end.check(message)?;
        let turn = poll_fn(|task| self.end.poll_turn(task)).await;
        turn.send_async(message).await.map_err(SyncSendError::after_waiting)
    }

    /// Sends a message, and returns once there is room for it. The reply comes to the returned
    /// value, where any thread or task can wait for it.
    ///
    /// A user-level thread of its own carries the message, and waits for the reply.
    ///
    /// # Errors
    /// `Cancelled`, `Timeout` and `TooLong`, as of [`send`](Self::send). All other errors come to
    /// the returned value.
    ///
    /// # Examples
    /// ```no_run
    /// # use underpass::port::sync::{SyncPortSender, SyncSendError};
    /// # fn send(jobs: &SyncPortSender<String, u64>) -> Result<(), SyncSendError> {
    /// let (first, second) = (jobs.begin("first".to_owned())?, jobs.begin("second".to_owned())?);
    /// // The replies may come in any order.
    /// println!("{} {}", second.wait()?, first.wait()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn begin(
        &self,
        message: impl Borrow<M::Sent> + Send + 'static,
    ) -> Result<PendingReply<R>, SyncSendError> {
        self.end.check(message.borrow())?;
        let turn: Turn<Arc<SyncSenderEnd>> = self.end.turn(WaitUntil::Endless)?.owned();
        let stub = self.end.stub.clone();
        Ok(PendingReply::carried_by(move || {
            turn.send(&stub, message.borrow()).map_err(SyncSendError::after_waiting)
        }))
    }
}

impl<M, R> SyncPortSender<M, R> {
    /// How many messages may be under way at once.
    pub fn messages(&self) -> u64 {
        self.end.sizes.messages
    }

    /// How many messages are under way: sent, and without a reply.
    pub fn under_way(&self) -> u64 {
        self.end.under_way()
    }

    /// How much of this sender waits in the port: `queued` are its messages under way, those that
    /// were received among them. `oldest` is always `None`: only the owner knows
    /// ([`SyncPortReceiver::pressure`](crate::sync::SyncPortReceiver::pressure)). `rings` are the
    /// wake-ups that messages have sent. The other side is the owner's domain: it
    /// [waits](OtherSide::Waits) if none of its processors looks for messages. Of a
    /// [resilient](Self::connect_resilient) sender it is said to run.
    pub fn pressure(&self) -> Pressure
    where
        M: 'static,
        R: 'static,
    {
        let other_side = match self.end.stub.server() {
            _ if fork::is_forked() => OtherSide::Gone,
            Some(ServerState::Gone) => OtherSide::Gone,
            Some(ServerState::Stopped) => OtherSide::Stopped,
            Some(ServerState::Sleeps) => OtherSide::Waits,
            Some(ServerState::Runs) | None => OtherSide::Runs,
        };
        Pressure {
            queued: self.under_way(),
            capacity: self.messages(),
            oldest: None,
            lanes: 1,
            rings: self.counters().wakeups_sent,
            other_side,
        }
    }

    /// The number of this sender, as the receivers see it
    /// ([`SenderId::lane`](crate::SenderId::lane)).
    pub fn lane(&self) -> u64 {
        self.end.sizes.lane
    }

    /// The costs of this sender so far.
    pub fn counters(&self) -> Counters
    where
        M: 'static,
        R: 'static,
    {
        self.end.stub.counters()
    }
}

impl<M, R> Clone for SyncPortSender<M, R> {
    fn clone(&self) -> Self {
        Self { end: self.end.clone(), of: PhantomData }
    }
}

impl<M, R> fmt::Debug for SyncPortSender<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncPortSender").field("lane", &self.lane()).finish_non_exhaustive()
    }
}
