//! The record of a call.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// One of the three processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DemoDomain {
    /// The client.
    Editor,
    /// WinMgr in the paper's figure.
    Windows,
    /// FCM in the paper's figure.
    Files,
}

impl DemoDomain {
    /// The one of this name on the command line.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let all = [Self::Editor, Self::Windows, Self::Files];
        let found = all.into_iter().find(|domain| domain.role() == name);
        found.ok_or_else(|| format!("the demo has no process called {name:?}"))
    }

    /// Its name on the command line.
    pub(crate) fn role(self) -> &'static str {
        match self {
            Self::Editor => "editor",
            Self::Windows => "windows",
            Self::Files => "files",
        }
    }
}

/// A thread of the editor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EditorThread {
    /// The thread that works on the first half of the text.
    T1,
    /// The thread that works on the second half.
    T2,
}

/// A procedure of one of the two interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "named after the methods of the traits")]
pub enum DemoProcedure {
    FilesOpen,
    Stat,
    Read,
    Write,
    Flush,
    WindowsOpen,
    Draw,
    Compose,
    Screen,
}

/// One call, as its caller or its handler recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The calling thread. `None` where the handler recorded the call.
    pub thread: Option<EditorThread>,
    /// The called procedure.
    pub procedure: DemoProcedure,
    /// Distinguishes concurrent calls of one procedure, for example by their offset.
    pub key: u64,
    /// When it began, in ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// When it ended.
    pub to: u64,
    /// The processor that it began on.
    pub cpu_from: usize,
    /// The processor that it ended on.
    pub cpu_to: usize,
    /// Kernel entries of the binding up to the end of this call.
    pub kernel_entries: u64,
    /// Wake-ups sent over the binding up to the end of this call.
    pub wakeups: u64,
    /// Whether it returned a result.
    pub fine: bool,
}

/// Keeps the events of one thread or one server until the work is over.
#[derive(Debug)]
pub struct Log {
    events: Mutex<Vec<Event>>,
}

impl Log {
    /// A log with room for `room` events before it has to grow.
    pub fn new(room: usize) -> Self {
        Self { events: Mutex::new(Vec::with_capacity(room)) }
    }

    /// Adds an event.
    pub fn add(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Takes the events out.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl DemoDomain {
    /// The two domains that export an interface.
    pub const SERVERS: [Self; 2] = [Self::Windows, Self::Files];

    /// The name under which its interface is exported.
    pub fn export(self) -> &'static str {
        match self {
            Self::Editor => "demo.editor",
            Self::Windows => "demo.windows",
            Self::Files => "demo.files",
        }
    }
}

impl fmt::Display for DemoDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Editor => "editor",
            Self::Windows => "window manager",
            Self::Files => "file cache manager",
        })
    }
}

impl fmt::Display for EditorThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::T1 => "T1",
            Self::T2 => "T2",
        })
    }
}

impl DemoProcedure {
    /// The domain that handles this procedure.
    pub fn server(self) -> DemoDomain {
        match self {
            Self::FilesOpen | Self::Stat | Self::Read | Self::Write | Self::Flush => DemoDomain::Files,
            Self::WindowsOpen | Self::Draw | Self::Compose | Self::Screen => DemoDomain::Windows,
        }
    }
}

impl fmt::Display for DemoProcedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::FilesOpen | Self::WindowsOpen => "open",
            Self::Stat => "stat",
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Draw => "draw",
            Self::Compose => "compose",
            Self::Screen => "screen",
        })
    }
}

impl Event {
    /// The duration of the call, in ns.
    pub fn ns(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}
