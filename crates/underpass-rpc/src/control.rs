//! What happens outside of calls: the clerk, and the sockets that it watches.
//!
//! [`clerk`] is the kernel thread that answers importers and reads the sockets. [`control_socket`]
//! is the socket of one connection, [`mailbox`] is how a channel uses that socket, and [`messages`]
//! has the messages that travel over it. [`peer_death`] detects the death of a peer whose socket
//! stays open. [`watched_end`] is either end of a channel, as the clerk sees it. [`timer`] runs
//! closures at a given time. [`sign_of_life`] says whether the runtime works.

pub(crate) mod clerk;
pub(crate) mod connection;
pub(crate) mod control_socket;
pub(crate) mod mailbox;
pub(crate) mod messages;
pub(crate) mod peer_death;
pub(crate) mod sign_of_life;
pub(crate) mod socket_events;
pub(crate) mod timer;
pub(crate) mod watched_end;
