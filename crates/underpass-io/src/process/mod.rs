//! Child processes with the names and shapes of [`std::process`]; waiting for one blocks the
//! calling thread and nothing else.
//!
//! A child's end is learnt from the kernel by a descriptor of the process (pidfd), so no signal is
//! handled and no thread of the kernel waits. Starting a child takes the kernel thread for as long
//! as `fork` and `exec` do.

mod child;
mod command;
mod stdio;

pub use child::Child;
pub use command::Command;
pub use std::process::{ExitStatus, Output, Stdio};
pub use stdio::{ChildStderr, ChildStdin, ChildStdout};
