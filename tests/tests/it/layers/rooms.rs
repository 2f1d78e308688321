//! The crates, and on which others each may depend.

/// What one crate may depend on. The reasons are in `ARCHITECTURE.md`.
pub(super) struct Room {
    pub(super) name: &'static str,
    /// Crates of this workspace.
    pub(super) rooms: &'static [&'static str],
    /// Crates that its tests may use as well. Examples in the documentation are tests, and name
    /// what a user names: `underpass`.
    pub(super) tests: &'static [&'static str],
    /// Crates from outside. `None` where the rules leave that free.
    pub(super) outside: Option<&'static [&'static str]>,
    pub(super) because: &'static str,
}

/// A crate that depends on nothing.
pub(super) const BARE: Room = Room { name: "", rooms: &[], tests: &[], outside: Some(&[]), because: "" };

pub(super) const FACADE: Room = Room {
    name: "underpass",
    rooms: &[
        "underpass-device",
        "underpass-homed",
        "underpass-io",
        "underpass-macros",
        "underpass-port",
        "underpass-processor",
        "underpass-rpc",
        "underpass-sandbox",
        "underpass-service",
        "underpass-shared",
        "underpass-sync",
        "underpass-threads",
        "underpass-wire",
    ],
    tests: &["underpass-test-device"],
    because: "the facade holds names that a user imports, and nothing else",
    ..BARE
};

