//! What happens beside calls: the clerk, and the sockets that it watches.
//!
//! [`clerk`] is the kernel thread that answers importers and hears what comes over sockets.
//! [`control_socket`] is the socket of one binding, [`mailbox`] a channel's way to it, and
//! [`messages`] what is said there. [`deathwatch`] finds the death of a peer that its socket hides.
//! [`alarm`] does what is to be done at a time.

pub(crate) mod alarm;
pub(crate) mod clerk;
pub(crate) mod connection;
pub(crate) mod control_socket;
pub(crate) mod deathwatch;
pub(crate) mod mailbox;
pub(crate) mod messages;
pub(crate) mod news;
