//! A directory of its own for each test, a server in it, and domains.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use underpass_node::server::ask_status;
use underpass_os::Directory;
use underpass_tests::{signal, until};

const DOMAIN: &str = env!("CARGO_BIN_EXE_underpass-test-node");

/// The directory of one test.
pub struct Node {
    directory: PathBuf,
}

/// A server of a test, which is a process of its own. It is killed when dropped.
pub struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// A domain of a test. It is killed when dropped.
pub struct Domain {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Node {
    /// An empty directory for the test of this name.
    pub fn new(of: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("underpass-node-{}-{of}", std::process::id()));
        Directory::at(&directory).ensure().unwrap();
        Self { directory }
    }

    pub fn path(&self) -> &Path {
        &self.directory
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(DOMAIN);
        command.args(arguments).env("UNDERPASS_DIR", &self.directory).env("UNDERPASS_PROCESSORS", "2");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// A server of so many processors.
    pub fn serve(&self, processors: u32) -> Server {
        self.serve_as("serve", processors)
    }

    /// A server that takes over from the one that runs.
    pub fn replace(&self, processors: u32) -> Server {
        self.serve_as("serve-replace", processors)
    }

    fn serve_as(&self, role: &str, processors: u32) -> Server {
        let mut child = self.command(&[role, &processors.to_string()]).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut server = Server { child, output };
        assert_eq!(server.line(), "ready");
        server
    }

    /// A domain.
    pub fn domain(&self) -> Domain {
        self.domain_with("2")
    }

    /// A domain that uses so many processors at the most.
    fn domain_with(&self, processors: &str) -> Domain {
        let mut command = self.command(&["domain"]);
        let mut child = command.env("UNDERPASS_PROCESSORS", processors).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut domain = Domain { child, input, output };
        assert_eq!(domain.line(), "ready");
        domain
    }

    /// A domain that is registered.
    pub fn registered(&self) -> Domain {
        self.registered_with("2")
    }

    /// A registered domain that uses so many processors at the most.
    pub fn registered_with(&self, processors: &str) -> Domain {
        let domain = self.domain_with(processors);
        until("the domain to register", || self.of(&domain));
        domain
    }

    /// What the server says, if it answers.
    pub fn status(&self) -> Option<Value> {
        let text = ask_status(&Directory::at(&self.directory), Duration::from_secs(60)).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }

    /// What the server says of a domain, if that is registered.
    pub fn of(&self, domain: &Domain) -> Option<Value> {
        let status = self.status()?;
        let domains = status["domains"].as_array().unwrap();
        domains.iter().find(|found| found["pid"] == domain.pid()).cloned()
    }

    /// How many processors the server counts for a domain. 0 if it is not registered.
    pub fn held(&self, domain: &Domain) -> u64 {
        self.of(domain).map_or(0, |found| found["processors"].as_u64().unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> String {
        read_line(&mut self.output)
    }

    pub fn terminate(&self) {
        signal("-TERM", self.pid());
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Domain {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> String {
        read_line(&mut self.output)
    }

    /// Gives an order without waiting for the answer.
    pub fn order(&mut self, order: &str) {
        writeln!(self.input, "{order}").unwrap();
    }

    /// The answer to an order.
    pub fn answer(&mut self) -> String {
        self.line()
    }

    /// Gives an order, and returns the answer.
    pub fn asks(&mut self, order: &str) -> String {
        self.order(order);
        self.answer()
    }

    /// The processors that it may run on, and how many it uses.
    pub fn counts(&mut self) -> (u32, u32) {
        let answer = self.asks("counts");
        let (granted, running) = answer.split_once(' ').unwrap();
        (granted.parse().unwrap(), running.parse().unwrap())
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}
