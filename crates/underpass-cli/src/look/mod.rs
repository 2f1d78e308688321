//! The commands that look into running processes: `ls`, `describe`, `health`, `top`, `trace`,
//! `revoke`.
//!
//! *Decides:* whom they ask, and how the answers are shown. A process is found by its names: the
//! directory of names says which there are, and each name has an interface that tells what it is.
//! *Must not know:* how a process gathers what it tells.

pub mod describe;
pub mod health;
pub mod ls;
mod methods;
pub mod revoke;
mod rust_text;
mod table;
mod terminal_text;
pub mod top;
pub mod trace;

pub use terminal_text::{escaped, json_line, printable};

use anyhow::Context;
use std::os::unix::fs::FileTypeExt;
use std::time::{Duration, SystemTime};
use underpass::ImportError;
use underpass::inspect::{Inspect, InspectClient, InterfaceView};
use underpass_os::Directory;

/// How long a process may take for an answer. It is much for one that lives.
const PATIENCE: Duration = Duration::from_secs(5);

/// The names in the directory, sorted. None if there is no directory.
///
/// # Errors
/// The directory can't be read.
pub fn names() -> anyhow::Result<Vec<String>> {
    let directory = Directory::from_environment();
    let shown = directory.path().display().to_string();
    let entries = match std::fs::read_dir(directory.path()) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("the names in {shown} can't be listed"))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("the names in {shown} can't be listed"))?;
        let is_name = entry.file_type().is_ok_and(|of| of.is_socket());
        // The activation server has a socket there, and it is no export.
        let name = entry.file_name().into_string().ok().filter(|name| !name.starts_with('.'));
        names.extend(name.filter(|_| is_name));
    }
    names.sort();
    Ok(names)
}

/// Asks the name itself what it is.
///
/// # Errors
/// Why it does not tell, in a few words.
pub fn ask(name: &str) -> Result<InspectClient, String> {
    let client = InspectClient::import(name).map_err(|e| match e {
        ImportError::Dead(_) => "its server is dead".to_owned(),
        ImportError::NotExported(_) => "nobody exports it".to_owned(),
        ImportError::PermissionDenied(_) => "the mode of its socket keeps this user out".to_owned(),
        ImportError::NotAuthorized(_, why) => format!("its server refuses: {why}"),
        ImportError::NoAnswer(..) => "its server does not answer".to_owned(),
        ImportError::Mismatch { .. } => "it shows nothing of itself".to_owned(),
        e => e.to_string(),
    })?;
    Ok(client.with_deadline(PATIENCE))
}

/// The interfaces that are exported as `name`.
///
/// # Errors
/// The name does not tell.
pub fn interfaces(name: &str) -> anyhow::Result<Vec<InterfaceView>> {
    let client = ask(name).map_err(|why| match why.as_str() {
        "nobody exports it" => match InspectClient::import(name) {
            Err(e) => anyhow::anyhow!("{e}"),
            Ok(_) => anyhow::anyhow!("{name} was exported just now; try again"),
        },
        _ => anyhow::anyhow!("{name} can't be asked: {why}"),
    })?;
    client.interfaces().with_context(|| format!("{name} does not say what it is"))
}

/// How long ago that was, in a few letters.
fn age(since: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(since).unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// A number of events in a time, for each second.
fn rate(events: u64, time: Duration) -> f64 {
    events as f64 / time.as_secs_f64().max(1e-9)
}

/// "0.3", "42", "1.2M": a number in few letters.
fn short(value: f64) -> String {
    match value {
        v if v <= 0.0 => "0".to_owned(),
        v if v < 9.95 => format!("{v:.1}"),
        v if v < 9_999.5 => format!("{v:.0}"),
        v if v < 9_999_500.0 => format!("{:.0}k", v / 1e3),
        v => format!("{:.0}M", v / 1e6),
    }
}

/// A time of the command line: `250us`, `20ms`, `1.5s`, `2m`.
///
/// # Errors
/// The text is no such time.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_alphabetic());
    let number: f64 =
        digits.parse().map_err(|_| format!("{text:?} is no time; write 250us, 20ms, 1.5s or 2m"))?;
    let scale = match &text[digits.len()..] {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        unit => return Err(format!("{unit:?} is no unit of time; write us, ms, s or m")),
    };
    Duration::try_from_secs_f64(number * scale).map_err(|_| format!("{text:?} is no time that can pass"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, time) in [
            ("250us", Duration::from_micros(250)),
            ("20ms", Duration::from_millis(20)),
            ("1.5s", Duration::from_millis(1500)),
            ("2m", Duration::from_secs(120)),
            ("3", Duration::from_secs(3)),
        ] {
            assert_eq!(parse_time(text), Ok(time));
        }
        for wrong in ["", "ms", "-1s", "1 parsec", "1h", "NaN", "inf"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.31, 42.4, 9_999.0, 12_345.0, 12_345_678.0].map(short);
        assert_eq!(shown, ["0", "0.3", "42", "9999", "12k", "12M"]);
    }
}
