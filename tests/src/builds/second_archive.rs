//! Version 2 of an interface: methods and fields were added.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use std::fs::File;
use underpass::{CallError, Wire};
use underpass_tests::{read_all, readable, shown};

/// Something in an archive.
#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(extensible)]
pub struct Entry {
    pub name: String,
    pub size: u64,
    #[underpass(since = 2)]
    pub owner: Option<String>,
    #[underpass(since = 2, default = 0o644)]
    pub mode: u32,
}

/// Something that may bring files.
#[derive(Debug, Wire)]
#[underpass(extensible)]
pub struct Letter {
    pub name: String,
    #[underpass(since = 2)]
    pub files: Vec<File>,
}

#[underpass::interface(stateless)]
pub trait Archive {
    /// Returns what the server has got.
    fn put(&self, entry: Entry) -> Result<String, CallError>;
    /// Returns that many entries.
    fn list(&self, count: u32) -> Result<Vec<Entry>, CallError>;
    /// Returns what the server has got, and what `last` contains.
    fn send(&self, letter: Letter, last: File) -> Result<String, CallError>;
    /// The server's process.
    fn pid(&self) -> Result<u32, CallError>;
    /// Returns the names of what it has removed. With it, A-stacks are larger.
    #[underpass(since = 2, astack = 100_000)]
    fn remove(&self, names: &[String]) -> Result<Vec<String>, CallError>;
    /// As `remove`, and may be executed twice.
    #[underpass(since = 2)]
    #[idempotent]
    fn clear(&self) -> Result<u32, CallError>;
}

/// An implementation that keeps nothing.
pub struct Cabinet;

impl Archive for Cabinet {
    fn put(&self, entry: Entry) -> Result<String, CallError> {
        Ok(format!("{entry:?}"))
    }

    fn list(&self, count: u32) -> Result<Vec<Entry>, CallError> {
        let entry =
            |i: u32| Entry { name: format!("e{i}"), size: i.into(), owner: Some("o".repeat(20)), mode: 7 };
        Ok((0..count).map(entry).collect())
    }

    fn send(&self, letter: Letter, last: File) -> Result<String, CallError> {
        let files: Vec<_> = letter.files.into_iter().map(read_all).collect();
        Ok(format!("{} with {files:?} and {}", letter.name, read_all(last)))
    }

    fn pid(&self) -> Result<u32, CallError> {
        Ok(std::process::id())
    }

    fn remove(&self, names: &[String]) -> Result<Vec<String>, CallError> {
        Ok(names.to_vec())
    }

    fn clear(&self) -> Result<u32, CallError> {
        Ok(7)
    }
}

/// Does what `order` says, and returns the result.
#[allow(dead_code, reason = "a test uses only the types")]
pub fn obey(client: &ArchiveClient, order: &str) -> String {
    match order.split_once(' ').unwrap_or((order, "")) {
        ("put", _) => {
            let (name, owner) = ("plum".into(), Some("me".into()));
            shown(client.put(Entry { name, size: 12, owner, mode: 0o600 }))
        }
        ("list", count) => {
            let listed = client.list(count.parse().expect("a count"));
            shown(listed.map(|listed| (listed.len(), listed.last().cloned())))
        }
        ("send", _) => {
            let files = vec![readable("one"), readable("two")];
            shown(client.send(Letter { name: "letter".into(), files }, readable("last")))
        }
        ("pid", _) => shown(client.pid()),
        ("remove", _) => shown(client.remove(&["plum".to_owned()])),
        // Larger than the A-stacks of version 1.
        ("remove-large", _) => shown(client.remove(&["p".repeat(60_000)]).map(|removed| removed[0].len())),
        ("clear", _) => shown(client.clear()),
        _ => panic!("no such order: {order}"),
    }
}
