//! The task of a child of the benchmark command.

use crate::processes::client::ScenarioClient;
use crate::processes::helper::HelperTask;
use crate::processes::pair::{ChildMessage, tell};
use crate::raw::responder::respond;
use crate::raw::shared_words::SharedWords;
use crate::urpc::count::InstructionCount;
use crate::{BenchError, Effort, Placement, catalogue};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use underpass_os::{cpu, process};

/// Which side a child plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessSide {
    /// The measuring side.
    Client,
    /// The answering side.
    Server,
}

impl fmt::Display for ProcessSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// One of the two processes of a scenario, as its parent describes it on the command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildRole {
    /// The benchmark.
    pub bench: String,
    /// Its scenario.
    pub scenario: String,
    /// The side to play.
    pub side: ProcessSide,
    /// The parent process. Without it this process ends.
    pub parent: u32,
    /// The CPUs.
    pub placement: Placement,
    /// How long to measure.
    pub effort: Effort,
    /// The selected case or group of cases. `None` selects all.
    pub case: Option<String>,
    /// The directory of the peers, if there are any.
    pub peers: Option<PathBuf>,
    /// A directory for sockets, which the parent removes.
    pub scratch: PathBuf,
}

/// The tasks that a child may get.
#[derive(Deserialize)]
#[serde(untagged)]
enum Task {
    ChildRole(Box<ChildRole>),
    InstructionCount(InstructionCount),
    HelperTask(HelperTask),
}

/// Plays the role that `text` describes. Standard input is the shared page, and standard output
/// leads to the parent.
///
/// The process is killed when its parent ends. The result is its exit status. If the role fails,
/// the parent gets the reason.
///
/// # Errors
/// If no parent can be told: `text` is no role, or the parent is gone.
pub fn play(text: &str) -> Result<ExitCode, BenchError> {
    process::die_with_parent()?;
    let task: Task = serde_json::from_str(text)
        .map_err(|e| format!("this command is for `underpass-bench` itself, which starts it ({e})"))?;
    let role = match task {
        Task::ChildRole(role) => *role,
        Task::InstructionCount(counted) => return counted.perform().map(|()| ExitCode::SUCCESS),
        Task::HelperTask(hand) => return hand.perform().map(|()| ExitCode::SUCCESS),
    };
    if std::os::unix::process::parent_id() != role.parent {
        return Err("the benchmark that started this process is gone".into());
    }
    let Err(error) = perform(role) else { return Ok(ExitCode::SUCCESS) };
    tell(&ChildMessage::Failed(error.to_string()))?;
    Ok(ExitCode::FAILURE)
}

/// The server of a scenario that needs none.
pub(crate) fn idle(_: &ChildRole) -> Result<(), BenchError> {
    loop {
        std::thread::park();
    }
}

fn perform(role: ChildRole) -> Result<(), BenchError> {
    let scenario = catalogue::find(&role.bench)?.scenario(&role.scenario)?;
    let lines = SharedWords::adopt(std::io::stdin())?;
    let (client, server) = role.placement.sides(scenario.pinning)?;
    match role.side {
        ProcessSide::Client => {
            cpu::confine(&client)?;
            (scenario.client)(&ScenarioClient::new(role, scenario.pinning, lines))
        }
        ProcessSide::Server => {
            cpu::confine(&server)?;
            std::thread::Builder::new().name("responder".into()).spawn(move || {
                let Err(error) = respond(&lines) else { return };
                // If this fails too, the parent is gone, and this process is about to be killed.
                let _ = tell(&ChildMessage::Failed(error.to_string()));
                std::process::exit(1);
            })?;
            (scenario.server)(&role)
        }
    }
}
