//! Another process, which has one end of streams.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const STREAM: &str = env!("CARGO_BIN_EXE_underpass-test-stream");

/// It is killed when dropped.
pub struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    /// A process that exports `name`, on one CPU if that is said.
    pub fn serve(name: &str, cpu: Option<usize>) -> Self {
        Self::start(name, "serve", cpu)
    }

    /// A process that has imported `name`.
    pub fn client(name: &str, cpu: Option<usize>) -> Self {
        Self::start(name, "client", cpu)
    }

    fn start(name: &str, role: &str, cpu: Option<usize>) -> Self {
        let mut command = Command::new(STREAM);
        command.args([name, role]);
        // With one CPU it has one processor.
        command.envs(cpu.map(|cpu| ("UNDERPASS_TEST_CPU", cpu.to_string())));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let orders = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut process = Self { child, orders, answers };
        assert_eq!(process.answer(), "ready");
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
