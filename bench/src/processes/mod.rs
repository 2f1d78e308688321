//! The processes of a benchmark: client, server, helpers and the other thread packages, and their
//! parent.

pub(crate) mod client;
pub(crate) mod client_crowd;
pub(crate) mod helper;
pub(crate) mod pair;
pub(crate) mod peers;
pub(crate) mod role;
pub(crate) mod scratch;