pub(super) const ROOMS: &[Room] = &[
    FACADE,
    Room {
        name: "underpass-macros",
        rooms: &["underpass-idl"],
        tests: &["underpass-wire"],
        outside: Some(&["proc-macro2"]),
        because: "the macros are a thin shell over underpass-idl and don't know the runtime",
    },
    Room {
        name: "underpass-idl",
        tests: &["underpass-wire"],
        outside: Some(&["proc-macro2", "quote", "syn"]),
        because: "generating stubs needs no runtime: it is text to text",
        ..BARE
    },
    Room {
        name: "underpass-rpc",
        tests: &["underpass"],
        rooms: &[
            "underpass-channel",
            "underpass-macros",
            "underpass-os",
            "underpass-processor",
            "underpass-seam",
            "underpass-sync",
            "underpass-threads",
            "underpass-wire",
        ],
        because: "data transfer, threads and processors meet here, and only here; what a process shows is an interface as any other",
        ..BARE
    },
    Room {
        name: "underpass-port",
        tests: &["underpass"],
        rooms: &[
            "underpass-channel",
            "underpass-macros",
            "underpass-os",
            "underpass-rpc",
            "underpass-sync",
            "underpass-threads",
            "underpass-wire",
        ],
        outside: Some(&["futures-core"]),
        because: "a port is lanes between domains that have a binding, and threads that wait for them; async code reads a stream by the trait that all runtimes share",
    },
    Room {
        name: "underpass-sandbox",
        tests: &["underpass"],
        rooms: &[
            "underpass-os",
            "underpass-processor",
            "underpass-rpc",
            "underpass-sync",
            "underpass-threads",
            "underpass-wire",
        ],
        outside: Some(&["seccompiler"]),
        because: "it starts, restricts and ends domains; what the walls are made of stays out of the core",
    },
    Room {
        name: "underpass-service",
        tests: &["underpass"],
        rooms: &["underpass-os", "underpass-rpc"],
        because: "a service manager hears of a server; of the kernel it needs the clock",
        ..BARE
    },
    Room {
        name: "underpass-shared",
        tests: &["underpass"],
        rooms: &[
            "underpass-channel",
            "underpass-macros",
            "underpass-os",
            "underpass-rpc",
            "underpass-seam",
            "underpass-sync",
            "underpass-threads",
            "underpass-wire",
        ],
        outside: Some(&["loom"]),
        because: "regions are exported by an interface; their threads are suspended and woken; of channels they know how bytes are copied",
    },
    Room {
        name: "underpass-homed",
        tests: &["underpass"],
        rooms: &[
            "underpass-channel",
            "underpass-macros",
            "underpass-os",
            "underpass-port",
            "underpass-rpc",
            "underpass-seam",
            "underpass-shared",
            "underpass-sync",
            "underpass-threads",
            "underpass-wire",
        ],
        outside: Some(&["loom"]),
        because: "an object is opened by an interface, and holds the data that regions hold; its home is interrupted by task signals; of channels it knows how bytes are copied",
    },
    Room {
        name: "underpass-sync",
        tests: &["underpass", "underpass-harness"],
        rooms: &["underpass-os", "underpass-seam", "underpass-threads"],
        outside: Some(&["loom"]),
        because: "locks and channels know that threads are suspended and woken, and nothing else of them",
    },
    Room {
        name: "underpass-io",
        tests: &["underpass"],
        rooms: &["underpass-os", "underpass-threads"],
        outside: Some(&["polling"]),
        because: "I/O suspends threads until the poller wakes them; it knows no calls",
    },
    Room {
        name: "underpass-device",
        tests: &["underpass", "underpass-test-device"],
        rooms: &[
            "underpass-os",
            "underpass-processor",
            "underpass-seam",
            "underpass-sync",
            "underpass-threads",
        ],
        outside: Some(&["loom"]),
        because: "a driver maps, waits and is woken; it knows neither calls nor what a device does",
    },
    Room {
        name: "underpass-nvme",
        tests: &["underpass-test-device"],
        rooms: &["underpass"],
        because: "a driver is an ordinary domain: it uses what a user uses",
        ..BARE
    },
    Room {
        name: "underpass-virtio-blk",
        tests: &["underpass-os"],
        rooms: &["underpass", "underpass-nvme"],
        because: "it uses what a user uses, and serves the block interface of underpass-nvme",
        ..BARE
    },
    Room {
        name: "underpass-holder",
        tests: &["underpass-test-device"],
        rooms: &["underpass", "underpass-os"],
        because: "it uses what a user uses, and of underpass-os how a child is ended",
        ..BARE
    },
    Room {
        name: "underpass-grpc",
        rooms: &["underpass", "underpass-wire"],
        outside: None,
        because: "a transport uses what a user uses, and puts frames on the wire without a copy; what tonic drags in stays out of the core",
        ..BARE
    },
    Room {
        name: "underpass-bridge",
        rooms: &["underpass-grpc"],
        tests: &["underpass", "underpass-test-grpc", "underpass-tests"],
        outside: None,
        because: "it passes calls on from HTTP/2; the program `underpass` runs it, and needs no HTTP/2",
    },
    Room {
        name: "underpass-node",
        rooms: &["underpass-os", "underpass-processor", "underpass-seam"],
        tests: &["underpass-harness"],
        outside: Some(&["loom"]),
        because: "it divides processors: it knows neither threads nor calls",
    },
    Room {
        name: "underpass-prometheus",
        rooms: &["underpass"],
        outside: None,
        because: "it writes metrics as text; what answers HTTP stays out of the core",
        ..BARE
    },
    Room {
        name: "underpass-opentelemetry",
        rooms: &["underpass"],
        outside: None,
        because: "it reports metrics to OpenTelemetry, which stays out of the core",
        ..BARE
    },
    Room {
        name: "underpass-tracing",
        rooms: &["underpass-threads"],
        tests: &["underpass-sync"],
        outside: None,
        because: "it tells a subscriber which thread runs; what that drags in stays out of the core",
    },
    Room {
        name: "underpass-threads",
        rooms: &[
            "underpass-context",
            "underpass-node",
            "underpass-os",
            "underpass-processor",
            "underpass-seam",
        ],
        tests: &["underpass", "underpass-io", "underpass-sync"],
        outside: Some(&["backtrace", "loom"]),
        because: "threads don't know channels: what an idle activation polls is a `Line`; they start the client of the activation server",
    },
    Room {
        name: "underpass-processor",
        rooms: &["underpass-os", "underpass-seam"],
        tests: &["underpass-harness"],
        because: "processors don't know threads: they declare the `Upcall` that threads implement",
        ..BARE
    },
    Room {
        name: "underpass-channel",
        tests: &["underpass"],
        rooms: &["underpass-os", "underpass-seam", "underpass-wire"],
        because: "a channel is passive: it knows neither threads nor processors and never waits",
        ..BARE
    },
    Room {
        name: "underpass-context",
        rooms: &["underpass-os"],
        outside: Some(&["corosensei"]),
        because: "a context is a stack and a switch, whoever pauses it",
        ..BARE
    },
    Room {
        name: "underpass-wire",
        tests: &["underpass"],
        outside: Some(&["serde"]),
        because: "how values travel is the same wherever their bytes lie",
        ..BARE
    },
    Room {
        name: "underpass-os",
        outside: Some(&["libc", "rustix"]),
        because: "it calls Linux and knows nothing of Underpass",
        ..BARE
    },
    Room { name: "underpass-seam", outside: Some(&["loom"]), because: "it is below everything", ..BARE },
    Room {
        name: "underpass-cli",
        rooms: &["underpass", "underpass-figures", "underpass-node", "underpass-os", "underpass-wire"],
        tests: &["underpass-demo"],
        outside: None,
        because: "it calls as a user does, runs the activation server, and draws what it has traced; its tests look at the demo",
    },
    Room {
        name: "underpass-bench",
        rooms: &[
            "underpass",
            "underpass-figures",
            "underpass-grpc",
            "underpass-node",
            "underpass-nvme",
            "underpass-os",
            "underpass-rpc",
            "underpass-test-device",
            "underpass-test-grpc",
            "underpass-threads",
        ],
        outside: None,
        because: "benchmarks use what a user uses, the activation server, a disk and its driver, memory and futexes for the raw limits, both ends of a channel, \
                  and the length of a slice; with a feature, gRPC and services for it",
        ..BARE
    },
    Room {
        name: "underpass-figures",
        rooms: &["underpass-os"],
        outside: Some(&["serde", "serde_json"]),
        because: "a figure needs its machine and its drawing, whatever was measured",
        ..BARE
    },
    Room {
        name: "underpass-demo",
        rooms: &["underpass", "underpass-figures", "underpass-os", "underpass-wire"],
        tests: &[],
        outside: None,
        because: "the demo uses what a user uses; clocks and CPUs to show, and `Encode` for its comparison over sockets",
    },
    Room {
        name: "underpass-test-device",
        rooms: &["underpass-device", "underpass-os"],
        tests: &["underpass", "underpass-nvme", "underpass-threads"],
        because: "a device of the tests speaks the protocol of underpass-device, and maps what a driver passes",
        ..BARE
    },
    Room {
        name: "underpass-test-grpc",
        rooms: &["underpass", "underpass-grpc", "underpass-tests"],
        outside: None,
        because: "services for the tests of gRPC, in a process of their own",
        ..BARE
    },
    Room {
        name: "underpass-harness",
        because: "tests of any room may be skipped, or want a process of their own",
        ..BARE
    },
    Room {
        name: "underpass-tests",
        rooms: &["underpass", "underpass-node", "underpass-os"],
        tests: &[
            "underpass-channel",
            "underpass-nvme",
            "underpass-test-device",
            "underpass-virtio-blk",
            "underpass-wire",
        ],
        outside: None,
        because: "its tests use what a user uses, run the activation server, and play the hostile peer with the rooms that a peer needs",
    },
    Room {
        name: "async-quotes",
        rooms: &["underpass"],
        outside: Some(&["tokio"]),
        because: "an example uses what a user uses",
        ..BARE
    },
    Room { name: "order-book", rooms: &["underpass"], because: "an example uses what a user uses", ..BARE },
    Room {
        name: "event-loop",
        rooms: &["underpass"],
        outside: Some(&["mio"]),
        because: "an example uses what a user uses, and an event loop that is not ours",
        ..BARE
    },
    Room {
        name: "grpc-greeter",
        rooms: &["underpass-grpc"],
        outside: None,
        because: "an example uses what a user uses, and is otherwise a tonic program",
        ..BARE
    },
    Room {
        name: "service-example",
        rooms: &["underpass"],
        tests: &["underpass-os"],
        because: "an example uses what a user uses; its tests make sockets as a service manager does",
        ..BARE
    },
    Room {
        name: "png-sandbox",
        rooms: &["underpass"],
        outside: Some(&["png"]),
        because: "an example uses what a user uses",
        ..BARE
    },
];
