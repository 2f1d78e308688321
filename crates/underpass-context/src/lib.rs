//! Execution contexts: stacks with guard pages, and the switch between them.
//!
//! *Decides:* how a stack is had, kept warm and given back ([`Stacks`]), and what a switch is ([`Context`], over
//! `corosensei`).
//!
//! *Must not know:* threads and why they pause.
//!
//! *Read first:* `context.rs`.

mod context;
mod stack;

pub use context::{Context, Pause, pause};
pub use stack::{Stack, Stacks};
