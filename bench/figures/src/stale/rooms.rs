//! Which rooms each benchmark depends on, and which cases are counted operations.

/// All benchmarks.
const ALL: &[&str] = &[
    "limits",
    "urpc",
    "lrpc",
    "sizes",
    "streams",
    "threads",
    "othreads-fig5",
    "othreads-fig6",
    "othreads-fig7",
    "othreads-table2",
    "node",
    "raven",
    "devices",
    "psyche",
    "grpc",
    "peers",
];

/// Those that run user-level threads.
const THREADS: &[&str] = &[
    "urpc",
    "lrpc",
    "sizes",
    "streams",
    "threads",
    "othreads-fig5",
    "othreads-fig6",
    "othreads-fig7",
    "othreads-table2",
    "node",
    "raven",
    "devices",
    "psyche",
    "grpc",
    "peers",
];

/// Those that make calls.
const CALLS: &[&str] = &[
    "urpc",
    "lrpc",
    "sizes",
    "streams",
    "othreads-fig5",
    "othreads-fig6",
    "othreads-fig7",
    "othreads-table2",
    "node",
    "raven",
    "devices",
    "psyche",
    "grpc",
    "peers",
];

const OTHREADS: &[&str] = &["othreads-fig5", "othreads-fig6", "othreads-fig7", "othreads-table2"];

/// Each room, with the benchmarks whose figures depend on its code. A room is the source folder of
/// a package or of a benchmark, or a file.
pub(super) const ROOMS: &[(&str, &[&str])] = &[
    ("crates/underpass/src", THREADS),
    ("crates/underpass-bridge/src", &[]),
    ("crates/underpass-channel/src", CALLS),
    ("crates/underpass-cli/src", &[]),
    ("crates/underpass-context/src", THREADS),
    ("crates/underpass-device/src", &["devices"]),
    ("crates/underpass-grpc/src", &["grpc"]),
    ("crates/underpass-holder/src", &[]),
    ("crates/underpass-homed/src", &["psyche"]),
    ("crates/underpass-idl/src", CALLS),
    ("crates/underpass-io/src", &[]),
    ("crates/underpass-macros/src", CALLS),
    ("crates/underpass-node/src", &["node"]),
    ("crates/underpass-nvme/src", &["devices"]),
    ("crates/underpass-opentelemetry/src", &[]),
    ("crates/underpass-os/src", ALL),
    ("crates/underpass-port/src", &["streams", "raven"]),
    ("crates/underpass-processor/src", THREADS),
    ("crates/underpass-prometheus/src", &[]),
    ("crates/underpass-rpc/src", CALLS),
    ("crates/underpass-sandbox/src", &[]),
    ("crates/underpass-seam/src", THREADS),
    ("crates/underpass-service/src", &[]),
    ("crates/underpass-shared/src", &["othreads-table2", "psyche"]),
    ("crates/underpass-sync/src", THREADS),
    ("crates/underpass-threads/src", THREADS),
    ("crates/underpass-tracing/src", &[]),
    ("crates/underpass-virtio-blk/src", &[]),
    ("crates/underpass-wire/src", CALLS),
    // How everything is measured.
    ("bench/src/calls.rs", CALLS),
    ("bench/src/measure", ALL),
    ("bench/src/placement.rs", ALL),
    ("bench/src/processes", ALL),
    ("bench/src/raw", ALL),
    ("bench/src/socket.rs", &["lrpc", "sizes"]),
    // What is measured.
    ("bench/src/devices", &["devices"]),
    ("bench/src/grpc", &["grpc"]),
    ("bench/src/limits.rs", &["limits"]),
    ("bench/src/lrpc", &["lrpc"]),
    ("bench/src/node", &["node"]),
    ("bench/src/othreads", OTHREADS),
    ("bench/src/psyche", &["psyche"]),
    ("bench/src/psyche.rs", &["psyche"]),
    ("bench/src/raven", &["raven"]),
    ("bench/src/raven.rs", &["raven"]),
    ("bench/src/rpc_peers", &["peers"]),
    ("bench/src/sizes.rs", &["sizes"]),
    ("bench/src/streams.rs", &["streams"]),
    ("bench/src/threads", &["threads"]),
    ("bench/src/urpc", &["urpc"]),
    // Parts of the tests that benchmarks run.
    ("tests/device/src", &["devices"]),
    ("tests/grpc/src", &["grpc"]),
    // The other packages.
    ("peers/async-executor", &["threads"]),
    ("peers/may", &["threads"]),
    ("peers/protocol", &["threads"]),
    ("peers/rows", &["threads"]),
    ("peers/tokio", &["threads"]),
    ("peers/rpc", &["peers"]),
];

/// The cases that measure an operation which `tools/instructions` counts: the benchmark, the case,
/// and the operation. A case that waits, as `null/one-cpu` does, is another operation.
pub(super) const COUNTED: &[(&str, &str, &str)] = &[
    ("threads", "call", "call"),
    ("threads", "yield", "yield"),
    ("threads", "lock", "lock"),
    ("threads", "fork-join", "spawn-join"),
    ("urpc", "null/pinned", "null"),
    ("urpc", "null/floating", "null"),
    ("lrpc", "null/pinned", "null"),
    ("raven", "async/1-sender", "port-send"),
];

/// The rooms that `bench` depends on, as paths from the top of the repository. There are none if it
/// is no benchmark.
///
/// # Examples
/// ```
/// let rooms = underpass_figures::rooms_of("raven");
/// assert!(rooms.contains(&"crates/underpass-port/src") && !rooms.contains(&"bench/src/urpc"));
/// assert!(underpass_figures::rooms_of("other").is_empty());
/// ```
pub fn rooms_of(bench: &str) -> Vec<&'static str> {
    ROOMS.iter().filter(|(_, benches)| benches.contains(&bench)).map(|(room, _)| *room).collect()
}

/// What `tools/instructions` calls the operation of a case, if it counts it.
///
/// # Examples
/// ```
/// use underpass_figures::counted_operation;
/// assert_eq!(counted_operation("threads", "fork-join"), Some("spawn-join"));
/// assert_eq!(counted_operation("urpc", "null/one-cpu"), None);
/// ```
pub fn counted_operation(bench: &str, case: &str) -> Option<&'static str> {
    let counted = COUNTED.iter().find(|(of, named, _)| (*of, *named) == (bench, case));
    counted.map(|(_, _, operation)| *operation)
}
