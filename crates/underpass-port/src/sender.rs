//! Sending to a port.

use crate::arrival::WhyEnded;
use crate::errors::{ConnectError, PortSendError};
use crate::open::{PortOpen, PortOpenClient, hash_of};
use crate::pressure::{OtherSide, Pressure};
use crate::sender_end::{HeldLane, SenderEnd, SharedEnd, refusal};
use crate::wait_until::WaitUntil;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::time::{Duration, Instant};
use underpass_channel::Reservation;
use underpass_os::fork;
use underpass_os::process::{ProcessState, state_of};
use underpass_rpc::UntypedMessage;
use underpass_rpc::inspect::InterfaceView;
use underpass_wire::{Schema, Sink, from_bytes};

/// Sends to a port. The clones share one lane: their messages are received in the order in which
/// they were sent. A domain that connects twice has two lanes.
///
/// # Examples
/// See the [module](crate).
pub struct PortSender<T> {
    end: SharedEnd,
    of: PhantomData<fn(&T)>,
}

impl PortSender<UntypedMessage> {
    /// Connects to the port `name`, for a tool that does not have the type of its messages. The
    /// interface that is returned describes that type: a message is the argument of its method
    /// `send`. The owner checks what it decodes, and ends the lane of a sender that encodes
    /// something else.
    ///
    /// # Errors
    /// [`ConnectError`], each variant with its remedy. `Call` with `Unsupported`: the owner's
    /// version of Underpass does not tell the type, or the name has signals.
    ///
    /// # Examples
    /// ```
    /// use underpass::port::{Arrival, PortOptions, PortSender};
    /// use underpass::inspect::UntypedMessage;
    /// use underpass::{Encode, Server};
    ///
    /// # let dir = std::env::temp_dir().join(format!("underpass-doc-untyped-{}", std::process::id()));
    /// # // SAFETY: no other thread has been started yet.
    /// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
    /// let (service, port) = PortOptions::new().open::<String>()?;
    /// let running = Server::new().export("words", service).start()?;
    ///
    /// // Another process, which does not have the type:
    /// let (sender, described) = PortSender::connect_untyped("words")?;
    /// assert_eq!(described.methods[0].arguments, [("message".to_owned(), "String".to_owned())]);
    /// let mut message = UntypedMessage::default();
    /// "plum".encode(&mut message);
    /// sender.send(&message)?;
    ///
    /// let Arrival::Message(came) = port.recv()? else { panic!("the sender is there") };
    /// assert_eq!(came.message, "plum");
    /// # drop(running);
    /// # std::fs::remove_dir(dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect_untyped(name: &str) -> Result<(Self, InterfaceView), ConnectError> {
        let stub = PortOpenClient::import(name).map_err(ConnectError::Import)?;
        let told = stub.messages().map_err(ConnectError::Call)?;
        Ok((Self { end: SharedEnd::connect(stub, told.hash)?, of: PhantomData }, told.interface))
    }
}

impl<T: Schema> PortSender<T> {
    /// Connects to the port that is exported as `name`.
    ///
    /// # Errors
    /// [`ConnectError`], each variant with its remedy.
    pub fn connect(name: &str) -> Result<Self, ConnectError> {
        Self::over(PortOpenClient::import(name).map_err(ConnectError::Import)?)
    }

    /// Connects to the port that is exported as `name`, or that will be within `time`.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), when the time is over.
    pub fn connect_within(name: &str, time: Duration) -> Result<Self, ConnectError> {
        Self::over(PortOpenClient::import_within(name, time).map_err(ConnectError::Import)?)
    }

    fn over(stub: PortOpenClient) -> Result<Self, ConnectError> {
        Ok(Self { end: SharedEnd::connect(stub, hash_of::<T>())?, of: PhantomData })
    }

    /// Sends a message, and waits for room. Returns its number: how many messages this sender has
    /// sent before it.
    ///
    /// # Errors
    /// [`PortSendError`], except `Full` and `Timeout`.
    #[inline]
    pub fn send(&self, message: &T) -> Result<u64, PortSendError> {
        self.send_within(message, WaitUntil::Endless)
    }

    /// Sends a message if there is room for it.
    ///
    /// # Errors
    /// [`PortSendError`], except `Timeout` and `Cancelled`.
    #[inline]
    pub fn try_send(&self, message: &T) -> Result<u64, PortSendError> {
        self.end.try_send(message)
    }

    /// Sends a message; waits no longer than `span`.
    ///
    /// # Errors
    /// [`PortSendError`], except `Full`.
    pub fn send_timeout(&self, message: &T, span: Duration) -> Result<u64, PortSendError> {
        self.send_within(message, WaitUntil::of(span))
    }

    /// Sends a message; does not wait beyond `deadline`.
    ///
    /// # Errors
    /// [`PortSendError`], except `Full`.
    pub fn send_deadline(&self, message: &T, deadline: Instant) -> Result<u64, PortSendError> {
        self.send_within(message, WaitUntil::Until(deadline))
    }

    /// Sends a message, and waits for room without blocking a thread. A future that is dropped has
    /// sent nothing.
    ///
    /// # Errors
    /// [`PortSendError`], except `Full`, `Timeout` and `Cancelled`.
    pub async fn send_async(&self, message: &T) -> Result<u64, PortSendError> {
        loop {
            match self.end.try_send(message) {
                Err(PortSendError::Full) => {}
                sent => return sent,
            }
            // If it is woken for other room than it needs, it tries in vain, and waits again.
            let mut polled = false;
            poll_fn(|task| match std::mem::replace(&mut polled, true) {
                true => std::task::Poll::Ready(()),
                false => self.end.poll_room(message.size(), task),
            })
            .await;
        }
    }

