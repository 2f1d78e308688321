//! A child process to be started.

use super::{Child, ExitStatus, Output, Stdio};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process;

/// As [`std::process::Command`]. [`as_std_mut`](Self::as_std_mut) gives access to what is missing
/// here.
///
/// # Examples
/// ```
/// use underpass::io::process::Command;
/// use underpass::thread;
///
/// let output = thread::spawn(|| Command::new("echo").arg("hello").output()).join().unwrap()?;
/// assert!(output.status.success());
/// assert_eq!(output.stdout, b"hello\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Command {
    command: process::Command,
    kill_on_drop: bool,
    /// Whether the caller has chosen each stream. `output` and `spawn` choose the others
    /// differently.
    chosen: [bool; 3],
}

impl Command {
    /// A command that runs `program`, looked up in `$PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        process::Command::new(program).into()
    }

    /// Adds an argument.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.command.arg(arg);
        self
    }

    /// Adds several arguments.
    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.command.args(args);
        self
    }

    /// Sets a variable of its environment.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.command.env(key, value);
        self
    }

    /// Sets several variables of its environment.
    pub fn envs(
        &mut self,
        variables: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
    ) -> &mut Self {
        self.command.envs(variables);
        self
    }

    /// Removes a variable of its environment.
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Self {
        self.command.env_remove(key);
        self
    }

    /// Removes all variables of its environment.
    pub fn env_clear(&mut self) -> &mut Self {
        self.command.env_clear();
        self
    }

    /// Sets its working directory.
    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.command.current_dir(directory);
        self
    }

    /// Sets its standard input.
    pub fn stdin(&mut self, stdio: impl Into<Stdio>) -> &mut Self {
        self.command.stdin(stdio);
        self.chosen[0] = true;
        self
    }

    /// Sets its standard output.
    pub fn stdout(&mut self, stdio: impl Into<Stdio>) -> &mut Self {
        self.command.stdout(stdio);
        self.chosen[1] = true;
        self
    }

    /// Sets its standard error output.
    pub fn stderr(&mut self, stdio: impl Into<Stdio>) -> &mut Self {
        self.command.stderr(stdio);
        self.chosen[2] = true;
        self
    }

    /// Sets whether dropping the [`Child`] kills the process and waits for its end. The default is
    /// that it doesn't.
    pub fn kill_on_drop(&mut self, kill: bool) -> &mut Self {
        self.kill_on_drop = kill;
        self
    }

    /// The command of `std` underneath, for what is missing here.
    pub fn as_std(&self) -> &process::Command {
        &self.command
    }

    /// The command of `std` underneath, for what is missing here. Set the three streams by the
    /// methods above.
    pub fn as_std_mut(&mut self) -> &mut process::Command {
        &mut self.command
    }

    /// Starts the process. Streams that were not chosen are inherited.
    ///
    /// # Errors
    /// `NotFound`: no such program; `PermissionDenied`; too many open files or processes.
    pub fn spawn(&mut self) -> io::Result<Child> {
        Child::adopt(self.command.spawn()?, self.kill_on_drop)
    }

    /// Starts the process and waits until it has ended. Streams that were not chosen are inherited.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn) and [`Child::wait`].
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// Starts the process and collects its two outputs until it has ended. Its standard input is
    /// empty unless another one was chosen.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn) and [`Child::wait_with_output`].
    pub fn output(&mut self) -> io::Result<Output> {
        let [stdin, stdout, stderr] = self.chosen;
        if !stdin {
            self.stdin(Stdio::null());
        }
        if !stdout {
            self.stdout(Stdio::piped());
        }
        if !stderr {
            self.stderr(Stdio::piped());
        }
        self.spawn()?.wait_with_output()
    }
}

/// Streams that were chosen before count as not chosen.
impl From<process::Command> for Command {
    fn from(command: process::Command) -> Self {
        Self { command, kill_on_drop: false, chosen: [false; 3] }
    }
}
