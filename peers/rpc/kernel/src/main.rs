//! The kernel's own ways: Unix stream sockets, sequenced packets, and pipes.
//!
//! A message is its length in four bytes, and its bytes. The server has a thread for each
//! connection, and 32 callers have a connection each: nothing of the kernel's multiplexes calls.
#![forbid(unsafe_code)]

mod framed;
mod packets;
mod pipes;
mod streams;

use std::process::ExitCode;
use underpass_rpc_peer::{Peer, Variant};

const VARIANTS: &[Variant] = &[
    Variant {
        name: "stream",
        about: "Unix stream socket, both sides block; a connection and a thread for each caller",
        callers: 32,
        idles: true,
        server: streams::serve,
        client: streams::connect,
    },
    Variant {
        name: "stream-spin",
        about: "the same, and both sides poll the socket without blocking",
        callers: 1,
        idles: false,
        server: streams::serve_spinning,
        client: streams::connect_spinning,
    },
    Variant {
        name: "seqpacket",
        about: "Unix sequenced packets, at most 64 KiB each, both sides block",
        callers: 32,
        idles: true,
        server: packets::serve,
        client: packets::connect,
    },
    Variant {
        name: "pipe",
        about: "two named pipes with room for 1 MiB, both sides block",
        callers: 32,
        idles: true,
        server: pipes::serve,
        client: pipes::connect,
    },
];

fn main() -> ExitCode {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    let version = release.as_deref().map_or("unknown", str::trim).into();
    Peer { peer: "kernel", version, variants: VARIANTS }.main()
}
