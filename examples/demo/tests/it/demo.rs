//! `underpass-demo` as its user sees it: three real processes, a kill, and nothing that stays
//! behind.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// After this time a demo counts as hung.
const LIMIT: Duration = Duration::from_secs(120);

/// The demo with a temporary directory of its own.
fn demo(temporary: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_underpass-demo"))
        .args(arguments)
        .env("TMPDIR", temporary)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the demo. A demo that hangs is killed, and the test fails.
fn finished(mut demo: Child) -> Output {
    let (pid, deadline) = (demo.id(), Instant::now() + LIMIT);
    let (mut out, mut err) = (demo.stdout.take().unwrap(), demo.stderr.take().unwrap());
    let read = |from: &mut dyn std::io::Read| {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let (out, err) = (thread::spawn(move || read(&mut out)), thread::spawn(move || read(&mut err)));
    let status = loop {
        if let Some(status) = demo.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            let states = children(pid).into_iter().map(|child| kernel_threads(&child)).collect::<String>();
            demo.kill().unwrap();
            panic!("the demo hangs; the kernel threads of its processes:\n{states}");
        }
        thread::sleep(Duration::from_millis(5));
    };
    Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

/// The processes that `pid` has started and that have not ended.
fn children(pid: u32) -> Vec<String> {
    let of = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name may contain anything, but only names contain parentheses. The state and the
        // parent follow the last one.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        (parent == pid.to_string()).then(|| entry.file_name().to_string_lossy().into_owned())
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
}

/// What each kernel thread of a process is doing, as the kernel reports it.
fn kernel_threads(pid: &str) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let told =
        |task: &Path, what: &str| fs::read_to_string(task.join(what)).unwrap_or_default().trim().to_owned();
    tasks
        .map(|task| task.path())
        .map(|task| format!("{} {} {}\n", task.display(), told(&task, "comm"), told(&task, "wchan")))
        .collect()
}

fn nothing_left(temporary: &Path) {
    let left: Vec<_> = fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn json_output_is_complete_and_the_file_is_unchanged() {
    let (here, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (file, svg) = (here.path().join("some text"), here.path().join("timeline.svg"));
    let text = "a sparrow sat; another sparrow came\n".repeat(3_000);
    fs::write(&file, &text).unwrap();
    let arguments = ["--quick", "--json", "--svg", svg.to_str().unwrap(), file.to_str().unwrap()];
    let output = finished(demo(temporary.path(), &arguments));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    nothing_left(temporary.path());

    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["text"]["change"]["find"], "sparrow");
    assert_eq!(outcome["text"]["places"], 6_000);
    let lines = outcome["interfaces"].as_array().unwrap();
    let named = |line: &serde_json::Value| (line["server"].to_string(), line["transport"].to_string());
    let named: Vec<_> = lines.iter().map(named).collect();
    let quoted = |server: &str, over: &str| (format!("{server:?}"), format!("{over:?}"));
    let expected =
        [("windows", "underpass"), ("windows", "sockets"), ("files", "underpass"), ("files", "sockets")];
    assert_eq!(named, expected.map(|(server, over)| quoted(server, over)));
    for line in lines {
        assert!(
            line["calls"].as_u64() > Some(100) && line["p99_ns"].as_u64() >= line["p50_ns"].as_u64(),
            "{line}"
        );
    }
    let calls = outcome["beginning"]["calls"].as_array().unwrap();
    assert!(calls.len() == 40 && calls.iter().all(|call| call["handler"].is_object()), "{calls:?}");
    let steps = outcome["disaster"]["steps"].to_string();
    for step in ["killed", "started", "lost", "again"] {
        assert!(steps.contains(step), "{step} is missing in {steps}");
    }
    let drawn = fs::read_to_string(&svg).unwrap();
    let drawing = roxmltree::Document::parse(&drawn).unwrap();
    assert!(drawing.descendants().filter(|node| node.has_tag_name("line")).count() > 50);
}

#[test]
fn the_default_output_is_a_timeline_and_a_table() {
    let temporary = tempfile::tempdir().unwrap();
    let output = finished(demo(temporary.path(), &["--quick"]));
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for expected in
        ["T1 open ─", "T2 open ─", "FILE CACHE MANAGER", "Unix sockets", "kill -9", "right, byte for byte"]
    {
        assert!(shown.contains(expected), "{expected:?} is missing in\n{shown}");
    }
    nothing_left(temporary.path());
}

#[test]
fn files_that_are_no_text_are_refused() {
    let (here, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(here.path().join("empty"), "").unwrap();
    let path = |name: &str| here.path().join(name).to_str().unwrap().to_owned();
    let cases =
        [(path("missing"), "can't read"), (path("empty"), "is empty"), (path(""), "isn't an ordinary file")];
    for (file, why) in cases {
        let output = finished(demo(temporary.path(), &["--json", &file]));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty() && said.contains(why), "{file}: {said}");
    }
    let output = finished(demo(temporary.path(), &["--svg", &path("missing/timeline.svg")]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("can't write the drawing"));
    nothing_left(temporary.path());
}

#[test]
fn a_demo_that_is_told_to_end_takes_its_children_and_files_along() {
    let temporary = tempfile::tempdir().unwrap();
    let demo = demo(temporary.path(), &[]);
    let (pid, deadline) = (demo.id(), Instant::now() + LIMIT);
    let children = loop {
        let children = children(pid);
        if children.len() == 3 {
            break children;
        }
        assert!(Instant::now() < deadline, "the demo starts no processes");
        thread::yield_now();
    };
    let told = Command::new("kill").args(["-TERM", &pid.to_string()]).status().unwrap();
    let output = finished(demo);
    assert!(told.success() && !output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "underpass-demo: interrupted\n");
    for child in children {
        assert!(!Path::new("/proc").join(&child).exists(), "process {child} is left");
    }
    nothing_left(temporary.path());
}
