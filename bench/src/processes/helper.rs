//! Processes beside client and server, which execute the client's orders. An order is a line of
//! JSON.
//!
//! ```text
//! it begins with   "ready"
//! an order         it does that and answers with a line
//! end of input     it ends
//! ```

use crate::BenchError;
use crate::processes::pair::SUBCOMMAND;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use underpass_os::{cpu, process};

/// The task of a helper process, and its CPUs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HelperTask {
    /// Its CPUs.
    pub(crate) cpus: Vec<usize>,
    pub(crate) does: Does,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Does {
    /// Serves the interface of the benchmarks under this name.
    Serve(String),
    /// Calls over a few of many bindings.
    ManyBindings(crate::urpc::scale::ManyBindings),
    /// Always has calls in progress while it is told to.
    Flood(crate::urpc::fair::Flood),
    /// Is a server or a domain of the benchmark `node`.
    Node(crate::node::NodeParty),
    /// The same as `Serve`, by a domain that has only the processors of its callers.
    ServeDonated(String),
    /// Computes all the time, by one kernel thread.
    Compute,
    /// Calls for as long as it is told to.
    Call(crate::processes::client_crowd::WindowCaller),
}

/// The line that a helper sends when it can take orders.
const READY: &str = "ready";

impl HelperTask {
    /// Executes orders until there are none.
    pub(crate) fn perform(self) -> Result<(), BenchError> {
        process::raise_files()?;
        cpu::confine(&self.cpus)?;
        match self.does {
            Does::Serve(name) => serve(&name),
            Does::ServeDonated(name) => {
                underpass::processors::set(0);
                serve(&name)
            }
            Does::Compute => {
                std::thread::Builder::new().name("computes".into()).spawn(compute)?;
                obey(|(): ()| Ok(()))
            }
            Does::ManyBindings(crowd) => crowd.perform(),
            Does::Flood(flood) => flood.perform(),
            Does::Call(caller) => caller.perform(),
            Does::Node(party) => party.perform(),
        }
    }
}

/// Computes until the process ends.
fn compute() {
    let mut number = 1_u64;
    loop {
        number = std::hint::black_box(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 1);
    }
}

/// Serves the interface of the benchmarks until there are no orders any more.
fn serve(name: &str) -> Result<(), BenchError> {
    let _running = crate::calls::exporting(name).start()?;
    obey(|(): ()| Ok(()))
}

/// Reads orders until there are none, and answers each.
pub(crate) fn obey<O: DeserializeOwned, A: Serialize>(
    mut done: impl FnMut(O) -> Result<A, BenchError>,
) -> Result<(), BenchError> {
    say(&READY)?;
    for line in std::io::stdin().lock().lines() {
        say(&done(serde_json::from_str(&line?)?)?)?;
    }
    Ok(())
}

fn say(what: &impl Serialize) -> Result<(), BenchError> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, what)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// A helper process. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct Helper {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Helper {
    /// Starts a helper, and waits until it can take orders.
    pub(crate) fn start(hand: &HelperTask) -> Result<Self, BenchError> {
        Self::start_by(hand, &mut Command::new("/proc/self/exe"))
    }

    /// As [`start`](Self::start), where `names` is the directory of names.
    pub(crate) fn start_in(hand: &HelperTask, names: &Path) -> Result<Self, BenchError> {
        Self::start_by(hand, Command::new("/proc/self/exe").env("UNDERPASS_DIR", names))
    }

    fn start_by(hand: &HelperTask, command: &mut Command) -> Result<Self, BenchError> {
        let mut child = command
            .args([SUBCOMMAND, &serde_json::to_string(hand)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| {
                format!("a process beside client and server can't be started: {e}; see `ulimit -u`")
            })?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let (orders, answers) = orders.zip(answers).ok_or("the child has no standard input and output")?;
        let mut helper = Self { child, orders, answers: BufReader::new(answers) };
        match helper.heard::<String>()?.as_str() {
            READY => Ok(helper),
            other => Err(format!("a process beside client and server says {other}").into()),
        }
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends an order, and returns the answer.
    pub(crate) fn order<A: DeserializeOwned>(&mut self, what: &impl Serialize) -> Result<A, BenchError> {
        self.begin(what)?;
        self.heard()
    }

    /// Sends an order. Read the answer by [`heard`](Self::heard).
    pub(crate) fn begin(&mut self, what: &impl Serialize) -> Result<(), BenchError> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.orders.write_all(&line)?;
        Ok(self.orders.flush()?)
    }

    /// The next answer.
    pub(crate) fn heard<A: DeserializeOwned>(&mut self) -> Result<A, BenchError> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("a process beside client and server ended too early; what it said is above".into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // This fails if the child has ended, which is fine too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
