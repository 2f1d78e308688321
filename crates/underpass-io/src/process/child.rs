//! A child process that was started.

use super::{ChildStderr, ChildStdin, ChildStdout, ExitStatus, Output};
use crate::Async;
use crate::descriptor::point;
use crate::direction::Direction;
use crate::event_source::WaitOptions;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process;
use std::time::Instant;
use underpass_os::descriptor;

/// As [`std::process::Child`]: if it is dropped, the process runs on, unless
/// [`kill_on_drop`](super::Command::kill_on_drop) says otherwise.
#[derive(Debug)]
pub struct Child {
    /// The child's standard input, if that is a pipe.
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, if that is a pipe.
    pub stdout: Option<ChildStdout>,
    /// The child's standard error output, if that is a pipe.
    pub stderr: Option<ChildStderr>,
    process: process::Child,
    /// Readable once the child has ended.
    end: Async<OwnedFd>,
    kill_on_drop: bool,
}

impl Child {
    /// Takes over a process from `std`. If that fails, the process is killed.
    pub(crate) fn adopt(mut process: process::Child, kill_on_drop: bool) -> io::Result<Self> {
        let equipped = Self::equip(&mut process);
        match equipped {
            Ok((stdin, stdout, stderr, end)) => {
                Ok(Self { stdin, stdout, stderr, process, end, kill_on_drop })
            }
            Err(e) => {
                // Both fail only if it has gone already.
                let _ = process.kill();
                let _ = process.wait();
                Err(e)
            }
        }
    }

    #[expect(clippy::type_complexity, reason = "the parts of a Child, on their way there")]
    fn equip(
        process: &mut process::Child,
    ) -> io::Result<(Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>, Async<OwnedFd>)> {
        let stdin = process.stdin.take().map(TryInto::try_into).transpose()?;
        let stdout = process.stdout.take().map(TryInto::try_into).transpose()?;
        let stderr = process.stderr.take().map(TryInto::try_into).transpose()?;
        // Nobody can have waited for the child yet, so the number is still its own. The pidfd is
        // used for readiness alone.
        let end = Async::new_nonblocking(descriptor::of_process(process.id())?);
        Ok((stdin, stdout, stderr, end))
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Kills the child with `SIGKILL`. Does nothing if it has ended already.
    ///
    /// # Errors
    /// `PermissionDenied`: it runs as another user.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }

    /// The exit status, if the child has ended.
    ///
    /// # Errors
    /// Those of `waitpid`.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    /// Closes the child's standard input, and waits until it has ended.
    ///
    /// # Errors
    /// [Cancelled](crate::is_cancelled): the child runs on, and can be waited for again. Those of
    /// `waitpid`.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.ended(WaitOptions::ENDLESS)
    }

    /// As [`wait`](Self::wait), but not beyond `deadline`.
    ///
    /// # Errors
    /// `TimedOut`, besides.
    pub fn wait_until(&mut self, deadline: Instant) -> io::Result<ExitStatus> {
        self.ended(WaitOptions::until(Some(point(deadline))))
    }

    /// Closes the child's standard input, and collects its two outputs until it has ended.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and those of reading.
    ///
    /// # Panics
    /// Never.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let complaints = self.stderr.take().map(|mut stderr| {
            underpass_threads::Builder::new().name("child's stderr").spawn(move || all(&mut stderr))
        });
        let complaints = complaints.transpose()?;
        let stdout = self.stdout.take().map_or_else(|| Ok(Vec::new()), |mut stdout| all(&mut stdout))?;
        let stderr = complaints.map_or_else(
            || Ok(Vec::new()),
            |thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("reading its stderr panicked"))),
        )?;
        Ok(Output { status: self.wait()?, stdout, stderr })
    }

    fn ended(&mut self, options: WaitOptions) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            self.end.wait(Direction::Read, options)?;
        }
    }
}

fn all(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).map(|_| bytes)
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.kill_on_drop && self.kill().is_ok() {
            // So that no zombie is left. It was killed, so it ends soon. A process that can't be
            // waited for is not our child any more.
            let _ = self.ended(WaitOptions { deadline_ns: None, cancellable: false });
        }
    }
}
