//! A directory of its own for each test, a server in it, and commands.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use underpass_os::{niceness as os_niceness, process_table};

/// Far longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Checks again and again until `found` returns something.
pub fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "{what} does not come");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The directory of one test.
pub struct Node {
    directory: TempDir,
}

/// A process of a test. It is killed when dropped, with all below it.
pub struct Command {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Node {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The directory of names.
    pub fn names(&self) -> PathBuf {
        self.directory.path().join("names")
    }

    fn underpass(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_underpass"));
        command.arg("node").args(arguments).env("UNDERPASS_DIR", self.names()).current_dir(self.path());
        // The tests themselves may run under a jobserver.
        command.env_remove("MAKEFLAGS").env_remove("CARGO_MAKEFLAGS").env_remove("MFLAGS");
        command
    }

    /// Runs `underpass node` with these arguments to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut child = self.underpass(arguments);
        let child = child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let (tell, told) = std::sync::mpsc::channel();
        thread::spawn(move || tell.send(child.wait_with_output().unwrap()));
        told.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("process {pid} hangs: {arguments:?}"))
    }

    fn start(&self, arguments: &[&str]) -> Command {
        let mut child =
            self.underpass(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Command { child, output }
    }

    /// A server that takes orders.
    pub fn serve(&self, arguments: &[&str]) -> Command {
        // One that was killed has left its name.
        let arguments: Vec<_> = ["--replace"].into_iter().chain(arguments.iter().copied()).collect();
        let mut server = self.start(&arguments);
        assert!(server.line().starts_with("divides "));
        if arguments.contains(&"--jobserver") {
            assert!(server.line().starts_with("owns the jobserver "));
        }
        server
    }

    /// A shell with this script, pinned by the server with this weight.
    pub fn command(&self, weight: &str, script: &str) -> Command {
        self.start(&["run", "--weight", weight, "--", "sh", "-c", script])
    }

    /// A command in the environment of the jobserver.
    pub fn in_environment(&self, by: &str, command: &[&str]) -> Command {
        let arguments: Vec<_> =
            ["env", "--by", by, "--"].into_iter().chain(command.iter().copied()).collect();
        self.start(&arguments)
    }

    /// What the server says.
    pub fn status(&self) -> Value {
        let said = self.run(&["status", "--json"]);
        serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"))
    }

    /// What the server says of the domain of this process.
    pub fn of(&self, pid: u32) -> Option<Value> {
        self.status()["domains"].as_array()?.iter().find(|domain| domain["pid"] == pid).cloned()
    }
}

impl Command {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// All processes below it.
    pub fn descendants(&self) -> Vec<u32> {
        let table = process_table::read().unwrap();
        let mut found = vec![self.pid()];
        let mut at = 0;
        while at < found.len() {
            let parent = found[at];
            found.extend(table.iter().filter(|process| process.parent == parent).map(|process| process.pid));
            at += 1;
        }
        found.split_off(1)
    }

    /// Ends it and all below it.
    pub fn end(&mut self) {
        let below = self.descendants();
        let _ = self.child.kill();
        below.into_iter().for_each(kill);
        self.reap();
    }

    /// Waits for its end.
    pub fn reap(&mut self) {
        let _ = self.child.wait();
    }

    /// Its exit status, once it has ended.
    pub fn end_by_itself(&mut self) -> Option<i32> {
        until("its end", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.end();
        }
    }
}

pub fn signal(signal: &str, pid: u32) {
    let sent = std::process::Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "process {pid} is gone");
}

/// Kills a process, if it is there still.
pub fn kill(pid: u32) {
    let _ =
        std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Waits until the process has ended.
pub fn ended(pid: u32) {
    until("its end", || process_table::find(pid).is_none().then_some(()));
}

/// The name of a process; empty if it has ended.
pub fn name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

pub fn niceness(pid: u32) -> i32 {
    os_niceness::of(pid).unwrap()
}
