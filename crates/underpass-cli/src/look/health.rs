//! `underpass health`: whether a name serves, as an exit status.

use super::{json_line, parse_time};
use anyhow::Result;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use underpass::inspect::{Inspect, InspectClient, InspectError};
use underpass::{CallError, ImportError};

/// The pause before a name is asked again.
const PAUSE: Duration = Duration::from_millis(20);

/// What `underpass health` is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Exit status: 0 if it serves, 1 if it says that it does not, 2 if nobody answers.")]
pub struct HealthOptions {
    /// The name
    name: String,
    /// How long to wait for the answer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    deadline: Duration,
    /// Wait until it serves, or for the deadline
    #[arg(long)]
    wait: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What a name answers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Serving,
    NotServing(String),
    /// Nobody answers, for this reason.
    Unknown(String),
}

impl Answer {
    fn status(&self) -> u8 {
        match self {
            Self::Serving => 0,
            Self::NotServing(_) => 1,
            Self::Unknown(_) => 2,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::NotServing(_) => "not serving",
            Self::Unknown(_) => "unknown",
        }
    }

    fn why(&self) -> Option<&str> {
        match self {
            Self::Serving => None,
            Self::NotServing(why) | Self::Unknown(why) => Some(why),
        }
    }
}

/// Asks a name whether it serves. The exit status says it.
///
/// # Errors
/// The standard output can't be written.
pub fn run(options: &HealthOptions) -> Result<ExitCode> {
    let answer = match options.wait {
        true => wait(&options.name, options.deadline),
        false => ask_within(&options.name, options.deadline),
    };
    let mut out = anstream::stdout().lock();
    if options.json {
        let told = json!({ "name": options.name, "health": answer.word(), "why": answer.why() });
        writeln!(out, "{}", json_line(&told))?;
    } else {
        match answer.why() {
            Some(why) => writeln!(out, "{}: {}", answer.word(), super::printable(why))?,
            None => writeln!(out, "{}", answer.word())?,
        }
    }
    Ok(answer.status().into())
}

/// Asks until the name serves.
fn wait(name: &str, within: Duration) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = ask_within(name, within.saturating_sub(begun.elapsed()));
        if answer == Answer::Serving || begun.elapsed() + PAUSE >= within {
            return answer;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Asks once. An import may wait longer than this command has time, so it has a kernel thread,
/// which ends with the command.
fn ask_within(name: &str, within: Duration) -> Answer {
    let (tell, told) = channel();
    let of = name.to_owned();
    std::thread::spawn(move || tell.send(ask(&of, within)));
    let late = || Answer::Unknown(format!("{name} did not answer within {within:?}"));
    told.recv_timeout(within).unwrap_or_else(|_| late())
}

fn ask(name: &str, within: Duration) -> Answer {
    let client = match InspectClient::import(name) {
        Ok(client) => client.with_deadline(within),
        Err(ImportError::Mismatch { .. }) => {
            let why = "it shows nothing of itself; its server says inspectable(false), or runs in a sandbox";
            return Answer::Unknown(why.to_owned());
        }
        Err(e) => return Answer::Unknown(e.to_string()),
    };
    match client.health() {
        Ok(health) if health.serving => Answer::Serving,
        Ok(health) => Answer::NotServing(health.why_not),
        // An older server says nothing of its health. It has just answered.
        Err(InspectError::Call(CallError::Unsupported(_))) => Answer::Serving,
        Err(e) => Answer::Unknown(e.to_string()),
    }
}
