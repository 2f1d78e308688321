//! Copies the standard outputs of a sandboxed domain to those of its starter.
//!
//! Each output has a kernel thread that copies it, because this process's own output may stay full
//! for as long as its reader wants. That thread may hang, and has a descriptor table of its own.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;
use underpass_os::{Socket, clock, output};

/// How long the report of a domain's end may wait for the domain's earlier output.
const PATIENCE: Duration = Duration::from_secs(1);

/// The outputs of one domain.
pub(crate) struct Outputs(Vec<Output>);

struct Output {
    /// The stream that the domain writes to. The thread reads from its copy of this end.
    from: UnixStream,
    /// Its other end is closed when everything is copied.
    thread: Socket,
}

impl Outputs {
    /// No outputs: the domain is silent.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Connects the outputs of `command` to this process's outputs, by two threads.
    pub(crate) fn of(command: &mut Command) -> io::Result<Self> {
        let (out, out_end) = Output::to(io::stdout().as_fd())?;
        let (error, error_end) = Output::to(io::stderr().as_fd())?;
        command.stdout(out_end).stderr(error_end);
        Ok(Self(vec![out, error]))
    }

    /// Called when the process has ended. Waits until all its output is copied, but not for long if
    /// this process's outputs are full. The rest is copied later.
    pub(crate) fn end(&self) {
        // A process to which the domain has passed its end can write no more.
        self.0.iter().for_each(|output| _ = output.from.shutdown(Shutdown::Read));
        let deadline = clock::deadline_ns(PATIENCE);
        // This fails only if our own files are broken.
        self.0.iter().for_each(|output| _ = output.thread.wait(deadline));
    }
}

impl Output {
    /// An output that is copied to `to`, and the end for the writing process.
    fn to(to: BorrowedFd<'_>) -> io::Result<(Self, Stdio)> {
        let (from, theirs) = output::pair()?;
        let (thread, exchange) = Socket::pair()?;
        underpass_rpc::spawn_apart("underpass-output", exchange, |table| {
            // Nobody is left to receive the error.
            let _ = output::copy(&table);
        })?;
        thread.send(&[0], &[from.as_fd()])?;
        thread.send(&[0], &[to])?;
        Ok((Self { from, thread }, theirs.into()))
    }
}
