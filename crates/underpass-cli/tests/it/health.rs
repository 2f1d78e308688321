//! `underpass health`, as a script runs it.

use crate::command::{run_with, underpass};
use serde_json::{Value, json};
use std::path::Path;
use underpass::{CallError, Health, Server};
use underpass_os::{Directory, Listening};

#[underpass::interface]
trait Clerk {
    fn ask(&self) -> Result<u64, CallError>;
}

struct Seven;

impl Clerk for Seven {
    fn ask(&self) -> Result<u64, CallError> {
        Ok(7)
    }
}

/// The exit status, and what is printed.
fn health(names: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run_with(underpass(names, &[&["health"], arguments].concat()), "");
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn told(name: &str, health: &str, why: &str) -> Value {
    let why = (!why.is_empty()).then_some(why);
    json!({ "name": name, "health": health, "why": why })
}

#[test]
fn a_server_says_whether_it_serves() {
    let home = tempfile::tempdir().unwrap();
    let names = home.path().join("names");
    let says = Health::new();
    let running =
        Server::new().directory(&names).health(&says).export("clerk", Clerk::serve(Seven)).start().unwrap();
    assert_eq!(health(&names, &["clerk"]), (Some(0), "serving\n".to_owned()));
    let (status, said) = health(&names, &["clerk", "--json"]);
    assert_eq!((status, serde_json::from_str(&said).unwrap()), (Some(0), told("clerk", "serving", "")));

    says.not_serving("the disk is full");
    assert_eq!(health(&names, &["clerk"]), (Some(1), "not serving: the disk is full\n".to_owned()));
    let (status, said) = health(&names, &["clerk", "--json"]);
    let expected = told("clerk", "not serving", "the disk is full");
    assert_eq!((status, serde_json::from_str(&said).unwrap()), (Some(1), expected));
    // It serves before the deadline, and never does.
    let waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| health(&names, &["clerk", "--wait", "--deadline", "100s"]));
        says.serving();
        waits.join().unwrap()
    });
    assert_eq!(waits, (Some(0), "serving\n".to_owned()));
    says.not_serving("it is broken");
    let (status, said) = health(&names, &["clerk", "--wait", "--deadline", "300ms"]);
    assert!(status == Some(1) || status == Some(2), "{status:?} {said}");
    running.stop();
}

#[test]
fn a_name_without_an_answer_is_another_status() {
    let home = tempfile::tempdir().unwrap();
    let names = home.path().join("names");
    let (status, said) = health(&names, &["nobody"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("no server exports"), "{said}");
    // A manager holds the socket, and no server is there to answer.
    let directory = Directory::at(&names);
    directory.ensure().unwrap();
    let _listening = Listening::bind(&directory, "held", 0o600).unwrap();
    let (status, said) = health(&names, &["held", "--deadline", "100ms"]);
    assert_eq!((status, said.as_str()), (Some(2), "unknown: held did not answer within 100ms\n"));
    let hidden = Server::new().directory(&names).inspectable(false).export("hidden", Clerk::serve(Seven));
    let _hidden = hidden.start().unwrap();
    let (status, said) = health(&names, &["hidden"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("it shows nothing of itself"), "{said}");
}

#[test]
fn waiting_outlasts_the_start_of_a_server() {
    let home = tempfile::tempdir().unwrap();
    let names = home.path().join("names");
    let waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| health(&names, &["late", "--wait", "--deadline", "100s"]));
        let running = Server::new().directory(&names).export("late", Clerk::serve(Seven)).start().unwrap();
        let told = waits.join().unwrap();
        running.stop();
        told
    });
    assert_eq!(waits, (Some(0), "serving\n".to_owned()));
}
