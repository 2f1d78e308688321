//! The messages between the demo and its three processes: one line of JSON each, over the
//! children's pipes.

use super::event::{DemoDomain, Event};
use super::plan::{EditPlan, EditorProgress};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use underpass::Counters;

/// The transport of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Underpass, three processes.
    Underpass,
    /// Unix-domain sockets, three processes.
    Sockets,
    /// Plain calls. All three parts are in one process, and nothing separates them.
    Direct,
}

/// The first line that a child reads: its task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChildTask {
    /// The transport of the calls.
    pub transport: Transport,
    /// The directory of this round: it holds exports, sockets and the edited text.
    pub directory: PathBuf,
    /// The text to edit. No process writes to it.
    pub text: PathBuf,
    /// The editor's part of the task.
    pub plan: EditPlan,
    /// Blocks of the text.
    pub blocks: u64,
    /// Blocks that the file cache manager may cache.
    pub cache: usize,
    /// Distinguishes this life of the file cache manager from others.
    pub life: u32,
    /// The number of blocks between two reports of progress. 0 means none.
    pub step: u64,
}

/// A message of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// A server can be imported.
    Ready,
    /// The editor reports its progress.
    News(EditorProgress),
    /// The editor is done, and sends its report.
    Edited(Box<Edited>),
    /// A server was told to end, and sends its report.
    Served(ServerAccount),
    /// The child failed.
    Failed(String),
}

/// The counters of a binding or a domain, as they are sent and printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterTotals {
    /// Calls that it made and that have ended.
    pub calls: u64,
    /// Calls that it handled.
    pub served: u64,
    /// System calls that it made for them.
    pub kernel_entries: u64,
    /// Wake-ups sent to the peer.
    pub wakeups: u64,
    /// Wake-ups that were not needed, because the peer had a processor.
    pub wakeups_avoided: u64,
    /// How often an activation or a kernel thread went to sleep.
    pub sleeps: u64,
    /// Bytes of arguments and results sent.
    pub bytes_out: u64,
    /// Bytes of arguments and results received.
    pub bytes_in: u64,
}

/// The editor's report of a round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Edited {
    /// When the first call was made, in ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// When the last call had returned.
    pub to: u64,
    /// The number of changed places.
    pub places: u64,
    /// Bytes of the edited text.
    pub bytes: u64,
    /// The checksum of all cells of the screen at the end.
    pub checksum: u64,
    /// The screen at the end, row by row.
    pub screen: Vec<String>,
    /// The calls, in the order in which they began.
    pub events: Vec<Event>,
    /// The counters of the bindings, by server.
    pub bindings: BTreeMap<DemoDomain, CounterTotals>,
    /// The counters of the editor's domain.
    pub domain: CounterTotals,
    /// Sleeps of its kernel threads, by the kernel's count.
    pub sleeps: u64,
}

/// A server's report of a round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerAccount {
    /// The calls, in the order in which their handlers began.
    pub events: Vec<Event>,
    /// The counters of the server's domain.
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
    /// The path of the edited text.
    pub fn copy(&self) -> PathBuf {
        self.directory.join("copy")
    }
}

impl Transport {
    /// The transports that are compared, in the order of the rounds.
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
