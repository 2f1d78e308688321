//! Names that several types have, and why.

use super::names::Namesakes;

/// Names that several types have.
pub const NAMESAKES: &[Namesakes] = &[
    Namesakes {
        names: &["Channel"],
        files: &["crates/underpass-channel/src/channel.rs", "crates/underpass-grpc/src/channel.rs"],
        because: "a client of tonic's changes one line where the type has the name of tonic's",
    },
    Namesakes {
        names: &["Base", "Context"],
        files: &["crates/underpass-context/src/context.rs", "crates/underpass-context/src/portable.rs"],
        because: "each build has one of the two files",
    },
    Namesakes {
        names: &["Receiver"],
        files: &["crates/underpass-sync/src/mpmc/receiver.rs", "crates/underpass-sync/src/mpsc.rs"],
        because: CHANNELS,
    },
    Namesakes {
        names: &["Sender"],
        files: &["crates/underpass-sync/src/mpmc/sender.rs", "crates/underpass-sync/src/mpsc.rs"],
        because: CHANNELS,
    },
    Namesakes {
        names: &["Awaited", "Wait"],
        files: &["crates/underpass-sync/src/runtime.rs", "crates/underpass-threads/src/block/suspension.rs"],
        because: STAND_IN,
    },
    Namesakes {
        names: &["Woken"],
        files: &[
            "crates/underpass-shared/src/runtime.rs",
            "crates/underpass-sync/src/runtime.rs",
            "crates/underpass-threads/src/block/suspension.rs",
        ],
        because: STAND_IN,
    },
    Namesakes {
        names: &["BriefSection", "CriticalSection"],
        files: &["crates/underpass-sync/src/runtime.rs", "crates/underpass-threads/src/sched/no_preempt.rs"],
        because: STAND_IN,
    },
    Namesakes {
        names: &["Cancelled"],
        files: &["crates/underpass-sync/src/runtime.rs", "crates/underpass-threads/src/wait/cancelled.rs"],
        because: STAND_IN,
    },
    Namesakes {
        names: &["Control"],
        files: &[
            "crates/underpass-shared/src/runtime.rs",
            "crates/underpass-sync/src/runtime.rs",
            "crates/underpass-threads/src/block/control.rs",
        ],
        because: STAND_IN,
    },
];

const CHANNELS: &str = "both modules name the ends of channels as std does";
pub const STAND_IN: &str = "under loom, a stand-in takes the place of the threads";
