//! The command `underpass-stale`: prints the rows of results again, each with its mark.
//!
//! `tools/readme-table` runs it, so that README and the report judge rows by the same rule.
#![forbid(unsafe_code)]

use serde_json::{Map, Value, json};
use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};
use underpass_figures::{SourceVersion, StaleRule, mark};

const USAGE: &str = "usage: underpass-stale FILE.json...

Prints each row of these results, which `underpass-bench NAME --json` has printed, with two fields
more: `mark`, as `of 1a2b3c4d, stale`, and `stale`, which says why; null if it is not stale.";

type AnyError = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let files: Vec<String> = env::args().skip(1).collect();
    if files.is_empty() || files.iter().any(|file| file.starts_with('-')) {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    }
    let printed = files.iter().try_for_each(|file| marked_rows(Path::new(file), &mut io::stdout()));
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough and closed the pipe.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("underpass-stale: {error}");
            ExitCode::FAILURE
        }
    }
}

fn is_closed_pipe(error: &AnyError) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Prints the rows of `file` with their marks.
fn marked_rows(file: &Path, out: &mut impl Write) -> Result<(), AnyError> {
    let about = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| about(&error))?;
    // A file of this folder has no parent but the empty path.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let rule = StaleRule::of(folder)?;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let row: Map<String, Value> = serde_json::from_str(line).map_err(|error| about(&error))?;
        writeln!(out, "{}", Value::Object(marked(row, &rule).map_err(|error| about(&error))?))?;
    }
    Ok(())
}

/// A row with its mark.
fn marked(mut row: Map<String, Value>, rule: &StaleRule) -> Result<Map<String, Value>, AnyError> {
    let version: SourceVersion = serde_json::from_value(Value::Object(row.clone()))?;
    let word =
        |name: &str| row.get(name).and_then(Value::as_str).ok_or_else(|| format!("a row has no `{name}`"));
    let reason = rule.reason(&version, word("bench")?, word("case")?);
    row.insert("mark".into(), mark(&version, reason.as_ref()).into());
    row.insert("stale".into(), json!(reason.map(|reason| reason.to_string())));
    Ok(row)
}
