//! The command `underpass`, run by a test.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use underpass_demo::DemoOptions;

/// After this time a command counts as hung.
const LIMIT: Duration = Duration::from_secs(120);

/// The command, with names in this directory.
pub fn underpass(names: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_underpass"));
    command.args(arguments).env("UNDERPASS_DIR", names);
    command
}

/// Runs a command to its end, with this standard input. One that hangs is killed, and the test
/// fails.
pub fn run_with(mut command: Command, input: &str) -> Output {
    let shown = format!("{command:?}");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let mut into = child.stdin.take().unwrap();
    let input = input.to_owned();
    let read = |from: &mut dyn Read| {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    };
    std::thread::spawn(move || {
        // A command that does not read its input may have ended.
        let _ = into.write_all(input.as_bytes());
    });
    let (out, err) = (std::thread::spawn(move || read(&mut out)), std::thread::spawn(move || read(&mut err)));
    let status = wait(&mut child, &shown);
    Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

/// Waits for the end of a command. One that hangs is killed, and the test fails.
pub fn wait(child: &mut Child, shown: &str) -> std::process::ExitStatus {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it hangs: {shown}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the command prints, if it succeeds.
pub fn said(names: &Path, arguments: &[&str]) -> String {
    let output = run_with(underpass(names, arguments), "");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What the command prints, as JSON lines.
pub fn json(names: &Path, arguments: &[&str]) -> Vec<Value> {
    said(names, arguments).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The error of a command that fails.
pub fn error(names: &Path, arguments: &[&str]) -> String {
    let output = run_with(underpass(names, arguments), "");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    said
}

/// The environment variable with the arguments, one a line, of a demo that this executable is to
/// be.
const DEMO: &str = "UNDERPASS_TEST_DEMO";

/// `underpass-demo` with these arguments and names in this directory: this executable again.
pub fn demo_with(names: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "command::is_the_demo_for_another_test", "--nocapture"]);
    command.env("UNDERPASS_DIR", names).env(DEMO, arguments.join("\n"));
    command
}

/// The demo, if another test has started this process for that.
#[test]
fn is_the_demo_for_another_test() {
    let Ok(arguments) = std::env::var(DEMO) else { return };
    let options = DemoOptions::read(arguments.lines().map(Into::into)).unwrap();
    if let Err(error) = underpass_demo::run(&options) {
        eprintln!("underpass-demo: {error:#}");
        std::process::exit(1);
    }
}

/// `underpass-demo --serve`, until it is dropped.
pub struct DemoServer(Child);

impl DemoServer {
    /// Starts it, and waits until it serves.
    pub fn start(names: &Path, text: &Path) -> Self {
        let mut command = demo_with(names, &["--serve", text.to_str().unwrap()]);
        let mut child = command.env("TMPDIR", text.parent().unwrap()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("serves demo.files")), "the demo does not serve");
        Self(child)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
