//! Another process, which sends or owns.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PORT: &str = env!("CARGO_BIN_EXE_underpass-test-sync-port");

/// It is killed when dropped.
pub struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    /// A process with a sender to the port `name`, which has connected.
    pub fn sender(name: &str, cpu: Option<usize>) -> Self {
        Self::start(name, "sender", 0, cpu, "connected")
    }

    /// A process that owns the port `name`, for `messages` messages of each sender.
    pub fn owner(name: &str, messages: usize, cpu: Option<usize>) -> Self {
        Self::start(name, "owner", messages, cpu, "open")
    }

    fn start(name: &str, role: &str, number: usize, cpu: Option<usize>, first: &str) -> Self {
        let mut command = Command::new(PORT);
        command.args([name, role, &number.to_string()]);
        // With one CPU it has one processor.
        command.envs(cpu.map(|cpu| ("UNDERPASS_TEST_CPU", cpu.to_string())));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let orders = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut process = Self { child, orders, answers };
        assert_eq!(process.answer(), first);
        process
    }

    /// Gives an order, and waits for the answer.
    pub fn does(&mut self, order: &str) -> String {
        self.begin(order);
        self.answer()
    }

    /// Gives an order.
    pub fn begin(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("it listens");
    }

    /// The next answer.
    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        line.trim_end().to_owned()
    }

    /// The next answer, of kernel entries: how many of them were wake-ups.
    pub fn signals(&mut self) -> u64 {
        let answer = self.answer();
        let signals = answer.split(' ').nth(1).and_then(|signals| signals.parse().ok());
        signals.unwrap_or_else(|| panic!("{answer}"))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`, and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // If it has ended already, that is fine too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
