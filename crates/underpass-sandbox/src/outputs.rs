//! What a sandboxed domain says on its standard outputs, copied to those of its starter.
//!
//! Each output has a kernel thread that copies it, since this process's own output may be full for
//! as long as its reader likes. That thread may be lost, and has a descriptor table of its own.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;
use underpass_os::{Socket, clock, output};

/// How long the end of a domain is kept back for what it has said before.
const PATIENCE: Duration = Duration::from_secs(1);

/// The outputs of one domain.
pub(crate) struct Outputs(Vec<Output>);

struct Output {
    /// What the domain writes comes here. The thread has the copy that is read from.
    from: UnixStream,
    /// Its other end is closed when all is copied.
    thread: Socket,
}

impl Outputs {
    /// None: a domain is silent.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Has the process of `command` write to this process's outputs, by way of two threads.
    pub(crate) fn of(command: &mut Command) -> io::Result<Self> {
        let (out, out_end) = Output::to(io::stdout().as_fd())?;
        let (error, error_end) = Output::to(io::stderr().as_fd())?;
        command.stdout(out_end).stderr(error_end);
        Ok(Self(vec![out, error]))
    }

    /// The process has ended. Waits until all is copied that it has written, but not for long if
    /// this process's outputs are full. Then it is copied later.
    pub(crate) fn end(&self) {
        // A process that the domain has passed its end to writes no more.
        self.0.iter().for_each(|output| _ = output.from.shutdown(Shutdown::Read));
        let deadline = clock::deadline_ns(PATIENCE);
        // It fails only if our own files are broken.
        self.0.iter().for_each(|output| _ = output.thread.wait(deadline));
    }
}

impl Output {
    /// One that is copied to `to`, and the end for the process that writes.
    fn to(to: BorrowedFd<'_>) -> io::Result<(Self, Stdio)> {
        let (from, theirs) = output::pair()?;
        let (thread, exchange) = Socket::pair()?;
        underpass_rpc::spawn_apart("underpass-output", exchange, |table| {
            // Nobody is left whom it could be told.
            let _ = output::copy(&table);
        })?;
        thread.send(&[0], &[from.as_fd()])?;
        thread.send(&[0], &[to])?;
        Ok((Self { from, thread }, theirs.into()))
    }
}
