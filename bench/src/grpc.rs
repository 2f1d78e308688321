//! `grpc`: gRPC calls over shared memory, beside tonic's own transport over a Unix socket and over
//! TCP, and beside tonic's loop in one process, which is the limit. Also calls of an interface to
//! another machine, beside plain tonic's. With the feature `grpc`.
//!
//! All of them use one generated client and one implementation. The client has a runtime of one
//! thread, and the server one of as many as there are CPUs.

mod cases;
mod in_process;
mod quiet;
mod remote;
mod server;

use crate::Pinning;
use crate::catalogue::{Benchmark, Scenario};
use crate::processes::role;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "grpc",
    about: "gRPC calls over shared memory, beside tonic over a Unix socket, over TCP and in process",
    scenarios: &[
        Scenario {
            name: "in-process",
            cases: &["in-process/loop", "in-process/hand-off"],
            pinning: Pinning::Any,
            client: in_process::measure,
            server: role::idle,
        },
        Scenario {
            name: "calls",
            cases: &["unary/1", "unary/64", "unary/1MiB", "stream/10000"],
            pinning: Pinning::Floating,
            client: cases::measure,
            server: server::serve,
        },
        Scenario {
            name: "remote",
            cases: &[remote::CASES[0].0, remote::CASES[1].0, remote::CASES[2].0],
            pinning: Pinning::Floating,
            client: remote::measure,
            server: server::serve,
        },
        Scenario {
            name: "quiet",
            cases: &["first/1s", "idle/client", "idle/server"],
            pinning: Pinning::Floating,
            client: quiet::measure,
            server: server::serve,
        },
    ],
};
