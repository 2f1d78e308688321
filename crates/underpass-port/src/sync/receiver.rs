//! Receiving from a synchronous port.

use crate::errors::PortRecvError;
use crate::pressure::{OtherSide, Pressure};
use crate::sync::message::{PortRequest, SyncMessage};
use crate::sync::reply::now_ms;
use crate::waiters::Waiters;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use underpass_os::fork;
use underpass_sync::mpmc::{Receiver, RecvError, RecvTimeoutError, TryRecvError};
use underpass_wire::Schema;

/// Receives the messages of a synchronous port. Each message goes to one of the clones. When the
/// last clone is dropped, the senders of all messages that were not received learn that.
///
/// It is a case of [`Select`](underpass_sync::Select) by itself.
///
/// # Examples
/// See the [module](crate::sync). Beside a channel and a timeout:
///
/// ```
/// use std::time::Duration;
/// use underpass::port::sync::SyncPortOptions;
/// use underpass::sync::{Select, mpmc};
///
/// let (service, port) = SyncPortOptions::new().open::<u32, u32>();
/// let (send, orders) = mpmc::unbounded();
/// send.send("stop").unwrap();
/// let order = Select::new()
///     .recv(&port, |came| {
///         let (number, reply) = came.ok()?.take();
///         reply.give(number + 1);
///         None
///     })
///     .recv(&orders, |order| order.ok())
///     .timeout(Duration::from_secs(60), || None)
///     .wait();
/// assert_eq!(order.unwrap(), Some("stop"));
/// # drop(service);
/// ```
pub struct SyncPortReceiver<M: SyncMessage, R: Schema + Send + 'static> {
    /// Its drop alone takes it out.
    queue: Option<Receiver<PortRequest<M, R>>>,
    tasks: Arc<Waiters>,
    /// The most messages of each sender, and how many senders there are.
    messages: u64,
    lanes: Arc<AtomicUsize>,
}

impl<M: SyncMessage, R: Schema + Send + 'static> SyncPortReceiver<M, R> {
    pub(crate) fn new(
        queue: Receiver<PortRequest<M, R>>,
        tasks: Arc<Waiters>,
        messages: u64,
        lanes: Arc<AtomicUsize>,
    ) -> Self {
        Self { queue: Some(queue), tasks, messages, lanes }
    }

    fn queue(&self) -> Result<&Receiver<PortRequest<M, R>>, PortRecvError> {
        // A child has none of its parent's messages.
        self.queue.as_ref().filter(|_| !fork::is_forked()).ok_or(PortRecvError::Disconnected)
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// [`PortRecvError::Disconnected`] if the port's service was dropped and all bindings have
    /// ended; [`PortRecvError::Cancelled`] if the thread is cancelled while it waits.
    #[inline]
    pub fn recv(&self) -> Result<PortRequest<M, R>, PortRecvError> {
        self.queue()?.recv().map(PortRequest::received).map_err(|why| match why {
            RecvError::Disconnected => PortRecvError::Disconnected,
            RecvError::Cancelled => PortRecvError::Cancelled,
        })
    }

    /// The next message, if there is one.
    ///
    /// # Errors
    /// [`PortRecvError::Empty`] or [`PortRecvError::Disconnected`].
    #[inline]
    pub fn try_recv(&self) -> Result<PortRequest<M, R>, PortRecvError> {
        let received = self.queue()?.try_recv();
        received.map(PortRequest::received).map_err(|why| match why {
            TryRecvError::Empty => PortRecvError::Empty,
            TryRecvError::Disconnected => PortRecvError::Disconnected,
        })
    }

    /// Waits for the next message, but no longer than `span`.
    ///
    /// # Errors
    /// [`PortRecvError::Timeout`], or as [`recv`](Self::recv).
    pub fn recv_timeout(&self, span: Duration) -> Result<PortRequest<M, R>, PortRecvError> {
        self.queue()?.recv_timeout(span).map(PortRequest::received).map_err(late)
    }

    /// Waits for the next message, but not beyond `deadline`.
    ///
    /// # Errors
    /// [`PortRecvError::Timeout`], or as [`recv`](Self::recv).
    pub fn recv_deadline(&self, deadline: Instant) -> Result<PortRequest<M, R>, PortRecvError> {
        self.queue()?.recv_deadline(deadline).map(PortRequest::received).map_err(late)
    }

    /// Waits for the next message, and blocks no thread. A future that is dropped has received
    /// nothing.
    ///
    /// # Errors
    /// [`PortRecvError::Disconnected`].
    pub async fn recv_async(&self) -> Result<PortRequest<M, R>, PortRecvError> {
        poll_fn(|task| self.poll_recv(task)).await
    }

    fn poll_recv(&self, task: &Context<'_>) -> Poll<Result<PortRequest<M, R>, PortRecvError>> {
        for waits in [false, true] {
            // The lock of the queue orders the waker and the last look: a message that is pushed
            // later finds the waker.
            if waits {
                self.tasks.leave_waker(task.waker());
            }
            match self.try_recv() {
                Err(PortRecvError::Empty) => {}
                came => return Poll::Ready(came),
            }
        }
        Poll::Pending
    }

    /// The messages as they come, until nothing will come any more or the thread is cancelled.
    pub fn messages(&self) -> SyncMessages<'_, M, R> {
        SyncMessages { receiver: self }
    }

    /// How much waits in this port, over all senders: messages that were not received. Messages
    /// with replies still to be given don't count. `rings` is 0: the domain's
    /// [`counters`](underpass_rpc::counters) have the wake-ups of replies.
    pub fn pressure(&self) -> Pressure {
        // A child has none of its parent's messages.
        let queue = self.queue().ok();
        let came = queue.and_then(|queue| queue.peek(|oldest| oldest.right().came_ms()));
        let age = |came: u32| Duration::from_millis(now_ms().wrapping_sub(came).into());
        // Relaxed: a count.
        let lanes = queue.map_or(0, |_| self.lanes.load(Ordering::Relaxed));
        Pressure {
            queued: self.queued() as u64,
            capacity: self.messages.saturating_mul(lanes as u64),
            oldest: came.map(age),
            lanes,
            rings: 0,
            other_side: if lanes == 0 { OtherSide::Gone } else { OtherSide::Runs },
        }
    }

    /// How many messages wait to be received.
    pub fn queued(&self) -> usize {
        self.queue().map_or(0, Receiver::len)
    }
}

