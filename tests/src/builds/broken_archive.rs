//! An interface that is no version of the one in `first_archive.rs`, and has its name.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use underpass::CallError;
use underpass_tests::shown;

#[underpass::interface(stateless)]
pub trait Archive {
    /// Returns what the server has got.
    fn put(&self, name: &str, size: u64) -> Result<String, CallError>;
    /// The server's process.
    fn pid(&self) -> Result<u32, CallError>;
}

/// An implementation that keeps nothing.
pub struct Cabinet;

impl Archive for Cabinet {
    fn put(&self, name: &str, size: u64) -> Result<String, CallError> {
        Ok(format!("{name} of {size} bytes"))
    }

    fn pid(&self) -> Result<u32, CallError> {
        Ok(std::process::id())
    }
}

/// Does what `order` says, and returns the result.
#[allow(dead_code, reason = "other programs only serve it")]
pub fn obey(client: &ArchiveClient, order: &str) -> String {
    match order {
        "put" => shown(client.put("plum", 12)),
        "pid" => shown(client.pid()),
        _ => panic!("no such order: {order}"),
    }
}
