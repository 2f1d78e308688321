//! A process that takes orders from its test: each line of its input is an order, and each line of
//! its output is an answer.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// It is killed when dropped.
#[derive(Debug)]
pub struct ObedientProcess {
    child: Child,
    /// `None` once there are no more.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl ObedientProcess {
    /// Starts it.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process starts");
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, orders, answers }
    }

    /// Starts it, on one CPU if that is said, and waits until it says `first`.
    ///
    /// # Panics
    /// If it does not start, or says something else.
    pub fn start_on(command: &mut Command, cpu: Option<usize>, first: &str) -> Self {
        let mut process = Self::start(command.envs(cpu.map(|cpu| ("UNDERPASS_TEST_CPU", cpu.to_string()))));
        assert_eq!(process.hear(), first);
        process
    }

    /// Gives an order, and returns the answer.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn ask(&mut self, order: &str) -> String {
        self.begin(order);
        self.hear()
    }

    /// Gives an order.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn begin(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("it is not told to end");
        writeln!(orders, "{order}").expect("it listens");
    }

    /// The next answer, once it comes.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn hear(&mut self) -> String {
        let mut said = String::new();
        self.answers.read_line(&mut said).expect("it answers");
        assert!(!said.is_empty(), "the process has ended");
        said.trim_end().to_owned()
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives no more orders, and waits until the process has ended by itself.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn end(&mut self) {
        self.orders = None;
        self.child.wait().expect("a child can be waited for");
    }

    /// `kill -9`, and waits for its end.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

impl Drop for ObedientProcess {
    fn drop(&mut self) {
        // If it has ended already, that is fine too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