fn late(why: RecvTimeoutError) -> PortRecvError {
    match why {
        RecvTimeoutError::Timeout => PortRecvError::Timeout,
        RecvTimeoutError::Disconnected => PortRecvError::Disconnected,
        RecvTimeoutError::Cancelled => PortRecvError::Cancelled,
    }
}

impl<M: SyncMessage, R: Schema + Send + 'static> AsRef<Receiver<PortRequest<M, R>>>
    for SyncPortReceiver<M, R>
{
    /// For a [`Select`](underpass_sync::Select).
    fn as_ref(&self) -> &Receiver<PortRequest<M, R>> {
        self.queue.as_ref().expect("only its drop takes it")
    }
}

impl<M: SyncMessage, R: Schema + Send + 'static> Clone for SyncPortReceiver<M, R> {
    fn clone(&self) -> Self {
        let (queue, tasks) = (self.queue.clone(), self.tasks.clone());
        Self { queue, tasks, messages: self.messages, lanes: self.lanes.clone() }
    }
}

impl<M: SyncMessage, R: Schema + Send + 'static> Drop for SyncPortReceiver<M, R> {
    fn drop(&mut self) {
        if fork::is_forked() {
            // A thread that does not exist in the child may hold the queue's lock.
            std::mem::forget(self.queue.take());
        }
    }
}

impl<M: SyncMessage, R: Schema + Send + 'static> fmt::Debug for SyncPortReceiver<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncPortReceiver").field("queued", &self.queued()).finish_non_exhaustive()
    }
}

/// Messages as they come; from [`SyncPortReceiver::messages`].
#[derive(Debug)]
pub struct SyncMessages<'a, M: SyncMessage, R: Schema + Send + 'static> {
    receiver: &'a SyncPortReceiver<M, R>,
}

impl<M: SyncMessage, R: Schema + Send + 'static> Iterator for SyncMessages<'_, M, R> {
    type Item = PortRequest<M, R>;

    fn next(&mut self) -> Option<Self::Item> {
        self.receiver.recv().ok()
    }
}
