//! The interface of a domain in a sandbox.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use underpass::CallError;

/// A domain that misbehaves when asked to.
#[underpass::interface]
pub trait Captive {
    /// Tries a misdeed, on a target if it has one. Returns `done`, or the `errno`.
    fn attempt(&self, deed: &str, target: u64) -> Result<String, CallError>;
    /// Calls `add` of the `Probe` that it imported before it was restricted.
    fn ask(&self, a: u8, b: u8) -> Result<u8, CallError>;
    /// The domain's environment.
    fn environment(&self) -> Result<Vec<(String, String)>, CallError>;
    /// Starts `threads` kernel threads that add up numbers. Each begins one later than the last.
    fn threads(&self, threads: u64) -> Result<u64, CallError>;
    /// Blocks its kernel thread for `ms` ms, after announcing it.
    fn block(&self, ms: u64) -> Result<(), CallError>;
}
