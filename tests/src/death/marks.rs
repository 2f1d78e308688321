//! What became of each call, as the dying process leaves it. Each call has one byte of a file that
//! outlives every process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What is known of a call. A fresh file says `Nothing` about all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// No mark was made.
    Nothing,
    /// The procedure's body began.
    Began,
    /// The procedure's body ended.
    Ended,
    /// The procedure's body began a second time.
    Twice,
    /// The caller has its result.
    Answered,
}

/// A file of marks.
#[derive(Debug)]
pub struct Marks(File);

impl Marks {
    /// Opens the existing file at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().read(true).write(true).open(path)?))
    }

    /// Makes an empty file at `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?))
    }

    /// Marks `call`.
    pub fn set(&self, call: u64, mark: Mark) {
        self.0.write_all_at(&[mark as u8], call).expect("a byte can be written");
    }

    /// The mark of `call`.
    pub fn of(&self, call: u64) -> Mark {
        let mut byte = [0];
        // Beyond the end of the file there are no marks.
        let _ = self.0.read_at(&mut byte, call).expect("a byte can be read");
        [Mark::Nothing, Mark::Began, Mark::Ended, Mark::Twice, Mark::Answered][usize::from(byte[0])]
    }

    /// An upper bound on the numbers of marked calls.
    pub fn len(&self) -> u64 {
        self.0.metadata().expect("a file has a length").len()
    }

    /// Removes all marks.
    pub fn clear(&self) {
        self.0.set_len(0).expect("a file can be emptied");
    }
}
