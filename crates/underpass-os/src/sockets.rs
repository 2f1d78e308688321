//! Unix sockets: names, connections, messages with files, the identity of the peer, and waiting for
//! many of them.

pub(crate) mod activation;
pub(crate) mod control_message;
pub(crate) mod directory;
pub(crate) mod pass;
pub mod peer;
pub(crate) mod poller;
pub(crate) mod socket;
