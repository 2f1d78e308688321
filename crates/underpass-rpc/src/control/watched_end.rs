//! The end of a channel, as the control thread sees it.

use crate::binding::family::Family;
use crate::control::mailbox::ChannelMailbox;
use crate::dispatch::server::ServerEnd;
use std::sync::Arc;

/// Either end of a channel: the clerk watches the socket of a first one, and ends both alike.
pub(crate) trait WatchedEnd: Send + Sync {
    /// Its part of the connection's socket.
    fn mailbox(&self) -> &ChannelMailbox;

    /// Whether the channel is a further one, which has no socket of its own.
    fn is_further(&self) -> bool;

    /// Whether the clerk watches the connection's socket for it. The socket is that of the first
    /// channel.
    fn has_socket(&self) -> bool {
        !self.is_further() && !self.mailbox().is_reverse()
    }

    fn is_closed(&self) -> bool;

    /// The clerk watches it no more: ends it. Returns the clerk's keys of the connection's further
    /// channels, which end next.
    fn is_unwatched(&self) -> Vec<u64>;

    /// The connection, if this is its server's end.
    fn family(&self) -> Option<&Arc<Family>> {
        None
    }

    /// The end itself, if it is a server's.
    fn served(self: Arc<Self>) -> Option<Arc<ServerEnd>> {
        None
    }
}
