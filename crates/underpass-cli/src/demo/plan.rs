//! What the editor's threads have to do, and how they tell how far they are.

use super::event::EditorThread;
use super::interfaces::{FileCache, WindowManager, WindowPlace};
use super::text::Change;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The screen, in cells.
pub const SCREEN: (u16, u16) = (16, 100);

/// The name under which the editor opens the text.
pub const TEXT: &str = "text";
/// The name under which it opens the copy that it writes the edited text to.
pub const COPY: &str = "copy";

/// What is the same for both threads of a round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EditPlan {
    /// What to replace.
    pub change: Change,
    /// Bytes to read at a time.
    pub block: u32,
    /// A thread composes the screen after each so many blocks.
    pub compose_every: u32,
    /// A thread flushes what it wrote after each so many blocks.
    pub flush_every: u32,
    /// Whether the file cache manager is going to be killed, and the editor goes on until then at
    /// least.
    pub disaster: bool,
}

/// How a thread of the editor gets at the servers: over Underpass or over sockets, traced or not.
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

/// Something that happened in the editor and is told at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditorProgress {
    /// So many blocks are done, of both passes.
    Blocks(u64),
    /// The editor is in the middle of its work, a good time for a disaster.
    Middle,
    /// A call failed because its server died.
    Lost {
        /// Whose call.
        thread: EditorThread,
        /// What was called, and what the call returned.
        error: String,
        /// When, in ns of `CLOCK_MONOTONIC`.
        at: u64,
    },
    /// The thread imported the server again.
    Again {
        /// Which thread.
        thread: EditorThread,
        /// Bytes of the text that it edits a second time: those since its last flush.
        repeats: u64,
        /// When, in ns of `CLOCK_MONOTONIC`.
        at: u64,
    },
}

/// Counts finished blocks and tells about them now and then.
pub struct Pulse {
    blocks: AtomicU64,
    step: u64,
    tell: Box<dyn Fn(EditorProgress) + Send + Sync>,
}

impl Pulse {
    /// Tells each `step` blocks, and never if that is 0.
    pub fn new(step: u64, tell: impl Fn(EditorProgress) + Send + Sync + 'static) -> Self {
        Self { blocks: AtomicU64::new(0), step, tell: Box::new(tell) }
    }

    /// Counts a block and says how many they are by now.
    pub fn block(&self) -> u64 {
        // Relaxed: a count, nothing is published by it.
        let blocks = self.blocks.fetch_add(1, Ordering::Relaxed) + 1;
        if self.step > 0 && blocks.is_multiple_of(self.step) {
            (self.tell)(EditorProgress::Blocks(blocks));
        }
        blocks
    }

    /// Tells something.
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

/// How far a thread is with a pass over its half of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The next byte of the text to read.
    pub input: u64,
    /// Bytes read before it and not told of yet: a place to change may begin there.
    pub held: u64,
    /// Where the next edited byte goes.
    pub output: u64,
    /// Places found.
    pub places: u64,
    /// Blocks done.
    pub blocks: u64,
    /// Lines drawn.
    pub lines: u64,
}

/// A thread's half of the text, found by its first pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Half {
    /// Its bytes; no place to change lies across its ends.
    pub bytes: Range<u64>,
    /// Places to change in it.
    pub places: u64,
}

impl EditorThread {
    /// Where this thread's window stands.
    pub fn place(self) -> WindowPlace {
        match self {
            Self::T1 => WindowPlace { row: 0, column: 0, rows: 12, columns: 64, layer: 1 },
            Self::T2 => WindowPlace { row: 4, column: 36, rows: 12, columns: 64, layer: 2 },
        }
    }
}
