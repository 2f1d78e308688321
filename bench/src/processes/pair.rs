//! Starts and watches the two processes of a scenario, in their parent.

use crate::processes::role::{ChildRole, ProcessSide};
use crate::raw::shared_words::SharedWords;
use crate::run::RunObserver;
use crate::{BenchError, Row};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

/// A report of a child to its parent, one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ChildMessage {
    /// How much of the scenario is done, 0 to 1.
    Progress(f64),
    /// A case is done.
    Row(Row),
    /// Something for people that is no result.
    Note(String),
    /// The child ends for this reason.
    Failed(String),
}

/// Reports to the parent, through standard output.
pub(crate) fn tell(message: &ChildMessage) -> Result<(), BenchError> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line)?;
    Ok(out.flush()?)
}

/// The hidden subcommand with which the children are started. Its argument goes to
/// [`play`](crate::play).
pub const SUBCOMMAND: &str = "bench-role";

/// How long a scenario may be silent before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// A child that is killed with this value.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // This fails if the child has ended, which is fine too.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An event of a side: a report, or the end of its reports.
type Heard = (ProcessSide, Option<ChildMessage>);

/// Starts client and server of a scenario. Passes the client's reports to `listener` until the
/// client ends.
///
/// # Errors
/// If a side fails, ends too early, or sends nothing for a minute. Both processes have ended when
/// this returns.
pub(crate) fn run(roles: [ChildRole; 2], listener: &mut dyn RunObserver) -> Result<(), BenchError> {
    let what = format!("{} ({})", roles[0].bench, roles[0].scenario);
    let (_lines, page) = SharedWords::create()?;
    let (sender, heard) = mpsc::channel();
    let mut children = Vec::new();
    for role in &roles {
        children.push(start(role, page.try_clone()?, sender.clone())?);
    }
    drop(sender);
    loop {
        match heard.recv_timeout(PATIENCE) {
            Ok((_, Some(ChildMessage::Progress(share)))) => listener.progress(&what, share),
            Ok((_, Some(ChildMessage::Row(row)))) => listener.row(&row),
            Ok((_, Some(ChildMessage::Note(text)))) => listener.note(&text),
            Ok((side, Some(ChildMessage::Failed(why)))) => {
                return Err(format!("{what}: the {side}: {why}").into());
            }
            Ok((side, None)) => {
                let (_, child) = children.iter_mut().find(|(s, _)| *s == side).expect("both were started");
                let status = child.0.wait()?;
                if side == ProcessSide::Client && status.success() {
                    return Ok(());
                }
                return Err(format!("{what}: the {side} ended too early, with {status}").into());
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(format!("{what}: nothing was heard of it for {} s", PATIENCE.as_secs()).into());
            }
        }
    }
}

fn start(role: &ChildRole, page: OwnedFd, heard: Sender<Heard>) -> Result<(ProcessSide, Kept), BenchError> {
    // This very program, even if its file has been replaced meanwhile.
    let mut child = Command::new("/proc/self/exe")
        .args([SUBCOMMAND, &serde_json::to_string(role)?])
        .env("UNDERPASS_DIR", role.scratch.join("names"))
        .stdin(page)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("the {} can't be started: {e}; see `ulimit -u`", role.side))?;
    let out = child.stdout.take().ok_or("the child has no standard output")?;
    let (side, child) = (role.side, Kept(child));
    std::thread::Builder::new().name(format!("{side}'s reports")).spawn(move || listen(side, out, &heard))?;
    Ok((side, child))
}

fn listen(side: ProcessSide, out: ChildStdout, heard: &Sender<Heard>) {
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            // Sending fails when nothing receives any more.
            Ok(message) => drop(heard.send((side, Some(message)))),
            Err(_) => eprintln!("{side}: {line}"),
        }
    }
    let _ = heard.send((side, None));
}
