//! One round: three processes, one job.

use super::child_processes::{ChildProcesses, Ear};
use super::event::DemoDomain;
use super::messages::{ChildTask, Edited, Said, ServerAccount, Transport};
use super::plan::EditorProgress;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use underpass_os::clock;

/// The result of a round.
#[derive(Clone, Debug)]
pub struct Round {
    /// The transport of the calls.
    pub transport: Transport,
    /// The editor's report.
    pub edited: Edited,
    /// The servers' reports. Empty where everything was in the editor's process.
    pub served: BTreeMap<DemoDomain, ServerAccount>,
    /// The processes. The later file cache manager comes last.
    pub pids: Vec<(DemoDomain, u32)>,
    /// The death of the file cache manager, if it was killed.
    pub disaster: Vec<Happened>,
}

/// A step of the disaster, in ns of `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Happened {
    /// The file cache manager was killed.
    Killed {
        /// Its process id.
        pid: u32,
        /// When the signal was sent.
        at: u64,
    },
    /// It was started again.
    Started {
        /// Its new process id.
        pid: u32,
        /// When it could be imported.
        at: u64,
    },
    /// An event that the editor reported.
    Editor(EditorProgress),
}

impl Happened {
    fn at(&self) -> u64 {
        match self {
            Self::Killed { at, .. } | Self::Started { at, .. } => *at,
            Self::Editor(EditorProgress::Lost { at, .. } | EditorProgress::Again { at, .. }) => *at,
            Self::Editor(EditorProgress::Blocks(_) | EditorProgress::Middle) => 0,
        }
    }
}

impl Round {
    /// The time that the editor took.
    pub fn ns(&self) -> u64 {
        self.edited.to.saturating_sub(self.edited.from)
    }
}

/// Runs one round of `task`. `progress` is called with the number of finished blocks.
///
/// # Errors
/// If a process fails, or the edited text is not `expected`.
pub fn play(ear: &Ear, task: &ChildTask, expected: &[u8], progress: &dyn Fn(u64)) -> Result<Round> {
    let here = &task.directory;
    DirBuilder::new().mode(0o700).create(here).with_context(|| format!("can't make {}", here.display()))?;
    let mut children = ChildProcesses::new(ear, here);
    let (mut pids, mut disaster, mut files) = (Vec::new(), Vec::new(), None);
    if task.transport != Transport::Direct {
        for domain in DemoDomain::SERVERS {
            let member = children.start(domain, task)?;
            pids.push((domain, member.pid));
            if domain == DemoDomain::Files {
                files = Some(member);
            }
        }
        for _ in DemoDomain::SERVERS {
            let (member, said) = children.hear()?;
            ensure!(
                matches!(said, Said::Ready),
                "the {} said {said:?} instead of being ready",
                member.domain
            );
        }
    }
    let editor = children.start(DemoDomain::Editor, task)?;
    pids.insert(0, (DemoDomain::Editor, editor.pid));
    let edited = loop {
        match children.hear()?.1 {
            Said::News(EditorProgress::Blocks(blocks)) => progress(blocks),
            Said::News(EditorProgress::Middle) if !task.plan.disaster => {}
            Said::News(EditorProgress::Middle) => {
                let member = files.take().context("the file cache manager is killed once")?;
                disaster.push(Happened::Killed { pid: member.pid, at: clock::now_ns() });
                children.kill(member)?;
                let again =
                    children.start(DemoDomain::Files, &ChildTask { life: task.life + 1, ..task.clone() })?;
                pids.push((DemoDomain::Files, again.pid));
            }
            Said::News(news) => disaster.push(Happened::Editor(news)),
            Said::Ready => {
                let pid = pids.last().map_or(0, |last| last.1);
                disaster.push(Happened::Started { pid, at: clock::now_ns() });
            }
            Said::Edited(edited) => break *edited,
            said => bail!("a process said {said:?} in the middle of its work"),
        }
    };
    children.wait(DemoDomain::Editor)?;
    let mut served = BTreeMap::new();
    for domain in DemoDomain::SERVERS.into_iter().filter(|_| task.transport != Transport::Direct) {
        if let Said::Served(account) = children.dismiss(domain)? {
            served.insert(domain, account);
        }
    }
    verify(&task.copy(), expected)?;
    fs::remove_dir_all(here).with_context(|| format!("can't remove {}", here.display()))?;
    disaster.sort_by_key(Happened::at);
    Ok(Round { transport: task.transport, edited, served, pids, disaster })
}

/// Compares the edited text with the expected text, byte for byte.
fn verify(copy: &Path, expected: &[u8]) -> Result<()> {
    let found = fs::read(copy).with_context(|| format!("can't read the edited text, {}", copy.display()))?;
    if found == expected {
        return Ok(());
    }
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    let at = differs.unwrap_or(found.len().min(expected.len()));
    bail!("the edited text is wrong from byte {at} on ({} bytes, expected {})", found.len(), expected.len())
}
