//! What the tests ask of a domain in a sandbox.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use underpass::CallError;

/// A domain that misbehaves when asked to.
#[underpass::interface]
pub trait Captive {
    /// Tries a misdeed, on a target where it has one. Says `done`, or which `errno` came.
    fn attempt(&self, deed: &str, target: u64) -> Result<String, CallError>;
    /// Calls `add` of the `Probe` that it imported before it was locked in.
    fn ask(&self, a: u8, b: u8) -> Result<u8, CallError>;
    /// Its environment.
    fn environment(&self) -> Result<Vec<(String, String)>, CallError>;
    /// Has `threads` kernel threads add up numbers, of which each begins one more.
    fn threads(&self, threads: u64) -> Result<u64, CallError>;
    /// Blocks its kernel thread, having said so.
    fn block(&self, ms: u64) -> Result<(), CallError>;
}
