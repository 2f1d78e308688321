//! An interface whose handlers are `async fn`s.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use underpass::{CallError, Shared};

/// What takes time, and nobody's thread.
#[underpass::interface(asynchronous)]
pub trait Errands {
    /// Gives back what it got, after so long.
    fn echo(&self, bytes: &[u8], ms: u64) -> Result<Vec<u8>, CallError>;
    /// `add` of the [`Probe`](crate::Probe) under `name`.
    fn ask(&self, name: &str, a: u8, b: u8) -> Result<u8, CallError>;
    /// `len` bytes.
    fn fill(&self, len: u64) -> Result<Vec<u8>, CallError>;
    /// Panics, after a while.
    fn panic(&self, message: &str) -> Result<(), CallError>;
    /// The processes that the handler sees as its callers, each time that it is polled, and at last
    /// one that a thread of its own sees; 0 for none.
    fn who(&self) -> Result<Vec<u32>, CallError>;
    /// Ends when nobody wants it, or it is dropped.
    fn hold(&self) -> Result<(), CallError>;
    /// Ends when it is dropped.
    fn stay(&self) -> Result<(), CallError>;
    /// The sum of the bytes, added up twice with a pause between: what the first and the second
    /// time had.
    fn twice(&self, #[underpass(shared)] bytes: Shared<'_>, ms: u64) -> Result<(u64, u64), CallError>;
    /// Has the office that this one knows `hold`.
    fn have_held(&self) -> Result<(), CallError>;
}
