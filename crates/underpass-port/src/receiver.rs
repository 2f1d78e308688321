//! Receiving from a port.

use crate::arrival::{Arrival, PortMessage};
use crate::errors::PortRecvError;
use crate::owner::{PortCore, Taken};
use crate::pressure::{OtherSide, Pressure};
use crate::wait_until::WaitUntil;
use crate::waiters::Unwoken;
use crate::watch::PortWatch;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use underpass_os::{clock, failpoint, fork};
use underpass_sync::Mutex;
use underpass_wire::{Schema, from_bytes};

/// How often a task looks in one poll. A hostile sender may wake it for nothing, again and again.
const POLL_LOOKS: u32 = 16;

/// Receives the messages of a port. Each message goes to one of the clones. When the last clone is
/// dropped, all lanes end, and their senders learn which messages were not received.
///
/// # Examples
/// See the [module](crate).
pub struct PortReceiver<T> {
    pub(crate) port: Arc<PortCore>,
    /// Where the bytes of the next message are copied to.
    bytes: Mutex<Vec<u8>>,
    of: PhantomData<fn() -> T>,
}

impl<T: Schema> PortReceiver<T> {
    pub(crate) fn new(port: Arc<PortCore>) -> Self {
        Self { port, bytes: Mutex::new(Vec::new()), of: PhantomData }
    }

    /// Waits for what comes next: a message, or the end of a lane.
    ///
    /// # Errors
    /// [`PortRecvError::Disconnected`] if the port's service was dropped and all lanes have ended;
    /// [`PortRecvError::Cancelled`] if the thread is cancelled while it waits.
    #[inline]
    pub fn recv(&self) -> Result<Arrival<T>, PortRecvError> {
        self.recv_within(WaitUntil::Endless)
    }

    /// What comes next, if it is there.
    ///
    /// # Errors
    /// [`PortRecvError::Empty`] or [`PortRecvError::Disconnected`].
    #[inline]
    pub fn try_recv(&self) -> Result<Arrival<T>, PortRecvError> {
        self.recv_within(WaitUntil::Now)
    }

    /// Waits for what comes next, but no longer than `span`.
    ///
    /// # Errors
    /// [`PortRecvError::Timeout`], or as [`recv`](Self::recv).
    pub fn recv_timeout(&self, span: Duration) -> Result<Arrival<T>, PortRecvError> {
        self.recv_within(WaitUntil::of(span))
    }

    /// Waits for what comes next, but not beyond `deadline`.
    ///
    /// # Errors
    /// [`PortRecvError::Timeout`], or as [`recv`](Self::recv).
    pub fn recv_deadline(&self, deadline: Instant) -> Result<Arrival<T>, PortRecvError> {
        self.recv_within(WaitUntil::Until(deadline))
    }

    /// Waits for what comes next, and blocks no thread. A future that is dropped has received
    /// nothing.
    ///
    /// # Errors
    /// [`PortRecvError::Disconnected`].
    pub async fn recv_async(&self) -> Result<Arrival<T>, PortRecvError> {
        poll_fn(|task| self.poll_recv(task)).await
    }

    /// Waits until at least `least` messages and ends have come, or `span` has passed. Returns
    /// those, and what else is there by then, `most` at the most.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), if nothing has come.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use underpass::port::{PortOptions, PortRecvError};
    ///
    /// let (service, receiver) = PortOptions::new().open::<u32>()?;
    /// // At least 100 at once, or what has come after a millisecond.
    /// let batch = receiver.recv_batch(100, 1_000, Duration::from_millis(1));
    /// assert_eq!(batch.unwrap_err(), PortRecvError::Timeout);
    /// # drop(service);
    /// # Ok::<(), underpass::port::BadLaneSizes>(())
    /// ```
    pub fn recv_batch(
        &self,
        least: usize,
        most: usize,
        span: Duration,
    ) -> Result<Vec<Arrival<T>>, PortRecvError> {
        let limit = WaitUntil::of(span);
        let mut batch = Vec::new();
        while batch.len() < most {
            let limit = if batch.len() < least { limit } else { WaitUntil::Now };
            match self.recv_within(limit) {
                Ok(arrival) => batch.push(arrival),
                Err(why) if batch.is_empty() => return Err(why),
                Err(_) => break,
            }
        }
        Ok(batch)
    }