    #[inline]
    fn send_within(&self, message: &T, limit: WaitUntil) -> Result<u64, PortSendError> {
        loop {
            match self.end.try_send(message) {
                Err(PortSendError::Full) => self.end.wait_for_room(message.size(), limit)?,
                sent => return sent,
            }
        }
    }

    /// Reserves room for a message of at most `most` bytes, if there is room now. The caller writes
    /// the value's bytes in place. While it lives, this sender's clones wait.
    ///
    /// # Errors
    /// [`PortSendError`], except `Timeout` and `Cancelled`.
    ///
    /// # Examples
    /// ```no_run
    /// # fn send(sender: &underpass::port::PortSender<Vec<u8>>) -> Result<(), underpass::port::PortSendError> {
    /// let mut room = sender.reserve(1 + 5)?;
    /// room.put(&[5]); // how many bytes follow, as of every `Vec` below 255
    /// room.put(b"hello");
    /// room.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reserve(&self, most: usize) -> Result<PortReservation<'_>, PortSendError> {
        if self.end.has_ended() {
            return Err(PortSendError::Disconnected);
        }
        let room = Reservation::on(self.end.lock(), most).map_err(refusal)?;
        Ok(PortReservation { room, end: &self.end })
    }

    /// How much of this sender waits in the port.
    pub fn pressure(&self) -> Pressure {
        let mut lane = self.end.lock();
        let sizes = lane.sizes();
        if fork::is_forked() {
            // A child has none of its parent's lanes.
            let (capacity, rings) = (sizes.items() as u64, self.end.rings());
            return Pressure {
                queued: 0,
                capacity,
                oldest: None,
                lanes: 1,
                rings,
                other_side: OtherSide::Gone,
            };
        }
        let queued = lane.queued().unwrap_or(0);
        let stamp = lane.oldest_stamp_ms().ok().flatten();
        let waits = lane.receiver_waits();
        drop(lane);
        let other_side = match state_of(self.end.owner()) {
            _ if self.end.has_ended() => OtherSide::Gone,
            ProcessState::Stopped => OtherSide::Stopped,
            _ if waits => OtherSide::Waits,
            _ => OtherSide::Runs,
        };
        let age = |stamp| Duration::from_millis(SenderEnd::now_ms().wrapping_sub(stamp).into());
        Pressure {
            queued,
            capacity: sizes.items() as u64,
            oldest: stamp.map(age),
            lanes: 1,
            rings: self.end.rings(),
            other_side,
        }
    }

    /// How many messages of this sender were given up because the port [drops the
    /// oldest](crate::PortOptions::drop_oldest). The receiver may have taken a few of them at that
    /// moment.
    pub fn dropped(&self) -> u64 {
        self.end.lock().dropped()
    }

    /// How many messages it has posted.
    #[cfg(test)]
    pub(crate) fn sent(&self) -> u64 {
        self.end.lock().posted()
    }

    /// The number of this sender's lane, as the receivers see it
    /// ([`SenderId::lane`](crate::SenderId::lane)).
    pub fn lane(&self) -> u64 {
        self.end.number()
    }

    /// Why this sender's lane has ended. `None` if it has not. `Finished`: the owner has dropped
    /// its receivers. It asks the owner, which takes as long as a call, but no longer than 2 s.
    pub fn ended(&self) -> Option<WhyEnded> {
        self.end.why_ended()
    }

    /// The messages that the owner has not received and will not receive, with their numbers,
    /// oldest first. Every other message may have been received, once at most. It is empty as long
    /// as the lane has not ended.
    ///
    /// A hostile owner may have changed these messages. One that is no value of the type any more
    /// is left out.
    ///
    /// # Examples
    /// ```no_run
    /// # fn send(sender: underpass::port::PortSender<String>, name: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// use underpass::port::PortSender;
    ///
    /// // The owner has been restarted: what the old one has not received goes to the new one.
    /// let next = PortSender::connect(name)?;
    /// for (_, message) in sender.unreceived() {
    ///     next.send(&message)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn unreceived(&self) -> Vec<(u64, T)> {
        if !self.end.has_ended() || fork::is_forked() {
            return Vec::new();
        }
        let back = self.end.lock().unreceived();
        back.into_iter().filter_map(|(number, bytes)| Some((number, from_bytes(&bytes).ok()?))).collect()
    }
}

impl<T> Clone for PortSender<T> {
    fn clone(&self) -> Self {
        Self { end: self.end.clone(), of: PhantomData }
    }
}

impl<T> fmt::Debug for PortSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortSender").field("lane", &self.end.number()).finish_non_exhaustive()
    }
}

/// Room for one message; from [`PortSender::reserve`]. If it is dropped, nothing is sent.
#[derive(Debug)]
#[must_use = "nothing is sent before `commit`"]
pub struct PortReservation<'a> {
    room: Reservation<HeldLane<'a>>,
    end: &'a SenderEnd,
}

impl PortReservation<'_> {
    /// How many more bytes there is room for.
    pub fn left(&self) -> usize {
        self.room.left()
    }

    /// Appends bytes of the message.
    pub fn put(&mut self, bytes: &[u8]) {
        self.room.put(bytes);
    }

    /// Sends the message. Returns its number.
    ///
    /// # Errors
    /// [`PortSendError::TooLong`] if more bytes were put than were reserved.
    /// [`PortSendError::NoMemory`].
    pub fn commit(self) -> Result<u64, PortSendError> {
        let (number, lane) = self.room.commit(SenderEnd::now_ms()).map_err(refusal)?;
        self.end.posted(lane);
        Ok(number)
    }
}
