//! The work of the editor's threads, and how they report their progress.

use super::event::EditorThread;
use super::interfaces::{FileCache, WindowManager, WindowPlace};
use super::text::Change;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The size of the screen in cells.
pub const SCREEN: (u16, u16) = (16, 100);

/// The name under which the editor opens the text.
pub const TEXT: &str = "text";
/// The name under which it opens the copy that it writes the edited text to.
pub const COPY: &str = "copy";

/// The part of the work that is the same for both threads of a round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EditPlan {
    /// The replacement.
    pub change: Change,
    /// Bytes of one read.
    pub block: u32,
    /// The number of blocks after which a thread composes the screen.
    pub compose_every: u32,
    /// The number of blocks after which a thread flushes its writes.
    pub flush_every: u32,
    /// Whether the file cache manager will be killed. If so, the editor works at least until then.
    pub disaster: bool,
}

/// How a thread of the editor reaches the servers: over Underpass or over sockets, traced or not.
pub trait Imports: Send + Sync + 'static {
    /// The file cache manager, as that thread sees it.
    type Files: FileCache + Send + 'static;
    /// The window manager, as that thread sees it.
    type Windows: WindowManager + Send + 'static;

    /// Imports the file cache manager.
    fn files(&self, thread: EditorThread) -> Result<Self::Files>;
    /// Imports it again, after its death.
    fn files_again(&self, thread: EditorThread) -> Result<Self::Files>;
    /// Imports the window manager.
    fn windows(&self, thread: EditorThread) -> Result<Self::Windows>;
}

/// How the editor's two threads run: at user level or as kernel threads.
pub trait Threads {
    /// Runs both and waits for both.
    fn both<T: Send + 'static>(
        &self,
        first: impl FnOnce() -> Result<T> + Send + 'static,
        second: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<(T, T)>;
}

/// An event in the editor that is reported at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditorProgress {
    /// That many blocks are done, in both passes.
    Blocks(u64),
    /// The editor is in the middle of its work, where the disaster may happen.
    Middle,
    /// A call failed because its server died.
    Lost {
        /// The calling thread.
        thread: EditorThread,
        /// The call and its error.
        error: String,
        /// When, in ns of `CLOCK_MONOTONIC`.
        at: u64,
    },
    /// The thread imported the server again.
    Again {
        /// The thread.
        thread: EditorThread,
        /// The bytes of the text that it edits again: those since its last flush.
        repeats: u64,
        /// When, in ns of `CLOCK_MONOTONIC`.
        at: u64,
    },
}

/// Counts finished blocks, and reports them at intervals.
pub struct Pulse {
    blocks: AtomicU64,
    step: u64,
    tell: Box<dyn Fn(EditorProgress) + Send + Sync>,
}

impl Pulse {
    /// Reports every `step` blocks. 0 means never.
    pub fn new(step: u64, tell: impl Fn(EditorProgress) + Send + Sync + 'static) -> Self {
        Self { blocks: AtomicU64::new(0), step, tell: Box::new(tell) }
    }

    /// Counts a block, and returns how many there are now.
    pub fn block(&self) -> u64 {
        // Relaxed: this is a count, and publishes nothing.
        let blocks = self.blocks.fetch_add(1, Ordering::Relaxed) + 1;
        if self.step > 0 && blocks.is_multiple_of(self.step) {
            (self.tell)(EditorProgress::Blocks(blocks));
        }
        blocks
    }

    /// Reports an event.
    pub fn tell(&self, news: EditorProgress) {
        (self.tell)(news);
    }
}

impl std::fmt::Debug for Pulse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pulse")
            .field("blocks", &self.blocks)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

/// The progress of a thread in a pass over its half of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The next byte of the text to read.
    pub input: u64,
    /// Bytes that were read before `next` and not processed yet: a place to change may begin there.
    pub held: u64,
    /// The offset of the next edited byte.
    pub output: u64,
    /// Places that were found.
    pub places: u64,
    /// Blocks that are done.
    pub blocks: u64,
    /// Lines that were drawn.
    pub lines: u64,
}

/// A thread's half of the text, found by its first pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Half {
    /// Its range of bytes. No place to change lies across its ends.
    pub bytes: Range<u64>,
    /// The number of places to change in it.
    pub places: u64,
}

impl EditorThread {
    /// The position of this thread's window.
    pub fn place(self) -> WindowPlace {
        match self {
            Self::T1 => WindowPlace { row: 0, column: 0, rows: 12, columns: 64, layer: 1 },
            Self::T2 => WindowPlace { row: 4, column: 36, rows: 12, columns: 64, layer: 2 },
        }
    }
}
