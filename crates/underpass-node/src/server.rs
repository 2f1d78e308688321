#![doc = include_str!("server/README.md")]

mod look;
mod member;
mod node_server;
mod pinned_domains;
mod reception;
mod status;

pub use node_server::{NodeServer, NodeServerEnd};
pub use pinned_domains::jobserver_pipe;
pub use status::ask_status;
