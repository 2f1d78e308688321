//! The instructions of the components, counted by callgrind.
//!
//! The benchmark runs itself under `valgrind`, which counts while the function of one component
//! runs. The cost of starting cancels out in the difference of two counts.

use super::components::{Callers, ChannelParts, Component, MESSAGES};
use crate::BenchError;
use crate::processes::pair::SUBCOMMAND;
use serde::{Deserialize, Serialize};
use std::process::Command;

/// The rounds of the two counts.
const ROUNDS: [u64; 2] = [50, 150];

/// The work of the counted child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstructionCount {
    /// The number of rounds.
    rounds: u64,
    /// Whether it resumes user-level threads, instead of passing messages.
    threads: bool,
}

impl InstructionCount {
    /// Does the work.
    pub(crate) fn perform(self) -> Result<(), BenchError> {
        let Self { rounds, threads } = self;
        if threads {
            // One activation, as where it is timed. Others would be counted too.
            underpass::processors::set(1);
            let thread = underpass::thread::spawn(move || {
                let callers = Callers::new();
                (0..rounds).for_each(|_| callers.part_client_dispatch());
                callers.end()
            });
            return thread.join().map_err(|_| "the counted thread panicked")?;
        }
        let mut parts = ChannelParts::new()?;
        for _ in 0..rounds {
            parts.pass(|_, part| part());
        }
        if parts.passed() { Ok(()) } else { Err("not all messages have passed".into()) }
    }
}

/// The instructions that a message takes in these components together.
pub(super) fn instructions(components: &[Component]) -> Result<f64, BenchError> {
    components.iter().map(|&component| one(component)).sum()
}

fn one(component: Component) -> Result<f64, BenchError> {
    let [few, many] = ROUNDS;
    let more = collected(component, many)?.saturating_sub(collected(component, few)?);
    if more == 0 {
        return Err(
            format!("callgrind has seen no `{}`: is this program stripped?", function(component)).into()
        );
    }
    Ok(more as f64 / ((many - few) * MESSAGES as u64) as f64)
}

/// The function that is the component.
fn function(component: Component) -> &'static str {
    match component {
        Component::ClientSend => "part_client_send",
        Component::ServerPoll => "part_server_poll",
        Component::ServerReceive => "part_server_receive",
        Component::ServerDispatch => "part_server_dispatch",
        Component::ServerSend => "part_server_send",
        Component::ClientPoll => "part_client_poll",
        Component::ClientReceive => "part_client_receive",
        Component::ClientDispatch => "part_client_dispatch",
    }
}

/// Instructions of this component in a child that does `rounds`.
fn collected(component: Component, rounds: u64) -> Result<u64, BenchError> {
    let threads = component == Component::ClientDispatch;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    if !threads {
        // Threads leave the function in the middle and return to it, so for them everything is
        // counted. Waiting kernel threads cost nothing.
        valgrind.arg(format!("--toggle-collect=*{}*", function(component)));
    }
    valgrind.arg(format!("/proc/{}/exe", std::process::id()));
    valgrind.args([SUBCOMMAND, &serde_json::to_string(&InstructionCount { rounds, threads })?]);
    let output = valgrind.output().map_err(|e| format!("valgrind can't be run ({e}); is it installed?"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let why = said.lines().find(|line| line.contains("terminat")).unwrap_or("it failed");
        return Err(format!("valgrind can't run it: {} ({why})", output.status).into());
    }
    let count = said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    count.ok_or_else(|| "callgrind has told no count".into())
}
