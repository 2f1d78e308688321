//! Execution contexts: stacks with guard pages, and the switch between stacks.
//!
//! *Decides:* how stacks are allocated, kept warm and given back ([`Stacks`]), how a closure runs
//! on another stack ([`run_on()`]), and what a switch is ([`Context`]). On x86-64 a switch is an
//! indirect jump of our own. On other processors, under sanitizers and with `--cfg
//! underpass_portable` it is `corosensei`'s.
//!
//! *Must not know:* threads, and why they pause.
//!
//! *Read first:* `context.rs`, then `switch.rs`.

mod backtrace;
mod pause_resume;
mod run_on;
mod stack;

#[cfg(all(target_arch = "x86_64", not(underpass_portable)))]
mod context;
#[cfg(any(not(target_arch = "x86_64"), underpass_portable, test))]
#[cfg_attr(all(test, target_arch = "x86_64", not(underpass_portable)), allow(dead_code))]
mod portable;
#[cfg(all(target_arch = "x86_64", not(underpass_portable)))]
mod switch;
#[cfg(underpass_tsan)]
mod tsan_fiber;

pub use backtrace::{trace_here, trace_interrupted, unwinder};
#[cfg(all(target_arch = "x86_64", not(underpass_portable)))]
pub use context::{Base, Context};
pub use pause_resume::{Pause, Resume};
#[cfg(any(not(target_arch = "x86_64"), underpass_portable))]
pub use portable::{Base, Context};
pub use run_on::run_on;
pub use stack::{Stack, Stacks};

#[cfg(test)]
mod tests;
