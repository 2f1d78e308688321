//! The demo's child processes. It starts them, reads their messages, kills them, and never leaves
//! one behind.

use super::event::DemoDomain;
use super::messages::{ChildTask, Said};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

/// How long all children may be silent before the demo counts as hung.
const SILENCE: Duration = Duration::from_secs(60);

/// An event that reaches the demo while its children work.
#[derive(Debug)]
enum Heard {
    /// A line of a child.
    Said(Member, Said),
    /// A child has closed its standard output. It does so only by ending.
    Ended(Member),
    /// The user pressed Ctrl-C.
    Interrupted,
}

/// The identity of a child. A killed file cache manager and its successor are two children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its role.
    pub domain: DemoDomain,
    /// Its process id.
    pub pid: u32,
}

/// Receives the children's messages and Ctrl-C.
#[derive(Debug)]
pub struct Ear {
    to: Sender<Heard>,
    from: Receiver<Heard>,
}

impl Ear {
    /// Receives SIGINT, SIGTERM and SIGHUP from now on.
    ///
    /// # Errors
    /// If the signals cannot be caught, because they are caught already.
    pub fn new() -> Result<Self> {
        let (to, from) = mpsc::channel();
        let interrupt = to.clone();
        ctrlc::set_handler(move || {
            let _ = interrupt.send(Heard::Interrupted);
        })
        .context("can't catch Ctrl-C")?;
        Ok(Self { to, from })
    }
}

/// The children of one round. Dropping this kills those that are left.
#[derive(Debug)]
pub struct ChildProcesses<'a> {
    ear: &'a Ear,
    underpass_dir: &'a Path,
    children: Vec<(Member, Child, Option<ChildStdin>)>,
}

impl<'a> ChildProcesses<'a> {
    /// Starts without children. They will find each other's exports in `underpass_dir`.
    pub fn new(ear: &'a Ear, underpass_dir: &'a Path) -> Self {
        Self { ear, underpass_dir, children: Vec::new() }
    }

    /// Starts this very program as `domain` and sends it its task.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&mut self, domain: DemoDomain, task: &ChildTask) -> Result<Member> {
        let program = std::env::current_exe().context("can't find this program's file")?;
        let mut child = Command::new(program)
            .arg0(format!("underpass-demo: {domain}"))
            .args(["--role", domain.role()])
            .env("UNDERPASS_DIR", self.underpass_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("can't start the {domain}"))?;
        let member = Member { domain, pid: child.id() };
        let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let line = serde_json::to_string(task)?;
        let told = stdin.as_mut().map(|stdin| writeln!(stdin, "{line}"));
        self.children.push((member, child, stdin));
        if let Some(Err(error)) = told {
            bail!("the {domain} ended before it had its task: {error}");
        }
        if let Some(stdout) = stdout {
            let to = self.ear.to.clone();
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    let said = serde_json::from_str(&line).unwrap_or_else(|error| {
                        Said::Failed(format!("said {line:?}, which is no message: {error}"))
                    });
                    let _ = to.send(Heard::Said(member, said));
                }
                let _ = to.send(Heard::Ended(member));
            });
        }
        Ok(member)
    }

    /// Waits for the next message of a child.
    ///
    /// # Errors
    /// If a child reports a failure, or ended without [`kill`](Self::kill). On Ctrl-C. If all
    /// children hang.
    pub fn hear(&mut self) -> Result<(Member, Said)> {
        loop {
            let heard = self.ear.from.recv_timeout(SILENCE);
            match heard
                .with_context(|| format!("none of the demo's processes said anything for {SILENCE:?}"))?
            {
                // The child belongs to an earlier round, or was killed.
                Heard::Said(member, _) if !self.children.iter().any(|child| child.0 == member) => {}
                Heard::Said(member, Said::Failed(why)) => {
                    bail!("the {} (pid {}): {why}", member.domain, member.pid)
                }
                Heard::Said(member, said) => return Ok((member, said)),
                Heard::Interrupted => bail!(Interrupted),
                Heard::Ended(member) => self.ended(member)?,
            }
        }
    }

    /// Kills a child as `kill -9` does and waits until it is gone.
    ///
    /// # Errors
    /// If it cannot be killed.
    pub fn kill(&mut self, member: Member) -> Result<()> {
        let Some(at) = self.children.iter().position(|child| child.0 == member) else { return Ok(()) };
        let (_, mut child, _) = self.children.swap_remove(at);
        child
            .kill()
            .and_then(|()| child.wait())
            .with_context(|| format!("can't kill the {}", member.domain))?;
        Ok(())
    }

    /// Closes a server's standard input, which asks for its report. Waits for the report and for
    /// the server's end.
    ///
    /// # Errors
    /// The errors of [`hear`](Self::hear).
    pub fn dismiss(&mut self, domain: DemoDomain) -> Result<Said> {
        let Some(child) = self.children.iter_mut().find(|child| child.0.domain == domain) else {
            bail!("there is no {domain} to dismiss");
        };
        child.2 = None;
        loop {
            let (member, said) = self.hear()?;
            if member.domain == domain && matches!(said, Said::Served(_)) {
                self.wait(domain)?;
                return Ok(said);
            }
        }
    }

    /// Waits for the end of a child that has sent its report.
    ///
    /// # Errors
    /// If it ends with an error.
    pub fn wait(&mut self, domain: DemoDomain) -> Result<()> {
        let Some(at) = self.children.iter().position(|child| child.0.domain == domain) else { return Ok(()) };
        let (member, mut child, _) = self.children.swap_remove(at);
        let status = child.wait().with_context(|| format!("can't wait for the {domain}"))?;
        if !status.success() {
            bail!("the {domain} (pid {}) did its work and then ended badly: {status}", member.pid);
        }
        Ok(())
    }

    /// A child's output has ended. That is fine if the child is not ours any more.
    fn ended(&mut self, member: Member) -> Result<()> {
        let Some(child) = self.children.iter_mut().find(|child| child.0 == member) else { return Ok(()) };
        let status = child.1.wait().with_context(|| format!("can't wait for the {}", member.domain))?;
        bail!("the {} (pid {}) ended in the middle of its work: {status}", member.domain, member.pid)
    }
}

impl Drop for ChildProcesses<'_> {
    fn drop(&mut self) {
        for (_, child, _) in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Ctrl-C, or another signal that asks the demo to end.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}
