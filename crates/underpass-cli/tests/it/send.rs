//! `underpass send`, as a script runs it.

use crate::command::{error, json, run_with, said, underpass};
use std::collections::BTreeMap;
use std::path::Path;
use underpass::port::sync::SyncPortOptions;
use underpass::port::{Arrival, PortOptions, PortReceiver};
use underpass::{CallError, Running, Server};

#[derive(Clone, Debug, PartialEq, underpass::Wire)]
enum Kind {
    Warm,
    Cold { by: f32 },
}

#[derive(Clone, Debug, PartialEq, underpass::Wire)]
struct Reading {
    sensor: u32,
    kind: Kind,
    notes: BTreeMap<String, Option<i64>>,
}

#[underpass::interface]
trait NoPort {
    fn call(&self) -> Result<(), CallError>;
}

struct Nothing;

impl NoPort for Nothing {
    fn call(&self) -> Result<(), CallError> {
        Ok(())
    }
}

/// A port with room for so many messages.
fn port(names: &Path, room: usize) -> (Running, PortReceiver<Reading>) {
    let (service, receiver) = PortOptions::new().messages(room).open::<Reading>().unwrap();
    (Server::new().directory(names).export("readings", service).start().unwrap(), receiver)
}

/// The messages of one sender, which has ended.
fn received(port: &PortReceiver<Reading>) -> Vec<Reading> {
    let mut messages = Vec::new();
    loop {
        match port.recv_timeout(std::time::Duration::from_secs(100)).unwrap() {
            Arrival::Message(came) => messages.push(came.message),
            Arrival::Ended(_) => return messages,
        }
    }
}

fn reading(sensor: u32, kind: Kind, notes: &[(&str, Option<i64>)]) -> Reading {
    let notes = notes.iter().map(|(key, note)| ((*key).to_owned(), *note)).collect();
    Reading { sensor, kind, notes }
}

#[test]
fn messages_are_sent_as_json() {
    let home = tempfile::tempdir().unwrap();
    let names = home.path().join("names");
    let (_running, port) = port(&names, 64);
    let first = r#"{"sensor": 7, "kind": "Warm", "notes": {}}"#;
    let second = r#"{"sensor": 8, "kind": {"Cold": {"by": 1.5}}, "notes": {"a": 1, "b": null}}"#;
    let both =
        [reading(7, Kind::Warm, &[]), reading(8, Kind::Cold { by: 1.5 }, &[("a", Some(1)), ("b", None)])];
    assert_eq!(said(&names, &["send", "readings", first, second]), "2 sent\n");
    assert_eq!(received(&port), both);
    // Lines of the standard input.
    let output =
        run_with(underpass(&names, &["send", "readings", "--json"]), &format!("{first}\n\n{second}\n"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "{\"name\":\"readings\",\"sent\":2}\n");
    assert_eq!(received(&port), both);
}

#[test]
fn text_is_a_word() {
    let home = tempfile::tempdir().unwrap();
    let names = home.path().join("names");
    let (service, port) = PortOptions::new().open::<String>().unwrap();
    let _running = Server::new().directory(&names).export("words", service).start().unwrap();
    assert_eq!(json(&names, &["send", "words", "plum", "7", "\"a b\"", "--json"])[0]["sent"], 3);
    let words: Vec<_> = (0..3)
        .map(|_| match port.recv().unwrap() {
            Arrival::Message(came) => came.message,
            Arrival::Ended(lane) => panic!("{lane:?}"),
        })
        .collect();
    assert_eq!(words, ["plum", "7", "a b"]);
}

#[test]
fn a_synchronous_port_is_called() {
    let home = tempfile::tempdir().unwrap();
    let names = home.path().join("names");
    let (service, port) = SyncPortOptions::new().open::<String, u32>();
    let _running = Server::new().directory(&names).export("lengths", service).start().unwrap();
    let owner = std::thread::spawn(move || {
        let (word, reply) = port.recv().unwrap().take();
        reply.give(word.len() as u32);
    });
    // The number of a message without an order.
    let call = ["call", "lengths", "send", "18446744073709551615", "plum", "--deadline", "100s"];
    assert_eq!(said(&names, &call), "4\n");
    owner.join().unwrap();
}

#[test]
fn an_error_names_the_message() {
    let home = tempfile::tempdir().unwrap();
    let names = home.path().join("names");
    let (_running, port) = port(&names, 2);
    let good = r#"{"sensor": 1, "kind": "Warm", "notes": {}}"#;
    let told = error(&names, &["send", "readings", good, r#"{"sensor": "x"}"#]);
    assert!(told.contains("message 1 of type Reading"), "{told}");
    assert_eq!(received(&port).len(), 1, "the first one was sent");
    let told = error(&names, &["send", "readings", "{"]);
    assert!(told.contains("is no JSON"), "{told}");
    assert_eq!(received(&port), []);
    // Nobody receives, so there is no room for the third one.
    let told = error(&names, &["send", "readings", "--deadline", "10ms", good, good, good]);
    assert!(told.contains("message 2 of type Reading"), "{told}");
    assert_eq!(received(&port).len(), 2);
    assert!(error(&names, &["send", "nobody", "1"]).contains("no server exports"));
    let _other = Server::new().directory(&names).export("other", NoPort::serve(Nothing)).start().unwrap();
    let told = error(&names, &["send", "other", "1"]);
    assert!(told.contains("other is no asynchronous port"), "{told}");
}
