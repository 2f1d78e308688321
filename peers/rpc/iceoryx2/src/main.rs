//! iceoryx2's request-response. 32 callers are requests in flight of one client port, as one port
//! carries several.
#![forbid(unsafe_code)]

mod caller;
mod server;
mod setup;

use std::process::ExitCode;
use underpass_rpc_peer::{Peer, Variant, locked};

const VARIANTS: &[Variant] = &[
    Variant {
        name: "poll",
        about: "both sides poll all the time, as its own benchmark does; callers are requests in flight",
        callers: 32,
        idles: false,
        server: server::poll,
        client: caller::poll,
    },
    Variant {
        name: "event",
        about: "both sides block in an event's listener when there is nothing to do; callers are requests in flight",
        callers: 32,
        idles: true,
        server: server::block,
        client: caller::block,
    },
];

fn main() -> ExitCode {
    Peer { peer: "iceoryx2", version: locked("iceoryx2"), variants: VARIANTS }.main()
}
