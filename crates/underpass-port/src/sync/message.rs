//! The types of messages, and a message that was received.

use crate::__private::{IncomingCall, Refused};
use crate::arrival::SenderId;
use crate::sync::reply::Reply;
use std::fmt;
use underpass_os::failpoint;
use underpass_rpc::SharedLater;
use underpass_wire::{ArgumentPlace, Encode, Schema};

/// A type of the messages of a synchronous port: every type that travels, and [`SharedMessage`].
pub trait SyncMessage: 'static {
    /// What the sender sends.
    type Sent: Encode + Sync + ?Sized;
    /// What the receiver gets.
    type Arrives: Send + 'static;
    /// What both sides must agree on.
    #[doc(hidden)]
    type Travels: Schema;

    /// Reads the message of a call.
    ///
    /// # Errors
    /// What came is no such message.
    #[doc(hidden)]
    fn arrive(call: &mut IncomingCall<'_>) -> Result<Self::Arrives, Refused>;
}

impl<T: Schema + Send + Sync + 'static> SyncMessage for T {
    type Sent = T;
    type Arrives = T;
    type Travels = T;

    #[inline]
    fn arrive(call: &mut IncomingCall<'_>) -> Result<T, Refused> {
        let mut message = ArgumentPlace::new();
        call.argument::<T>(&mut message)?;
        Ok(message.give())
    }
}

/// Messages of bytes that the receiver copies out of the sender's memory as it likes. It gets a
/// [`SharedLater`]: an accessor, since the sender may change the bytes at any moment. Until the
/// reply is given, the message keeps its slot of the connection.
///
/// # Examples
/// ```
/// use underpass::port::sync::{SharedMessage, SyncPortOptions, SyncPortSender};
///
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-shared-{}", std::process::id()));
/// # // SAFETY: no other thread has been started yet.
/// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
/// let (service, port) = SyncPortOptions::new().open::<SharedMessage, u64>();
/// let running = underpass::Server::new().export("sums", service).start()?;
/// let sums = SyncPortSender::<SharedMessage, u64>::connect("sums")?;
/// let pending = sums.begin(vec![3; 1_000])?;
///
/// let (bytes, reply) = port.recv()?.take();
/// let sum = bytes.lend().iter().map(u64::from).sum();
/// drop(bytes);
/// reply.give(sum);
/// assert_eq!(pending.wait()?, 3_000);
/// # drop((sums, running));
/// # std::fs::remove_dir_all(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum SharedMessage {}

impl SyncMessage for SharedMessage {
    type Sent = [u8];
    type Arrives = SharedLater;
    type Travels = Vec<u8>;

    fn arrive(call: &mut IncomingCall<'_>) -> Result<SharedLater, Refused> {
        call.shared_later()
    }
}

/// A message with the right to reply to it.
///
/// From [`recv`](crate::sync::SyncPortReceiver::recv) it counts as received. In a
/// [`Select`](underpass_sync::Select) it does once the program has looked at it. If one that does
/// not count as received is dropped, its sender learns that it may send it again.
#[must_use = "its sender waits for a reply"]
pub struct PortRequest<M: SyncMessage, R: Schema + Send + 'static> {
    message: M::Arrives,
    from: SenderId,
    reply: Reply<R>,
}

impl<M: SyncMessage, R: Schema + Send + 'static> PortRequest<M, R> {
    pub(crate) fn new(message: M::Arrives, from: SenderId, reply: Reply<R>) -> Self {
        Self { message, from, reply }
    }

    /// R1.
    pub(crate) fn received(mut self) -> Self {
        self.reply.received();
        failpoint!("sync-owner-received");
        self
    }

    /// The right to reply.
    pub(crate) fn right(&self) -> &Reply<R> {
        &self.reply
    }

    /// The message.
    pub fn message(&mut self) -> &mut M::Arrives {
        self.reply.received();
        &mut self.message
    }

    /// Its sender.
    pub fn from(&self) -> SenderId {
        self.from
    }

    /// The message, and the right to reply to it.
    pub fn take(self) -> (M::Arrives, Reply<R>) {
        let Self { message, reply, .. } = self.received();
        (message, reply)
    }

    /// Replies to the message.
    pub fn reply(self, reply: R) {
        let (message, right) = self.take();
        drop(message);
        right.give(reply);
    }
}

impl<M: SyncMessage, R: Schema + Send + 'static> fmt::Debug for PortRequest<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortRequest").field("from", &self.from).finish_non_exhaustive()
    }
}
