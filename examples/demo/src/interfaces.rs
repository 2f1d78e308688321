//! The two interfaces of Figure 1. The editor calls them, wherever the other side lives.

use std::fmt;
use underpass::CallError;

/// The id of a file that a file cache manager opened. A restarted manager does not know it any
/// more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub struct FileId {
    /// The life of the manager that gave the id.
    pub life: u32,
    /// The file.
    pub index: u32,
}

/// Properties of a file, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub struct Stat {
    /// Its length in bytes, including bytes that are only in the cache.
    pub size: u64,
    /// Bytes in a block of the cache.
    pub block: u32,
    /// Whether `write` is allowed.
    pub writable: bool,
}

/// Why the file cache manager refuses.
#[derive(Clone, Debug, PartialEq, underpass::Wire)]
pub enum FsError {
    /// The call itself failed, for example because the manager died.
    Call(CallError),
    /// The socket to it failed, in the comparison.
    Socket(String),
    /// It manages no file of this name.
    NoFile(String),
    /// The file was opened in an earlier life of the manager.
    Stale,
    /// The file is open for reading only.
    ReadOnly(String),
    /// The error of the disk.
    Disk(String),
}

/// The file cache manager (FCM). It keeps files in blocks, reads them from disk once, and writes
/// them back later.
#[underpass::interface]
pub trait FileCache {
    /// Opens the file of that name. If it may be written and does not exist, the file is made.
    fn open(&self, name: &str) -> Result<FileId, FsError>;
    /// Returns the size of the file.
    fn stat(&self, file: FileId) -> Result<Stat, FsError>;
    /// Reads up to `len` bytes at `offset`. There are fewer at the end of the file.
    fn read(&self, file: FileId, offset: u64, len: u32) -> Result<Vec<u8>, FsError>;
    /// Writes `bytes` at `offset` into the cache. They reach the disk when their block is evicted
    /// or flushed.
    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FsError>;
    /// Writes the file's changed blocks to disk, and returns their number.
    fn flush(&self, file: FileId) -> Result<u64, FsError>;
}

/// The position of a window on the screen, in cells from the upper left corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub struct WindowPlace {
    /// Its first row, which belongs to the border.
    pub row: u16,
    /// Its first column, which belongs to the border.
    pub column: u16,
    /// Rows, the border included.
    pub rows: u16,
    /// Columns, the border included.
    pub columns: u16,
    /// Windows of a higher layer hide those of a lower one.
    pub layer: u8,
}

/// One picture of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Wire)]
pub struct Frame {
    /// How many pictures were composed, including this one.
    pub number: u32,
    /// How many rows have changed since the previous picture.
    pub dirty: u16,
    /// The checksum of all cells of the screen.
    pub checksum: u64,
}

/// Why the window manager refuses.
#[derive(Clone, Debug, PartialEq, underpass::Wire)]
pub enum WmError {
    /// The call itself failed, for example because the manager died.
    Call(CallError),
    /// The socket to it failed, in the comparison.
    Socket(String),
    /// No window has this number.
    NoWindow(u32),
    /// The window doesn't fit on the screen, or the row not in the window.
    Outside(String),
}

/// The window manager (WinMgr). It composes windows of text to one screen.
#[underpass::interface]
pub trait WindowManager {
    /// Opens a window and returns its number.
    fn open(&self, title: &str, place: WindowPlace) -> Result<u32, WmError>;
    /// Replaces one row inside a window.
    fn draw(&self, window: u32, row: u16, text: &str) -> Result<(), WmError>;
    /// Composes the rows that have changed.
    fn compose(&self) -> Result<Frame, WmError>;
    /// The composed screen, row by row.
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
