//! The README's hello is `examples/hello.rs`, and works as the two processes that the README
//! promises.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
/// Far longer than any run of the example takes.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_readme_shows_the_example() {
    let example = fs::read_to_string(Path::new(CRATE).join("examples/hello.rs")).unwrap();
    let readme = fs::read_to_string(Path::new(CRATE).join("../../README.md")).unwrap();
    let shown: Vec<_> =
        readme.split("```rust\n").skip(1).filter_map(|block| block.split("```").next()).collect();
    assert_eq!(shown, [example.as_str()], "copy examples/hello.rs into README.md's only block of Rust");
    assert!(example.lines().count() <= 50, "hello is to be read in a minute: 50 lines");
}

#[test]
fn two_processes_say_hello() {
    let directory = Directory::new();
    let hello = hello();
    let mut server = Domain::start(&hello, &directory, &["server"]);
    let server_id = server.child.id();
    assert_eq!(server.line().as_deref(), Some(&*format!("process {server_id} serves; Ctrl-C ends it")));

    let mut client = Domain::start(&hello, &directory, &[]);
    let greeting = format!("process {server_id} says to process {}: Good day, Ada.", client.child.id());
    assert_eq!(client.line(), Some(greeting));
    let timing = client.line().unwrap_or_default();
    assert!(timing.starts_with("10000 calls, ") && timing.ends_with(" ns each"), "{timing}");
    assert_eq!(client.line(), None);
    assert!(client.child.wait().unwrap().success());
}

#[test]
fn a_main_that_fails_says_what_to_do() {
    let directory = Directory::new();
    let hello = hello();
    let mut server = Domain::start(&hello, &directory, &["server"]);
    assert!(server.line().is_some(), "it serves");
    // The server prints its line a moment before it has the name. Wait until a client is served.
    let mut client = Domain::start(&hello, &directory, &[]);
    assert!(client.line().is_some(), "it is served");

    let second = Command::new(&hello).arg("server").env("UNDERPASS_DIR", &directory.0).output().unwrap();
    let told = String::from_utf8_lossy(&second.stderr);
    let name = directory.0.join("hello");
    assert!(
        told.starts_with(&format!("Error: a living domain exports {}; see `ss", name.display())),
        "{told}"
    );
    assert!(!second.status.success());
}

/// The built example. `cargo test` puts it beside this test. If it was left out (`--test it`),
/// this builds it.
fn hello() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let profile = own.ancestors().nth(2).expect("a test lies in target/PROFILE/deps");
    let hello = profile.join("examples/hello");
    let changed = |file: &Path| fs::metadata(file).and_then(|found| found.modified());
    let source = changed(&Path::new(CRATE).join("examples/hello.rs")).unwrap();
    if changed(&hello).unwrap_or(SystemTime::UNIX_EPOCH) < source {
        let name = match profile.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--quiet", "--package", "underpass", "--example", "hello", "--profile", name])
            .arg("--target-dir")
            .arg(profile.parent().expect("a profile lies in target"))
            .current_dir(CRATE)
            .status()
            .unwrap();
        assert!(built.success(), "the example does not build");
    }
    hello
}

/// The directory of names of the two domains. It is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let own = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("underpass-readme-{}-{own}", id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The name of a killed server is still in it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process of the example; killed when dropped.
struct Domain {
    child: Child,
    lines: Receiver<String>,
    deadline: Instant,
}

impl Domain {
    fn start(hello: &Path, directory: &Directory, arguments: &[&str]) -> Self {
        let mut child = Command::new(hello)
            .args(arguments)
            .env("UNDERPASS_DIR", &directory.0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{} can't be run: {e}", hello.display()));
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines, deadline: Instant::now() + PATIENCE }
    }

    /// The next line of its output. `None` once it has ended.
    fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the example hangs; its threads:\n{}", self.threads()),
        }
    }

    /// The kernel's state of each of its threads: name, state, where it waits.
    fn threads(&self) -> String {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let told = |task: &Path, what| fs::read_to_string(task.join(what)).unwrap_or_default();
        tasks
            .map(|task| task.path())
            .map(|task| format!("{} wchan {}\n", told(&task, "stat").trim(), told(&task, "wchan")))
            .collect()
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
