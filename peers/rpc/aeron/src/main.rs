//! Aeron over shared memory, by its response channels.
//!
//! Each connection is a publication of requests, and a publication of answers that the media driver
//! gives to that client only. The media driver runs in the server's process. 32 callers are
//! requests in flight of one connection, polled by one thread. Aeron delivers the messages of a
//! publication in order, so the n-th answer belongs to the n-th request.
#![forbid(unsafe_code)]

mod caller;
mod driver;
mod message;
mod server;
mod setup;

use rusteron_client::Aeron;
use std::process::ExitCode;
use underpass_rpc_peer::{Peer, Variant, locked};

const VARIANTS: &[Variant] = &[
    Variant {
        name: "spin",
        about: "both sides poll all the time, as Aeron's ping and pong do; callers are requests in flight",
        callers: 32,
        idles: false,
        server: server::spin,
        client: caller::spin,
    },
    Variant {
        name: "backoff",
        about: "both sides spin, then yield, then sleep up to 1 ms: Aeron's backoff; callers are requests in flight",
        callers: 32,
        idles: false,
        server: server::back_off,
        client: caller::back_off,
    },
];

fn main() -> ExitCode {
    let version = format!("{} by rusteron {}", Aeron::version_text(), locked("rusteron-client"));
    Peer { peer: "aeron", version, variants: VARIANTS }.main()
}
