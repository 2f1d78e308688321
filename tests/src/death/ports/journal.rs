//! What a process has done with messages, as it leaves it: a file that outlives every process.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// A file of numbers, each of which was appended by one system call.
#[derive(Debug)]
pub struct Journal(File);

impl Journal {
    /// Opens the journal at `path`, which is made if there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().read(true).append(true).create(true).open(path)?))
    }

    /// Appends a number.
    pub fn note(&self, number: u64) {
        (&self.0).write_all(&number.to_le_bytes()).expect("a file takes eight bytes");
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.0.metadata().expect("a file has a length").len() as usize / 8
    }

    /// All numbers, the first one first.
    pub fn all(&self) -> Vec<u64> {
        let (mut file, mut bytes) = (&self.0, Vec::new());
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("a file can be read");
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes);
        bytes.chunks_exact(8).map(|bytes| number(bytes).expect("eight bytes")).collect()
    }

    /// Removes all numbers.
    pub fn clear(&self) {
        self.0.set_len(0).expect("a file can be emptied");
    }
}

/// Both journals of a dying process.
#[derive(Debug)]
pub struct Journals {
    /// What it has sent or received.
    pub messages: Journal,
    /// What it has counted, or heard counted.
    pub counts: Journal,
}

impl Journals {
    /// Opens the journals that begin with `path`.
    pub fn open(path: &str) -> io::Result<Self> {
        let open = |of: &str| Journal::open(format!("{path}-{of}").as_ref());
        Ok(Self { messages: open("messages")?, counts: open("counts")? })
    }

    /// Removes all numbers.
    pub fn clear(&self) {
        self.messages.clear();
        self.counts.clear();
    }
}
