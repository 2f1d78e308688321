//! Opening a port.

use crate::open::{PortOpen, hash_of};
use crate::owner::{Opener, PortCore};
use crate::receiver::PortReceiver;
use std::sync::Arc;
use underpass_channel::{BadLaneSizes, LaneSizes, WhenFull};
use underpass_rpc::Service;
use underpass_wire::Schema;

/// The sizes and the limits of a port that is to be opened. They are fixed when it is.
///
/// # Examples
/// ```
/// use underpass::port::PortOptions;
///
/// // For each sender: 1,000 readings of a few bytes, of which the oldest may be lost.
/// let options = PortOptions::new().messages(1_000).longest(64).drop_oldest();
/// let (service, receiver) = options.open::<(u32, f64)>()?;
/// # drop((service, receiver));
/// # Ok::<(), underpass::port::BadLaneSizes>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "nothing is opened before `open`"]
pub struct PortOptions {
    messages: usize,
    longest: Option<usize>,
    bytes: Option<usize>,
    when_full: WhenFull,
    memory_of_user: u64,
}

impl Default for PortOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The bytes of a message of no fixed size, unless the owner says otherwise.
const LONGEST: usize = 4096;

impl PortOptions {
    /// 64 messages for each sender, and waiting senders.
    pub fn new() -> Self {
        Self {
            messages: 64,
            longest: None,
            bytes: None,
            when_full: WhenFull::Refuse,
            memory_of_user: 256 << 20,
        }
    }

    /// How many messages of each sender may wait at once: 1 to 1,048,576. The default is 64.
    pub fn messages(mut self, messages: usize) -> Self {
        self.messages = messages;
        self
    }

    /// The most bytes that a message may take. The default is the size of the type if that is
    /// fixed, and otherwise 4 KiB.
    pub fn longest(mut self, bytes: usize) -> Self {
        self.longest = Some(bytes);
        self
    }

    /// How many bytes of messages of each sender may wait at once, together with 16 to 31 bytes for
    /// each. The default has room for as many messages as may wait, however long they are.
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Makes a full lane lose its oldest messages, so that its sender never waits. The receiver
    /// learns how many were lost, in their place: [`PortMessage::lost`](crate::PortMessage::lost).
    pub fn drop_oldest(mut self) -> Self {
        self.when_full = WhenFull::DropOldest;
        self
    }

    /// How many bytes the lanes of one user's senders may take, all together. The default is 256
    /// MiB. The kernel says to which user a sender belongs. The domain of the owner itself has no
    /// limit.
    pub fn memory_of_user(mut self, bytes: u64) -> Self {
        self.memory_of_user = bytes;
        self
    }

    /// Opens a port. The service is to be exported under the port's name
    /// ([`Server::export`](underpass_rpc::Server::export)); its options say who may connect.
    ///
    /// # Errors
    /// [`BadLaneSizes`] if there are no lanes of these sizes.
    pub fn open<T: Schema>(self) -> Result<(Service, PortReceiver<T>), BadLaneSizes> {
        let longest = self.longest.or(T::FIXED).unwrap_or(LONGEST);
        let sizes = match self.bytes {
            Some(bytes) => LaneSizes::with_bytes(self.messages, longest, bytes, self.when_full)?,
            None => LaneSizes::new(self.messages, longest, self.when_full)?,
        };
        let core = Arc::new(PortCore::new(sizes, hash_of::<T>(), self.memory_of_user));
        Ok((Opener::of::<T>(&core).serve(), PortReceiver::new(core)))
    }
}
