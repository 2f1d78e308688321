//! The two interfaces of Figure 1: what the editor calls, wherever the other side lives.

use std::fmt;
use underpass::CallError;

/// Names a file that a file cache manager opened; a manager that was started again doesn't know it
/// any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub struct FileId {
    /// Which life of the manager gave the name.
    pub life: u32,
    /// Which of its files.
    pub index: u32,
}

/// What is known of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub struct Stat {
    /// Bytes in it, those included that are only in the cache.
    pub size: u64,
    /// Bytes in a block of the cache.
    pub block: u32,
    /// Whether `write` is allowed.
    pub writable: bool,
}

/// Why the file cache manager can't do it.
#[derive(Clone, Debug, PartialEq, underpass::Wire)]
pub enum FsError {
    /// The call itself failed: the manager died, say.
    Call(CallError),
    /// The socket to it failed, in the comparison.
    Socket(String),
    /// It manages no file of this name.
    NoFile(String),
    /// The file was opened in an earlier life of the manager.
    Stale,
    /// The file is open for reading only.
    ReadOnly(String),
    /// What the disk says.
    Disk(String),
}

/// The file cache manager (FCM): files in blocks, read from disk once and written back later.
#[underpass::interface]
pub trait FileCache {
    /// Opens the file of that name, which is made if it may be written and isn't there.
    fn open(&self, name: &str) -> Result<FileId, FsError>;
    /// Says how large the file is.
    fn stat(&self, file: FileId) -> Result<Stat, FsError>;
    /// Reads up to `len` bytes at `offset`; fewer at the end of the file.
    fn read(&self, file: FileId, offset: u64, len: u32) -> Result<Vec<u8>, FsError>;
    /// Writes `bytes` at `offset` into the cache; disk sees them when their block is evicted or
    /// flushed.
    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FsError>;
    /// Writes the file's changed blocks to disk and says how many they were.
    fn flush(&self, file: FileId) -> Result<u64, FsError>;
}

/// Where a window stands on the screen, in cells from the upper left corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub struct WindowPlace {
    /// Its first row, the border's.
    pub row: u16,
    /// Its first column, the border's.
    pub column: u16,
    /// Rows, the border included.
    pub rows: u16,
    /// Columns, the border included.
    pub columns: u16,
    /// Windows of a higher layer hide those below.
    pub layer: u8,
}

/// One picture of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub struct Frame {
    /// How many were composed, this one included.
    pub number: u32,
    /// How many rows had changed since the one before.
    pub dirty: u16,
    /// Over every cell of the screen.
    pub checksum: u64,
}

/// Why the window manager can't do it.
#[derive(Clone, Debug, PartialEq, underpass::Wire)]
pub enum WmError {
    /// The call itself failed: the manager died, say.
    Call(CallError),
    /// The socket to it failed, in the comparison.
    Socket(String),
    /// No window has this number.
    NoWindow(u32),
    /// The window doesn't fit on the screen, or the row not in the window.
    Outside(String),
}

/// The window manager (WinMgr): windows of text, composed to one screen.
#[underpass::interface]
pub trait WindowManager {
    /// Opens a window and says its number.
    fn open(&self, title: &str, place: WindowPlace) -> Result<u32, WmError>;
    /// Replaces one row of a window's inside.
    fn draw(&self, window: u32, row: u16, text: &str) -> Result<(), WmError>;
    /// Composes the rows that have changed.
    fn compose(&self) -> Result<Frame, WmError>;
    /// The screen as composed, row by row.
    fn screen(&self) -> Result<Vec<String>, WmError>;
}

impl From<CallError> for FsError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<CallError> for WmError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Socket(said) => write!(f, "the socket to the file cache manager: {said}"),
            Self::NoFile(name) => write!(f, "the file cache manager was given no file {name:?}"),
            Self::Stale => f.write_str("the file was opened before the file cache manager was started again"),
            Self::ReadOnly(name) => write!(f, "{name:?} is open for reading only"),
            Self::Disk(said) => f.write_str(said),
        }
    }
}

impl fmt::Display for WmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Socket(said) => write!(f, "the socket to the window manager: {said}"),
            Self::NoWindow(number) => write!(f, "there is no window {number}"),
            Self::Outside(said) => f.write_str(said),
        }
    }
}

impl std::error::Error for FsError {}
impl std::error::Error for WmError {}
