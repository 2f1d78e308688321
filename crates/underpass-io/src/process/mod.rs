//! Child processes with the names and shapes of [`std::process`]. Waiting for one blocks the
//! calling thread and nothing else.
//!
//! The kernel reports a child's end by a descriptor of the process (pidfd). So no signal is handled
//! and no kernel thread waits. Starting a child blocks the kernel thread for as long as `fork` and
//! `exec` take.

mod child;
mod command;
mod stdio;

pub use child::Child;
pub use command::Command;
pub use std::process::{ExitStatus, Output, Stdio};
pub use stdio::{ChildStderr, ChildStdin, ChildStdout};
