//! What the demo and its three processes tell each other: a line of JSON each, over the children's
//! pipes.

use super::event::{DemoDomain, Event};
use super::plan::{EditPlan, EditorProgress};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use underpass::Counters;

/// How the calls travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Underpass, three processes.
    Underpass,
    /// Unix-domain sockets, three processes.
    Sockets,
    /// Plain calls: all three in one process, nothing kept apart.
    Direct,
}

/// The first line that a child reads: what it is there for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChildTask {
    /// How the calls travel.
    pub transport: Transport,
    /// A directory of the round's own: exports and sockets stand there, and the edited text.
    pub directory: PathBuf,
    /// The text to edit, which nobody writes to.
    pub text: PathBuf,
    /// What the editor does.
    pub plan: EditPlan,
    /// Blocks of the text.
    pub blocks: u64,
    /// Blocks that the file cache manager may cache.
    pub cache: usize,
    /// Tells this life of the file cache manager from others.
    pub life: u32,
    /// Tell of progress after each so many blocks; 0: never.
    pub step: u64,
}

/// What a child says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// A server can be imported.
    Ready,
    /// The editor tells how it goes.
    News(EditorProgress),
    /// The editor's account: it is done.
    Edited(Box<Edited>),
    /// A server's account: it was told to end.
    Served(ServerAccount),
    /// It couldn't do it.
    Failed(String),
}

/// Counters of a binding or a domain, as they travel and are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterTotals {
    /// Calls made that have ended.
    pub calls: u64,
    /// Calls handled.
    pub served: u64,
    /// System calls made for them.
    pub kernel_entries: u64,
    /// Wake-ups sent to the peer.
    pub wakeups: u64,
    /// Wake-ups that weren't needed, as the peer had a processor.
    pub wakeups_avoided: u64,
    /// How often an activation or a kernel thread went to sleep.
    pub sleeps: u64,
    /// Bytes of arguments and results sent.
    pub bytes_out: u64,
    /// Bytes of arguments and results received.
    pub bytes_in: u64,
}

/// The editor's account of a round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Edited {
    /// When the first call was made, in ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// When the last one had returned.
    pub to: u64,
    /// Places changed.
    pub places: u64,
    /// Bytes of the edited text.
    pub bytes: u64,
    /// Over every cell of the screen at the end.
    pub checksum: u64,
    /// The screen at the end, row by row.
    pub screen: Vec<String>,
    /// The calls, in the order in which they began.
    pub events: Vec<Event>,
    /// What went over the bindings, by server.
    pub bindings: BTreeMap<DemoDomain, CounterTotals>,
    /// What the editor's domain did in all.
    pub domain: CounterTotals,
    /// Sleeps of its kernel threads, by the kernel's count.
    pub sleeps: u64,
}

/// A server's account of a round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerAccount {
    /// The calls, in the order in which their handlers began.
    pub events: Vec<Event>,
    /// What the server's domain did in all.
    pub domain: CounterTotals,
    /// Sleeps of its kernel threads, by the kernel's count.
    pub sleeps: u64,
}

impl From<Counters> for CounterTotals {
    fn from(counters: Counters) -> Self {
        let Counters {
            calls, served, kernel_entries, wakeups_sent: wakeups, wakeups_avoided, sleeps, ..
        } = counters;
        let Counters { bytes_out, bytes_in, .. } = counters;
        Self { calls, served, kernel_entries, wakeups, wakeups_avoided, sleeps, bytes_out, bytes_in }
    }
}

impl ChildTask {
    /// Where the edited text goes.
    pub fn copy(&self) -> PathBuf {
        self.directory.join("copy")
    }
}

impl Transport {
    /// Those that are compared, in the order of the rounds.
    pub const ALL: [Self; 3] = [Self::Underpass, Self::Sockets, Self::Direct];
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Underpass => "Underpass",
            Self::Sockets => "Unix sockets",
            Self::Direct => "one process",
        })
    }
}
