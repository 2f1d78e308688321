//! What became of each call, as it is left by who dies: a byte of a file each, which outlives every
//! process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What is known of a call. A fresh file says `Nothing` of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Nobody has said anything.
    Nothing,
    /// The procedure's body began.
    Began,
    /// The procedure's body ended.
    Ended,
    /// The procedure's body began, though it had begun before.
    Twice,
    /// The caller has its result.
    Answered,
}

/// A file of marks.
#[derive(Debug)]
pub struct Marks(File);

impl Marks {
    /// The file at `path`, which there is.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().read(true).write(true).open(path)?))
    }

    /// An empty one at `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?))
    }

    /// Says `mark` of `call`.
    pub fn set(&self, call: u64, mark: Mark) {
        self.0.write_all_at(&[mark as u8], call).expect("a byte can be written");
    }

    /// What was said of `call`.
    pub fn of(&self, call: u64) -> Mark {
        let mut byte = [0];
        // Beyond the end nothing was said.
        let _ = self.0.read_at(&mut byte, call).expect("a byte can be read");
        [Mark::Nothing, Mark::Began, Mark::Ended, Mark::Twice, Mark::Answered][usize::from(byte[0])]
    }

    /// How many calls anything may have been said of.
    pub fn len(&self) -> u64 {
        self.0.metadata().expect("a file has a length").len()
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.0.set_len(0).expect("a file can be emptied");
    }
}
