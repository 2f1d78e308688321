//! Opening a synchronous port.

use crate::sync::dispatch::{HandlerStub, QueueStub};
use crate::sync::interface::descriptor;
use crate::sync::lane::SyncQueue;
use crate::sync::message::SyncMessage;
use crate::sync::receiver::SyncPortReceiver;
use crate::waiters::Waiters;
use std::sync::Arc;
use underpass_rpc::Service;
use underpass_sync::mpmc;
use underpass_wire::{Encode, Schema, astack};

/// The sizes of a synchronous port that is to be opened. They are fixed when it is.
///
/// # Examples
/// ```
/// use underpass::port::sync::SyncPortOptions;
///
/// // Each sender may have 20 messages of at most 100 bytes under way.
/// let (service, port) = SyncPortOptions::new().messages(20).longest(100).open::<String, u64>();
/// assert_eq!(port.queued(), 0);
/// # drop(service);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "nothing is opened before `open` or `with_handler`"]
pub struct SyncPortOptions {
    messages: u64,
    longest: Option<u64>,
}

impl Default for SyncPortOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The most messages that a sender may have under way.
const MOST: u64 = 1 << 20;

impl SyncPortOptions {
    /// 64 messages of each sender.
    pub fn new() -> Self {
        Self { messages: 64, longest: None }
    }

    /// How many messages of each sender may be under way: sent, and without a reply. A number
    /// beyond 1 to 1,048,576 becomes the nearest one. The default is 64.
    ///
    /// The limits of the server count besides: a user's messages are calls
    /// ([`Limits::calls`](underpass_rpc::Limits::calls)).
    pub fn messages(mut self, messages: u64) -> Self {
        self.messages = messages.clamp(1, MOST);
        self
    }

    /// The most bytes that a message may take. The default is the size of the type if that is
    /// fixed, and otherwise that of an A-stack, 32 KiB. Longer messages than that travel beside the
    /// A-stacks.
    pub fn longest(mut self, bytes: usize) -> Self {
        self.longest = Some(bytes as u64);
        self
    }

    fn longest_of<M: SyncMessage>(self) -> u64 {
        self.longest.unwrap_or(M::Travels::FIXED.unwrap_or(astack::DEFAULT) as u64)
    }

    /// Opens a port. The service is to be exported under the port's name
    /// ([`Server::export`](underpass_rpc::Server::export)); its options say who may connect. Its
    /// [`on_binding_end`](Service::on_binding_end) tells of the end of each sender, once its last
    /// message has a reply.
    pub fn open<M: SyncMessage, R: Schema + Send + 'static>(self) -> (Service, SyncPortReceiver<M, R>) {
        let (send, receive) = mpmc::unbounded();
        let tasks = Arc::new(Waiters::new());
        let queue = Arc::new(SyncQueue::new(self.messages, self.longest_of::<M>(), send, tasks.clone()));
        let receiver = SyncPortReceiver::new(receive, tasks, self.messages, queue.live());
        let stub = Arc::new(QueueStub::new(queue));
        // Senders in this domain use a channel, too.
        let service = Service::new(descriptor::<M, R>(), stub);
        (service, receiver)
    }

    /// A port without receivers: `handler` answers each message as soon as it comes, on the thread
    /// that takes it, as the handler of a call does. Several may run at once, and messages have no
    /// order. To its senders it is a port like any other.
    ///
    /// # Examples
    /// ```
    /// use underpass::port::sync::{SyncPortOptions, SyncPortSender};
    ///
    /// # let dir = std::env::temp_dir().join(format!("underpass-doc-serve-{}", std::process::id()));
    /// # // SAFETY: no other thread has been started yet.
    /// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
    /// let service = SyncPortOptions::new().with_handler::<String, u64>(|text| text.len() as u64);
    /// let running = underpass::Server::new().export("lengths", service).start()?;
    /// let lengths = SyncPortSender::<String, u64>::connect("lengths")?;
    /// assert_eq!(lengths.send(&"twelve bytes".to_owned())?, 12);
    /// # drop((lengths, running));
    /// # std::fs::remove_dir_all(dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_handler<M: SyncMessage, R: Schema + Send + 'static>(
        self,
        handler: impl Fn(M::Arrives) -> R + Send + Sync + 'static,
    ) -> Service {
        let stub = HandlerStub::<M, R, _>::new(self.messages, self.longest_of::<M>(), handler);
        Service::new(descriptor::<M, R>(), Arc::new(stub))
    }
}