    /// The messages as they come, without the ends of lanes, until nothing will come any more or
    /// the thread is cancelled.
    pub fn messages(&self) -> Messages<'_, T> {
        Messages { receiver: self }
    }

    /// Waits for this port in a [`Select`](underpass_sync::Select). See [`PortWatch`].
    pub fn watch(&self) -> PortWatch<'_> {
        PortWatch::new(&self.port)
    }

    /// How much waits in this port, over all senders.
    pub fn pressure(&self) -> Pressure {
        let now_ms = (clock::now_ns() / 1_000_000) as u32;
        // A child has none of its parent's lanes.
        let (queued, age, lanes) =
            if fork::is_forked() { (0, None, 0) } else { self.port.lanes().queued(now_ms) };
        Pressure {
            queued,
            capacity: (self.port.sizes().items() * lanes) as u64,
            oldest: age.map(|ms| Duration::from_millis(ms.into())),
            lanes,
            rings: self.port.rings(),
            other_side: if lanes == 0 { OtherSide::Gone } else { OtherSide::Runs },
        }
    }

    /// How many lanes the receivers of this port have looked at since it was opened. A lane whose
    /// sender is quiet is not looked at: with 1,000 senders of which ten are busy, each message
    /// takes as many looks as with those ten.
    pub fn looks(&self) -> u64 {
        // A child has none of its parent's lanes.
        if fork::is_forked() { 0 } else { self.port.lanes().looks() }
    }

    /// Steps R1 and R2.
    #[inline]
    fn next(&self) -> Result<Option<Arrival<T>>, PortRecvError> {
        if fork::is_forked() {
            return Err(PortRecvError::Disconnected);
        }
        let mut own = Vec::new();
        let mut kept = self.bytes.try_lock().ok();
        let bytes = kept.as_deref_mut().unwrap_or(&mut own);
        let mut lanes = self.port.lanes();
        let Some(taken) = lanes.take(bytes) else {
            return if lanes.is_over() { Err(PortRecvError::Disconnected) } else { Ok(None) };
        };
        failpoint!("owner-taken");
        let token = self.port.hand_on(&mut lanes);
        drop(lanes);
        failpoint!("owner-handed-on");
        if token {
            self.port.waiters.ring();
        }
        Ok(Some(match taken {
            Taken::Ended(ended, _slot) => Arrival::Ended(ended),
            Taken::Counts(..) => return Ok(None),
            Taken::Message(from, head, room) => {
                room.inspect(|lane| self.port.ring_for_room(lane));
                match from_bytes(bytes) {
                    Ok(message) => {
                        Arrival::Message(PortMessage { message, from, number: head.number, lost: head.lost })
                    }
                    Err(_) => Arrival::Ended(self.port.end(from)),
                }
            }
        }))
    }

    #[inline]
    fn recv_within(&self, limit: WaitUntil) -> Result<Arrival<T>, PortRecvError> {
        let mut waited = false;
        loop {
            match self.next() {
                Ok(Some(arrival)) => return Ok(arrival),
                Ok(None) if limit == WaitUntil::Now => return Err(PortRecvError::Empty),
                // A hostile sender may wake this end for nothing, again and again.
                Ok(None) if waited && limit.is_over() => return Err(PortRecvError::Timeout),
                Ok(None) => self.wait(limit)?,
                Err(why) => {
                    // Others may wait for what will not come, too.
                    self.port.waiters.ring();
                    return Err(why);
                }
            }
            waited = true;
        }
    }

    /// Steps W1 to W4.
    #[cold]
    fn wait(&self, limit: WaitUntil) -> Result<(), PortRecvError> {
        let mut lanes = self.port.lanes();
        if lanes.is_over() {
            return Ok(());
        }
        let waiting = self.port.waiters.enter();
        if lanes.announce_wait() {
            return Ok(());
        }
        failpoint!("owner-waits");
        drop(lanes);
        let woken = self.port.waiters.wait(limit);
        drop(waiting);
        failpoint!("owner-woken");
        woken.map_err(|why| match why {
            Unwoken::Late => PortRecvError::Timeout,
            Unwoken::Cancelled => PortRecvError::Cancelled,
        })
    }

    fn poll_recv(&self, task: &Context<'_>) -> Poll<Result<Arrival<T>, PortRecvError>> {
        for _ in 0..POLL_LOOKS {
            match self.next() {
                Ok(Some(arrival)) => return Poll::Ready(Ok(arrival)),
                Err(why) => {
                    self.port.waiters.ring();
                    return Poll::Ready(Err(why));
                }
                Ok(None) => {}
            }
            let mut lanes = self.port.lanes();
            if !lanes.is_over() {
                self.port.waiters.leave_waker(task.waker());
                if !lanes.announce_wait() {
                    return Poll::Pending;
                }
            }
        }
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<T: Schema> Clone for PortReceiver<T> {
    fn clone(&self) -> Self {
        self.port.add_receiver();
        Self::new(self.port.clone())
    }
}

impl<T> Drop for PortReceiver<T> {
    fn drop(&mut self) {
        match fork::is_forked() {
            // A child has none of its parent's lanes, and must not unmap them.
            true => std::mem::forget(self.port.clone()),
            false => self.port.drop_receiver(),
        }
    }
}

impl<T> fmt::Debug for PortReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortReceiver").field("sizes", &self.port.sizes()).finish_non_exhaustive()
    }
}

/// Messages as they come; from [`PortReceiver::messages`].
#[derive(Debug)]
pub struct Messages<'a, T> {
    receiver: &'a PortReceiver<T>,
}

impl<T: Schema> Iterator for Messages<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            if let Arrival::Message(came) = self.receiver.recv().ok()? {
                return Some(came.message);
            }
        }
    }
}
