//! The two programs differ in two lines, and do the same.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server's process, and the address that it printed.
struct Serving(Child, String);

impl Serving {
    fn start(program: &str, directory: &PathBuf) -> Self {
        let mut command = Command::new(program);
        let command = command.args(["serve", "127.0.0.1:0"]).env("UNDERPASS_DIR", directory);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening at ").expect("it prints its address").to_owned();
        Self(child, address)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a server has exported its name.
fn appears(name: &Path) {
    let since = Instant::now();
    while !name.exists() {
        assert!(since.elapsed() < Duration::from_secs(60), "{} does not appear", name.display());
        std::thread::yield_now();
    }
}

fn greeted(program: &str, address: &str, directory: &PathBuf) -> String {
    let mut command = Command::new(program);
    let output = command.args(["greet", address, "Ada", "Grace"]).env("UNDERPASS_DIR", directory).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const GREETINGS: &str = "Hello, Ada!\nHello, Grace!\nstreamed: Hello, Ada!\nstreamed: Hello, Grace!\n";

#[test]
fn both_programs_greet() {
    let (before, after) = (env!("CARGO_BIN_EXE_greeter-before"), env!("CARGO_BIN_EXE_greeter"));
    let directory = std::env::temp_dir().join(format!("underpass-greeter-{}", std::process::id()));
    let old = Serving::start(before, &directory);
    assert_eq!(greeted(before, &old.1, &directory), GREETINGS);
    let new = Serving::start(after, &directory);
    // It listens first, and tonic takes the layer when it serves.
    appears(&directory.join("greeter"));
    // By the name, and by TCP as before, also for clients that nobody has changed.
    assert_eq!(greeted(after, "underpass:greeter", &directory), GREETINGS);
    assert_eq!(greeted(after, &new.1, &directory), GREETINGS);
    assert_eq!(greeted(before, &new.1, &directory), GREETINGS);
    drop((old, new));
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn the_programs_differ_in_two_lines() {
    let (before, after) = (include_str!("../../src/before.rs"), include_str!("../../src/main.rs"));
    let lines = |text: &'static str| text.lines().collect::<Vec<_>>();
    let (before, after) = (lines(before), lines(after));
    let gone: Vec<_> = before.iter().filter(|line| !after.contains(line)).collect();
    let new: Vec<_> = after.iter().filter(|line| !before.contains(line)).collect();
    assert_eq!(gone, [&"use tonic::transport::Channel;"]);
    assert_eq!(
        new,
        [&"use underpass_grpc::Channel;", &"        .layer(underpass_grpc::alongside(\"greeter\")?)"]
    );
    let shown = include_str!("../../two-lines.diff");
    let changed = |sign: char, head: &'static str| {
        shown
            .lines()
            .filter(move |line| line.starts_with(sign) && !line.starts_with(head))
            .map(|line| &line[1..])
    };
    assert!(changed('-', "---").eq(gone.into_iter().copied()));
    assert!(changed('+', "+++").eq(new.into_iter().copied()));
}
