//! Version 1 of an interface, and another version 2 than that in `second_archive.rs`.
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
    pub color: u8,
}

/// Something that may bring a file in later versions.
#[derive(Debug, Wire)]
#[underpass(extensible)]
pub struct Letter {
    pub name: String,
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
    /// Does nothing.
    #[underpass(since = 2)]
    fn rename(&self) -> Result<(), CallError>;
}

/// An implementation that keeps nothing.
pub struct Cabinet;

impl Archive for Cabinet {
    fn put(&self, entry: Entry) -> Result<String, CallError> {
        Ok(format!("{entry:?}"))
    }

    fn list(&self, count: u32) -> Result<Vec<Entry>, CallError> {
        Ok((0..count).map(|i| Entry { name: format!("e{i}"), size: i.into(), color: 9 }).collect())
    }

    fn send(&self, letter: Letter, last: File) -> Result<String, CallError> {
        Ok(format!("{} and {}", letter.name, read_all(last)))
    }

    fn pid(&self) -> Result<u32, CallError> {
        Ok(std::process::id())
    }

    fn rename(&self) -> Result<(), CallError> {
        Ok(())
    }
}

/// Does what `order` says, and returns the result.
#[allow(dead_code, reason = "a test uses only the types")]
pub fn obey(client: &ArchiveClient, order: &str) -> String {
    match order.split_once(' ').unwrap_or((order, "")) {
        ("put", _) => shown(client.put(Entry { name: "plum".into(), size: 12, color: 9 })),
        ("list", count) => {
            let listed = client.list(count.parse().expect("a count"));
            shown(listed.map(|listed| (listed.len(), listed.last().cloned())))
        }
        ("send", _) => shown(client.send(Letter { name: "letter".into() }, readable("last"))),
        ("rename", _) => shown(client.rename()),
        ("pid", _) => shown(client.pid()),
        _ => panic!("no such order: {order}"),
    }
}
