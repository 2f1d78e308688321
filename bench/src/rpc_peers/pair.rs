//! The two processes of a peer: they are started, told what to do, stopped and killed.

use crate::BenchError;
use crate::rpc_peers::find::PeerWay;
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use underpass_os::{cpu, process, processor_time};

/// How long a side may take to start, and a load longer than it should.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A line of the client: the outcome of what it was told.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ClientLine {
    Connected { connect_ns: u64 },
    CallsDone(CallsDone),
    Kept { connections: u64 },
    Failed { error: String },
}

/// What the callers of a load did.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct CallsDone {
    /// All calls, with those that were not measured.
    pub(super) made: u64,
    /// The client's processor time meanwhile.
    pub(super) cpu_ns: u64,
    /// The time in which the measured calls were made.
    pub(super) span_ns: u64,
    /// Nanoseconds, and how many of the measured calls took as long.
    pub(super) latencies: Vec<(u64, u64)>,
}

/// A process that is killed and waited for with this value. Its standard output comes by lines.
struct Side {
    child: Child,
    orders: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: PathBuf,
}

impl Side {
    /// Starts a side on `cpus`.
    fn start(way: &PeerWay, side: &str, directory: &Path, cpus: &[usize]) -> Result<Self, BenchError> {
        let errors = directory.join(format!("{side}.errors"));
        let mut command = Command::new(&way.program);
        command
            .args([side, &way.variant])
            .arg(directory)
            .env("UNDERPASS_DIR", directory)
            .env("TMPDIR", directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors)?);
        let started = thread::scope(|scope| {
            // A child may run where the kernel thread may that starts it.
            let starter = scope.spawn(|| cpu::confine(cpus).and_then(|()| command.spawn()));
            starter.join().map_err(|_| "the starting thread panicked")
        })?;
        let mut child = started.map_err(|e| format!("{} can't be started: {e}", way.program.display()))?;
        let orders = child.stdin.take();
        let out = child.stdout.take().ok_or("the child has no standard output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            // Sending fails when nothing receives any more.
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)).ok();
        });
        Ok(Self { child, orders, lines, errors })
    }

    /// Its next line; `None` if it sends none within `patience`.
    fn line(&self, patience: Duration) -> Result<Option<String>, BenchError> {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let told = fs::read_to_string(&self.errors).unwrap_or_default();
                let last = told.trim().lines().last().unwrap_or("it tells nothing");
                Err(format!("the process has ended: {last}").into())
            }
        }
    }

    fn pss_bytes(&self) -> Result<u64, BenchError> {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kilobytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        Ok(kilobytes.ok_or("the kernel does not tell the process's share of memory")? * 1024)
    }

    fn cpu_ns(&self) -> Result<u64, BenchError> {
        Ok(processor_time::of_threads(self.child.id())?.iter().map(|thread| thread.ran).sum())
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // Its input ends, and then it does so itself, if it can.
        drop(self.orders.take());
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(500) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        // This fails if it has ended meanwhile, which is fine too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running server and a client that is connected to it.
pub(super) struct PeerPair {
    // Dropped first: a server that still runs lets its client end well.
    client: Side,
    server: Side,
    /// What the client took until its first Null was answered.
    pub(super) connect_ns: u64,
}

impl PeerPair {
    /// Starts both sides in an empty directory, on these CPUs.
    ///
    /// # Errors
    /// A side does not start, or the client does not connect.
    pub(super) fn start(
        way: &PeerWay,
        directory: &Path,
        (near, far): (&[usize], &[usize]),
    ) -> Result<Self, BenchError> {
        let server = Side::start(way, "server", directory, far)?;
        match server.line(PATIENCE)?.as_deref() {
            Some("ready") => {}
            other => return Err(format!("the server says {other:?} instead of `ready`").into()),
        }
        let client = Side::start(way, "client", directory, near)?;
        let line = client.line(PATIENCE)?.ok_or("the client does not connect")?;
        match serde_json::from_str(&line)? {
            ClientLine::Connected { connect_ns } => Ok(Self { client, server, connect_ns }),
            _ => Err(format!("the client says `{line}` instead of how long it took to connect").into()),
        }
    }

    /// Tells the client to do something.
    pub(super) fn order(&mut self, line: &str) -> Result<(), BenchError> {
        let orders = self.client.orders.as_mut().ok_or("the client has no standard input")?;
        writeln!(orders, "{line}")?;
        Ok(orders.flush()?)
    }

    /// What the client answers; `None` if it does not within `patience`.
    pub(super) fn answer(&self, patience: Duration) -> Result<Option<ClientLine>, BenchError> {
        self.client.line(patience)?.map(|line| Ok(serde_json::from_str(&line)?)).transpose()
    }

    /// The outcome of a load.
    ///
    /// # Errors
    /// A call failed, or the client is silent for a minute.
    pub(super) fn load(&mut self, line: &str) -> Result<CallsDone, BenchError> {
        self.order(line)?;
        match self.answer(PATIENCE)?.ok_or("the client is silent for a minute")? {
            ClientLine::CallsDone(done) => Ok(done),
            ClientLine::Failed { error } => Err(error.into()),
            other => Err(format!("the client answers `{line}` with {other:?}").into()),
        }
    }

    /// Has the client make further connections.
    pub(super) fn connections(&mut self, count: u64) -> Result<(), BenchError> {
        self.order(&format!("connections {count}"))?;
        match self.answer(PATIENCE)?.ok_or("the client is silent for a minute")? {
            ClientLine::Kept { connections } if connections == count => Ok(()),
            ClientLine::Failed { error } => Err(error.into()),
            other => Err(format!("the client answers `connections` with {other:?}").into()),
        }
    }

    /// The processor time that the kernel accounts to the threads of the server.
    pub(super) fn server_cpu_ns(&self) -> Result<u64, BenchError> {
        self.server.cpu_ns()
    }

    /// The same of the client and of the server.
    pub(super) fn cpu_ns(&self) -> Result<[u64; 2], BenchError> {
        Ok([self.client.cpu_ns()?, self.server.cpu_ns()?])
    }

    /// The memory of both processes: what they share is counted once.
    pub(super) fn memory_bytes(&self) -> Result<u64, BenchError> {
        Ok(self.client.pss_bytes()? + self.server.pss_bytes()?)
    }

    pub(super) fn kill_server(&mut self) -> Result<(), BenchError> {
        Ok(self.server.child.kill()?)
    }

    pub(super) fn stop_server(&self) -> Result<(), BenchError> {
        Ok(process::stop(&self.server.child)?)
    }

    pub(super) fn resume_server(&self) -> Result<(), BenchError> {
        Ok(process::go_on(&self.server.child)?)
    }

    /// Kills the client, which may hang in a call.
    pub(super) fn kill_client(&mut self) {
        // This fails if it has ended, which is fine too.
        let _ = self.client.child.kill();
    }
}
