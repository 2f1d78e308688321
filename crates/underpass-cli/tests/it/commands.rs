//! What holds for every command of `underpass`: its help, its JSON, its exit status when something
//! is wrong, and a reader that closes the pipe.

use crate::command::{DemoServer, error, run_with, said, underpass, wait};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// Commands that print nothing that a program would read, or that print lines of other programs.
const WITHOUT_JSON: [&str; 3] = ["completions", "man", "node"];

/// The program that it starts has its own help.
const OF_ANOTHER_PROGRAM: &str = "bridge";

/// A directory with a text and one for names.
fn home() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let (names, text) = (home.path().join("names"), home.path().join("text"));
    fs::write(&text, "a text\n").unwrap();
    (home, names, text)
}

/// The commands that the help lists below `of`.
fn commands(names: &Path, of: &[&str]) -> Vec<String> {
    let help = said(names, &[of, &["--help"]].concat());
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // A line that goes on is indented further.
    let named = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let named = named.filter_map(|line| line.split_whitespace().next().map(str::to_owned));
    named.filter(|name| name != "help" && name != OF_ANOTHER_PROGRAM).collect()
}

/// All commands, with those below others.
fn all(names: &Path) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for command in commands(names, &[]) {
        let below = commands(names, &[&command]);
        found.push(vec![command.clone()]);
        found.extend(below.into_iter().map(|sub| vec![command.clone(), sub]));
    }
    assert!(found.len() > 12, "{found:?}");
    found
}

fn run(names: &Path, command: &[String], more: &[&str]) -> Output {
    let words: Vec<&str> = command.iter().map(String::as_str).chain(more.iter().copied()).collect();
    run_with(underpass(names, &words), "")
}

#[test]
fn each_command_has_its_help_and_refuses_other_options() {
    let (_home, names, _) = home();
    for command in all(&names) {
        let help = run(&names, &command, &["--help"]);
        assert_eq!(help.status.code(), Some(0), "{command:?}");
        let text = String::from_utf8(help.stdout).unwrap();
        let usage = format!("Usage: underpass {}", command.join(" "));
        assert!(text.contains(&usage), "no {usage:?} in {text}");
        let about = text.lines().next().unwrap();
        assert!(
            about.len() > 10 && !about.starts_with("Usage"),
            "{command:?} says nothing of itself: {text}"
        );
        let wrong = run(&names, &command, &["--no-such-option"]);
        assert_eq!(wrong.status.code(), Some(2), "{command:?}");
        assert!(wrong.stdout.is_empty(), "{command:?}");
        assert!(String::from_utf8(wrong.stderr).unwrap().contains("--no-such-option"), "{command:?}");
    }
}

#[test]
fn each_command_that_tells_something_tells_it_as_json() {
    let (_home, names, _) = home();
    for command in commands(&names, &[]) {
        let help = said(&names, &[&command, "--help"]);
        let is_without = WITHOUT_JSON.contains(&command.as_str());
        assert_eq!(help.contains("--json"), !is_without, "{command}: {help}");
    }
    assert!(said(&names, &["node", "status", "--help"]).contains("--json"));
}

#[test]
fn an_error_has_a_status_and_goes_to_the_standard_error_alone() {
    let (_home, names, text) = home();
    let no_folder = text.join("below-a-file");
    let no_folder = no_folder.to_str().unwrap();
    for arguments in [
        &["describe", "nobody"][..],
        &["call", "nobody", "method"],
        &["send", "nobody", "1"],
        &["trace", "nobody"],
        &["trace", "4194304"],
        &["revoke", "nobody", "--all"],
        &["node", "status"],
        &["man", no_folder],
    ] {
        let told = error(&names, arguments);
        assert!(told.starts_with("underpass: ") && told.len() > 30, "{arguments:?}: {told:?}");
        let stdout = run_with(underpass(&names, arguments), "").stdout;
        assert!(stdout.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&stdout));
    }
    // A directory of names that is none.
    for arguments in [&["ls"][..], &["top", "--once"], &["trace", "4194304"]] {
        let told = error(&text, arguments);
        assert!(told.contains("can't be listed"), "{arguments:?}: {told}");
    }
    // Names that were asked for have to be there. They are listed all the same.
    let listed = run_with(underpass(&names, &["ls", "nobody"]), "");
    assert_eq!(listed.status.code(), Some(1));
    assert!(String::from_utf8(listed.stdout).unwrap().contains("nobody exports it"));
    assert_eq!(said(&names, &["ls", "--json"]), "");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let (_home, names, text) = home();
    let _demo = DemoServer::start(&names, &text);
    for arguments in [
        &["ls", "--over", "0"][..],
        &["describe", "demo.files"],
        &["call", "demo.windows", "screen"],
        &["top", "--once", "--interval", "10ms"],
        &["completions", "bash"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = underpass(&names, arguments);
        command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let status = wait(&mut child, &format!("{arguments:?}"));
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!((status.code(), told.as_str()), (Some(0), ""), "{arguments:?}");
    }
}
