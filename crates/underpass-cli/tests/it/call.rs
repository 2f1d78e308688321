//! `underpass call`: every method of the demo's interfaces, and every type that travels.

use crate::command::{DemoServer, error, json, run_with, said, underpass};
use serde_json::{Value, json as value};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;
use underpass::stream::{Stream, StreamOptions};
use underpass::{CallError, Sealed, Server, Wire};

/// The result of a call.
fn call(names: &Path, arguments: &[&str]) -> Value {
    let words: Vec<&str> = ["call"].iter().chain(arguments).copied().collect();
    let mut lines = json(names, &words);
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

/// What a call prints.
fn call_text(names: &Path, arguments: &[&str]) -> String {
    said(names, &["call"].iter().chain(arguments).copied().collect::<Vec<_>>())
}

/// The error of a call.
fn fails(names: &Path, arguments: &[&str]) -> String {
    error(names, &["call"].iter().chain(arguments).copied().collect::<Vec<_>>())
}

/// The methods of all names that there are, as their servers describe them.
fn described(names: &Path) -> BTreeSet<String> {
    let of_name = |line: Value| {
        let name = line["name"].as_str().unwrap().to_owned();
        let told = json(names, &["describe", &name, "--json"]).remove(0);
        let interfaces = told["interfaces"].as_array().unwrap().clone();
        let methods = interfaces.into_iter().flat_map(|of| of["methods"].as_array().unwrap().clone());
        methods.map(|method| format!("{name}.{}", method["name"].as_str().unwrap())).collect::<Vec<_>>()
    };
    json(names, &["ls", "--json", "--over", "0"]).into_iter().flat_map(of_name).collect()
}

#[test]
fn every_method_of_the_demo_can_be_called() {
    let home = tempfile::tempdir().unwrap();
    let (names, text) = (home.path().join("names"), home.path().join("text"));
    fs::write(&text, "a text\n").unwrap();
    let _demo = DemoServer::start(&names, &text);
    // The methods that returned a result.
    let called = RefCell::new(BTreeSet::new());
    let call = |arguments: &[&str]| {
        let result = call(&names, arguments);
        called.borrow_mut().insert(arguments[..2].join("."));
        result
    };

    let read = call(&["demo.files", "open", "text"]).to_string();
    let write = call(&["demo.files", "open", "name=copy"]).to_string();
    let stat = call(&["demo.files", "stat", &read]);
    assert_eq!((&stat["size"], &stat["writable"]), (&value!(7), &value!(false)));
    assert_eq!(call(&["demo.files", "read", &read, "2", "100"]), value!({ "text": "text\n" }));
    assert_eq!(call(&["demo.files", "write", &write, "0", "written"]), Value::Null);
    assert_eq!(call(&["demo.files", "flush", &write]), 1);
    let length = format!("file={write}");
    let back = call(&["demo.files", "read", "len=3", "offset=1", &length]);
    assert_eq!(back, value!({ "text": "rit" }));
    let refused = fails(&names, &["demo.files", "write", &read, "0", "x"]);
    assert!(refused.contains(r#"returned the error {"ReadOnly":"text"}"#), "{refused}");

    let place = r#"{"row": 0, "column": 0, "rows": 3, "columns": 12, "layer": 1}"#;
    let window = call(&["demo.windows", "open", "title", place]).to_string();
    assert_eq!(call(&["demo.windows", "draw", &window, "0", "drawn"]), Value::Null);
    let frame = call(&["demo.windows", "compose"]);
    assert_eq!(frame["number"], 1);
    let screen = call(&["demo.windows", "screen"]);
    assert!(screen[1].as_str().unwrap().contains("drawn"), "{screen}");
    let refused = fails(&names, &["demo.windows", "draw", "77", "0", "drawn"]);
    assert!(refused.contains(r#"{"NoWindow":77}"#), "{refused}");

    let described = described(&names);
    assert_eq!(called.into_inner(), described, "a method that is not called above, or not described");
    assert!(described.len() >= 9, "{described:?}");
}

/// What is kept in a jar.
#[derive(Clone, Debug, PartialEq, Wire)]
enum Content {
    Nothing,
    Fruit { name: String, pieces: u8 },
    Mixed(Vec<Content>),
}

/// A jar.
#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(extensible)]
struct Jar {
    id: u64,
    content: Content,
    #[underpass(since = 2, default = 7)]
    shelf: u32,
}

/// Values of many types, which come back.
#[underpass::interface]
trait Pantry {
    fn jars(&self, jars: BTreeMap<String, Jar>) -> Result<BTreeMap<String, Jar>, CallError>;
    fn numbers(&self, tuple: (i8, u128, f64), pair: Option<[u16; 2]>) -> Result<(i8, u128, f64), String2>;
    fn bytes(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError>;
    fn sealed(&self, bytes: Sealed) -> Result<Sealed, CallError>;
    fn file(&self, file: File) -> Result<File, std::io::Error>;
    fn count(&self, to: u32) -> Result<Stream<Jar>, CallError>;
    fn sum(&self, numbers: Stream<u32>) -> Result<u64, CallError>;
    fn sleep(&self, time: Duration) -> Result<(), CallError>;
    #[underpass(since = 2)]
    fn newest(&self) -> Result<(), CallError>;
}

/// An error of an author's own.
#[derive(Clone, Debug, PartialEq, Wire)]
struct String2(String);

impl From<CallError> for String2 {
    fn from(e: CallError) -> Self {
        Self(e.to_string())
    }
}

struct Shelves;

impl Pantry for Shelves {
    fn jars(&self, jars: BTreeMap<String, Jar>) -> Result<BTreeMap<String, Jar>, CallError> {
        Ok(jars)
    }

    fn numbers(&self, tuple: (i8, u128, f64), pair: Option<[u16; 2]>) -> Result<(i8, u128, f64), String2> {
        match pair {
            None => Ok(tuple),
            Some([one, two]) => Err(String2(format!("{one} and {two}"))),
        }
    }

    fn bytes(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError> {
        Ok(bytes.to_vec())
    }

    fn sealed(&self, bytes: Sealed) -> Result<Sealed, CallError> {
        Ok(bytes)
    }

    fn file(&self, mut file: File) -> Result<File, std::io::Error> {
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut back = tempfile::tempfile()?;
        back.write_all(text.to_uppercase().as_bytes())?;
        Ok(back)
    }

    fn count(&self, to: u32) -> Result<Stream<Jar>, CallError> {
        let (sender, stream) = StreamOptions::new().open()?;
        std::thread::spawn(move || {
            for id in 0..to {
                let jar = Jar { id: id.into(), content: Content::Nothing, shelf: 1 };
                if sender.send(&jar).is_err() {
                    return;
                }
            }
            match to {
                3 => drop(sender.fail(&"there are only 3".to_owned())),
                _ => sender.finish(),
            }
        });
        Ok(stream)
    }

    fn sum(&self, numbers: Stream<u32>) -> Result<u64, CallError> {
        Ok(numbers.into_iter().map_while(Result::ok).map(u64::from).sum())
    }

    fn sleep(&self, time: Duration) -> Result<(), CallError> {
        underpass::thread::sleep(time);
        Ok(())
    }

    fn newest(&self) -> Result<(), CallError> {
        Ok(())
    }
}

/// A directory with a pantry.
fn pantry() -> (tempfile::TempDir, std::path::PathBuf, underpass::Running) {
    let home = tempfile::tempdir().unwrap();
    let names = home.path().join("names");
    let running = Server::new().directory(&names).export("pantry", Pantry::serve(Shelves)).start().unwrap();
    (home, names, running)
}

#[test]
fn values_of_many_types_come_back() {
    let (home, names, _running) = pantry();
    let jars = value!({
        "left": { "id": 1, "content": "Nothing", "shelf": 2 },
        "right": { "id": 2, "content": { "Mixed": [{ "Fruit": { "name": "plum", "pieces": 9 } }] }, "shelf": 3 },
    });
    assert_eq!(call(&names, &["pantry", "jars", &jars.to_string()]), jars);
    let without = r#"{"a": {"id": 1, "content": "Nothing"}}"#;
    assert_eq!(call(&names, &["pantry", "jars", without])["a"]["shelf"], 7, "the server's default");
    let numbers = value!([-3, u128::MAX.to_string(), 0.5]);
    assert_eq!(call(&names, &["pantry", "numbers", &numbers.to_string()]), numbers);
    let refused = fails(&names, &["pantry", "numbers", &numbers.to_string(), "[1, 2]"]);
    assert!(refused.contains(r#"pantry.numbers returned the error "1 and 2""#), "{refused}");
    assert_eq!(call(&names, &["pantry", "bytes", "[0, 255]"]), value!({ "base64": "AP8=" }));
    assert_eq!(call(&names, &["pantry", "newest"]), Value::Null);

    // Larger than an A-stack.
    let large = home.path().join("large");
    fs::write(&large, "x".repeat(1 << 20)).unwrap();
    let file = value!({ "file": large }).to_string();
    for method in ["bytes", "sealed"] {
        let back = call(&names, &["pantry", method, &file]);
        assert_eq!(back["text"].as_str().unwrap().len(), 1 << 20, "{method}");
    }
    let (text, saved) = (home.path().join("text"), home.path().join("saved"));
    fs::write(&text, "an open file").unwrap();
    let (text, folder) = (text.to_str().unwrap(), saved.to_str().unwrap());
    assert_eq!(call(&names, &["pantry", "file", text]), value!({ "file": 0, "size": 12 }));
    call(&names, &["pantry", "file", text, "--save-files", folder]);
    assert_eq!(fs::read_to_string(saved.join("0")).unwrap(), "AN OPEN FILE");
    let refused = fails(&names, &["pantry", "file", text, "--save-files", folder, "--max-bytes", "11"]);
    assert!(refused.contains("more than 11 bytes") && refused.contains("--max-bytes"), "{refused}");
    // A control that JSON need not escape, and that a terminal obeys.
    let controls =
        call_text(&names, &["pantry", "jars", "{\"\u{9b}2J\": {\"id\": 1, \"content\": \"Nothing\"}}"]);
    assert!(controls.contains("\\u009b2J") && !controls.contains('\u{9b}'), "{controls:?}");
}

#[test]
fn streams_are_lines() {
    let (_home, names, _running) = pantry();
    let rows = json(&names, &["call", "pantry", "count", "1000"]);
    assert_eq!(rows.len(), 1000);
    assert_eq!(rows[999], value!({ "id": 999, "content": "Nothing", "shelf": 1 }));
    let failed = run_with(underpass(&names, &["call", "pantry", "count", "3"]), "");
    assert_eq!(failed.status.code(), Some(1));
    assert_eq!(String::from_utf8(failed.stdout).unwrap().lines().count(), 3);
    let why = String::from_utf8(failed.stderr).unwrap();
    assert!(why.contains(r#"the stream ended with the error "there are only 3""#), "{why}");

    let lines: String = (1..=1000).map(|number| format!("{number}\n")).collect();
    let sum = run_with(underpass(&names, &["call", "pantry", "sum", "-"]), &lines);
    assert_eq!(String::from_utf8(sum.stdout).unwrap(), "500500\n");
    assert_eq!(call(&names, &["pantry", "sum", "[1, 2, 3]"]), 6);
    // The reader may have the items before the error, or not; the call itself succeeds.
    let wrong = run_with(underpass(&names, &["call", "pantry", "sum", "[1, \"x\"]"]), "");
    let why = String::from_utf8(wrong.stderr).unwrap();
    assert!(why.contains("item 1 of the stream: expected an integer"), "{why}");
}

#[test]
fn an_error_says_what_was_expected() {
    let (_home, names, _running) = pantry();
    for (arguments, said) in [
        (&["pantry", "nope"][..], "pantry has no method \"nope\", but jars, numbers,"),
        (&["pantry", "sleep"], "the argument `time` of type Duration is missing: sleep(time: Duration)"),
        (&["pantry", "sleep", "-1"], "argument `time` of type Duration: expected a number of seconds"),
        (
            &["pantry", "jars", r#"{"a": {"id": 1, "content": {"Fruit": {"name": 1, "pieces": 1}}}}"#],
            "entry \"a\": field `content`: variant `Fruit`: field `name`: expected a string, found 1",
        ),
        (&["pantry", "sleep", "60", "--deadline", "20ms"], "deadline"),
        (&["pantry", "file", "/nonexistent"], "/nonexistent can't be opened"),
        (&["nobody", "sleep"], "no server exports"),
    ] {
        let error = fails(&names, arguments);
        assert!(error.contains(said), "no {said:?} in {error:?}");
    }
    let given = said(&names, &["call", "pantry", "sleep", "--json-arguments", r#"{"time": 0}"#]);
    assert_eq!(given, "null\n");
}
