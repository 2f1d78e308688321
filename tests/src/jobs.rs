//! An interface whose handlers are `async fn`s.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use underpass::{CallError, Shared};

/// Procedures that take time without occupying a thread.
#[underpass::interface(asynchronous)]
pub trait Jobs {
    /// Returns its argument after `ms` ms.
    fn echo(&self, bytes: &[u8], ms: u64) -> Result<Vec<u8>, CallError>;
    /// Calls `add` of the [`Probe`](crate::Probe) under `name`.
    fn ask(&self, name: &str, a: u8, b: u8) -> Result<u8, CallError>;
    /// Returns `len` bytes.
    fn fill(&self, len: u64) -> Result<Vec<u8>, CallError>;
    /// Panics after a while.
    fn panic(&self, message: &str) -> Result<(), CallError>;
    /// The processes that the handler sees as its callers: at each poll, and finally on a thread of
    /// its own. 0 stands for none.
    fn who(&self) -> Result<Vec<u32>, CallError>;
    /// Ends when its caller does not want it any more, or when it is dropped.
    fn hold(&self) -> Result<(), CallError>;
    /// Ends only when it is dropped.
    fn stay(&self) -> Result<(), CallError>;
    /// Sums the bytes twice with a pause of `ms` ms between. Returns both sums.
    fn twice(&self, #[underpass(shared)] bytes: Shared<'_>, ms: u64) -> Result<(u64, u64), CallError>;
    /// Calls `hold` of the office that this one knows.
    fn have_held(&self) -> Result<(), CallError>;
}
