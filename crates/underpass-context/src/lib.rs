//! Execution contexts: stacks with guard pages, and the switch between them.
//!
//! *Decides:* how a stack is had, kept warm and given back ([`Stacks`]), how a closure runs on
//! another one ([`run_on`]), and what a switch is ([`Context`]): an indirect jump of our own on
//! x86-64, `corosensei` elsewhere, under sanitizers, and with `--cfg underpass_portable`.
//!
//! *Must not know:* threads and why they pause.
//!
//! *Read first:* `context.rs`, then `switch.rs`.

mod nested;
mod stack;
mod trace;
mod why;

#[cfg(all(target_arch = "x86_64", not(underpass_portable)))]
mod context;
#[cfg(underpass_tsan)]
mod fiber;
#[cfg(any(not(target_arch = "x86_64"), underpass_portable, test))]
#[cfg_attr(all(test, target_arch = "x86_64", not(underpass_portable)), allow(dead_code))]
mod portable;
#[cfg(all(target_arch = "x86_64", not(underpass_portable)))]
mod switch;

#[cfg(all(target_arch = "x86_64", not(underpass_portable)))]
pub use context::{Base, Context};
pub use nested::run_on;
#[cfg(any(not(target_arch = "x86_64"), underpass_portable))]
pub use portable::{Base, Context};
pub use stack::{Stack, Stacks};
pub use trace::{trace_here, trace_interrupted, unwinder};
pub use why::{Pause, Resume};

#[cfg(test)]
mod tests;
