//! A process that holds interfaces of a vault, and obeys its test.

use crate::SERVER;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub struct Holder {
    child: Child,
    say: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Holder {
    /// A process that has imported `name`.
    pub fn start(name: &str) -> Self {
        let mut child = Command::new(SERVER)
            .args([name, "hold-values"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (say, hear) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut holder = Self { child, say, hear };
        assert_eq!(holder.hears(), "ready");
        holder
    }

    fn hears(&mut self) -> String {
        let mut line = String::new();
        self.hear.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Gives an order, and returns its result.
    pub fn ask(&mut self, order: &str) -> String {
        writeln!(self.say, "{order}").unwrap();
        self.hears()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
