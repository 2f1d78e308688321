//! Other thread packages. Each is an executable that takes orders by lines and reports how long
//! they took.
//!
//! ```text
//! it begins with   {"peer":"tokio","version":"1.54.1","cases":["yield","fork"]}
//! CASE N           it does N operations and answers with the ns that they took
//! quit             it ends
//! ```

use crate::BenchError;
use crate::measure::contest::Subject;
use serde::Deserialize;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The prefix of the executables' names.
const PREFIX: &str = "underpass-peer-";

/// The environment variable that names the directory, if no option does.
const VARIABLE: &str = "UNDERPASS_PEERS";

/// Where `peers/build` leaves them.
const USUAL: &str = "peers/target/release";

/// The advice for a run without peers.
pub(crate) const HINT: &str = "no other thread package is measured beside ours: build them with `peers/build`, \
    and run this in the directory that `peers` is in, or name theirs with `--peers DIR`";

/// The directory of the peers: the given one, else the one in `$UNDERPASS_PEERS`, else
/// `peers/target/release` if it exists.
///
/// # Errors
/// If a directory was named and holds no peer.
pub(crate) fn directory(asked: Option<&Path>) -> Result<Option<PathBuf>, BenchError> {
    let named = asked.map(Path::to_owned).or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
    let Some(named) = named else {
        let usual = Path::new(USUAL);
        return Ok(executables(usual).is_ok_and(|found| !found.is_empty()).then(|| usual.to_owned()));
    };
    let found = executables(&named)
        .map_err(|e| format!("{}: {e}; build them with `peers/build`", named.display()))?;
    if found.is_empty() {
        return Err(
            format!("{} holds no `{PREFIX}...`; build them with `peers/build`", named.display()).into()
        );
    }
    Ok(Some(named))
}

/// The peers in `directory`, by name.
fn executables(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let is_peer = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // The files that cargo puts beside them have an extension.
        name.starts_with(PREFIX) && !name.contains('.') && path.is_file()
    };
    let entries = std::fs::read_dir(directory)?;
    let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_peer).collect();
    found.sort();
    Ok(found)
}

/// What a peer reports about itself.
#[derive(Debug, Deserialize)]
struct Hello {
    peer: String,
    version: String,
    cases: Vec<String>,
}

/// A running peer, idle until it gets an order. It runs on the CPUs of the kernel thread that
/// started it.
#[derive(Debug)]
pub(crate) struct PeerProcess {
    hello: Hello,
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Starts all peers of `directory`. Each failure has its reason.
pub(crate) fn start(directory: &Path) -> Result<Vec<Result<PeerProcess, BenchError>>, BenchError> {
    Ok(executables(directory)?.iter().map(|path| PeerProcess::start(path)).collect())
}

impl PeerProcess {
    fn start(path: &Path) -> Result<Self, BenchError> {
        let what = |e: &dyn std::fmt::Display| format!("{}: {e}; `peers/check` says more", path.display());
        let spawned = Command::new(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|e| what(&e))?;
        let orders = child.stdin.take().ok_or_else(|| what(&"no standard input"))?;
        let mut answers = BufReader::new(child.stdout.take().ok_or_else(|| what(&"no standard output"))?);
        let mut line = String::new();
        answers.read_line(&mut line).map_err(|e| what(&e))?;
        let hello =
            serde_json::from_str(&line).map_err(|e| what(&format!("it says `{}`: {e}", line.trim())))?;
        Ok(Self { hello, child, orders, answers })
    }

    /// What it calls itself.
    pub(crate) fn name(&self) -> &str {
        &self.hello.peer
    }

    /// Its version.
    pub(crate) fn version(&self) -> &str {
        &self.hello.version
    }

    /// The peer as the subject of `case`, if it supports that case.
    pub(crate) fn on<'a>(&'a mut self, case: &'a str) -> Option<OnCase<'a>> {
        self.hello.cases.iter().any(|known| known == case).then_some(OnCase { peer: self, case })
    }

    fn time(&mut self, case: &str, operations: u64) -> Result<u64, BenchError> {
        writeln!(self.orders, "{case} {operations}")?;
        self.orders.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer = line.trim();
        answer.parse().map_err(|_| {
            let name = self.name();
            format!("the peer {name} answers `{case} {operations}` with `{answer}`; see `peers/check`").into()
        })
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        // Between two orders it waits, and then it ends at once. Otherwise it is killed.
        let quits = writeln!(self.orders, "quit").and_then(|()| self.orders.flush()).is_ok();
        let closed = self.answers.fill_buf().is_ok_and(<[u8]>::is_empty);
        if !(quits && closed) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// A peer's part in a contest.
#[derive(Debug)]
pub(crate) struct OnCase<'a> {
    peer: &'a mut PeerProcess,
    case: &'a str,
}

impl Subject for OnCase<'_> {
    fn name(&self) -> &str {
        self.peer.name()
    }

    /// The peer warms up by itself.
    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        self.peer.time(self.case, operations)
    }

    /// The peer times only many operations at once.
    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A directory with one peer, which runs `script`.
    fn peer(test: &str, script: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("underpass-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("underpass-peer-fake");
        // Another process writes the file. A file that this process, or a child of another test,
        // has open for writing cannot be executed.
        let wrote = Command::new("sh")
            .args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\" && chmod 700 \"$0\""])
            .args([path.as_os_str(), script.as_ref()])
            .status();
        assert!(wrote.unwrap().success());
        fs::write(directory.join("underpass-peer-fake.d"), "").unwrap();
        directory
    }

    const HELLO: &str = r#"echo '{"peer":"fake","version":"1","cases":["yield"]}'"#;

    #[test]
    fn a_peer_is_asked_and_answers() {
        let script = format!("{HELLO}; while read c n && [ \"$c\" != quit ]; do echo $((n * 2)); done");
        let directory = peer("asked", &script);
        let mut peers = start(&directory).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        let [Ok(peer)] = &mut peers[..] else { panic!("one peer, not {peers:?}") };
        assert!(peer.on("fork").is_none());
        let mut subject = peer.on("yield").unwrap();
        assert_eq!(subject.name(), "fake");
        assert_eq!(subject.batch(21).unwrap(), 42);
    }

    #[test]
    fn a_peer_that_refuses_is_named() {
        let directory = peer("refuses", &format!("{HELLO}; read line; echo error no; read line"));
        let mut peers = start(&directory).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        let error = peers[0].as_mut().unwrap().time("yield", 1).unwrap_err().to_string();
        assert!(error.contains("fake") && error.contains("yield 1") && error.contains("error no"), "{error}");
    }

    #[test]
    fn asking_for_peers_in_a_directory_without_any_is_an_error() {
        let error = directory(Some(Path::new("/nowhere"))).unwrap_err().to_string();
        assert!(error.contains("/nowhere") && error.contains("peers/build"), "{error}");
    }
}
