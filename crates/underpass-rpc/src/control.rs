//! What happens outside of calls: the clerk, and the sockets that it watches.
//!
//! [`clerk`] is the kernel thread that answers importers and reads the sockets. [`control_socket`]
//! is the socket of one binding, [`mailbox`] is how a channel uses that socket, and [`messages`]
//! has the messages that travel over it. [`peer_death`] detects the death of a peer whose socket
//! stays open. [`timer`] runs closures at a given time.

pub(crate) mod clerk;
pub(crate) mod connection;
pub(crate) mod control_socket;
pub(crate) mod mailbox;
pub(crate) mod messages;
pub(crate) mod peer_death;
pub(crate) mod socket_events;
pub(crate) mod timer;
pub(crate) mod watched_end;
