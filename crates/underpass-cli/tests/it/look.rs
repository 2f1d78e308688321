//! `underpass ls`, `describe`, `top` and `revoke`, as a user or a script runs them.

use crate::command::{DemoServer, demo_with, error, json, run_with, said, underpass};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use underpass::{CallError, Peer, Server};

/// Keeps counts.
#[underpass::interface]
trait Counter {
    /// Adds `more`, and returns the sum.
    fn add(&self, more: u64) -> Result<u64, CallError>;
    /// Waits until the test ends it.
    fn wait(&self) -> Result<(), CallError>;
}

/// The sum, and whether calls that wait are to end.
struct Sum(std::sync::Mutex<u64>, Arc<AtomicBool>);

impl Counter for Sum {
    fn add(&self, more: u64) -> Result<u64, CallError> {
        let mut sum = self.0.lock().unwrap();
        *sum += more;
        Ok(*sum)
    }

    fn wait(&self) -> Result<(), CallError> {
        while !self.1.load(Ordering::Relaxed) {
            underpass::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn counter() -> underpass::Service {
    counter_until(&Arc::default())
}

/// Its calls that wait end when `ends` says so.
fn counter_until(ends: &Arc<AtomicBool>) -> underpass::Service {
    Counter::serve(Sum(std::sync::Mutex::new(0), ends.clone()))
}

/// A directory of names, with a file to serve.
fn home() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let (names, text) = (home.path().join("names"), home.path().join("text"));
    fs::write(&text, "a text\n").unwrap();
    (home, names, text)
}

/// The line about `name`.
fn of<'a>(lines: &'a [Value], name: &str) -> &'a Value {
    lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("no {name} in {lines:?}"))
}

#[test]
fn ls_says_who_serves_and_who_does_not() {
    let (_home, names, text) = home();
    assert_eq!(said(&names, &["ls", "--json"]), "", "there is not even a directory");
    let demo = DemoServer::start(&names, &text);
    let denies = counter().authorize(|_: &Peer| false);
    let _running = Server::new()
        .directory(&names)
        .mode(0o666)
        .export("counter", counter())
        .export("denies", denies)
        .start()
        .unwrap();
    let _hidden =
        Server::new().directory(&names).inspectable(false).export("hidden", counter()).start().unwrap();
    // A socket that a killed process has left.
    drop(std::os::unix::net::UnixListener::bind(names.join("dead")).unwrap());
    fs::write(names.join("no socket"), "").unwrap();

    let lines = json(&names, &["ls", "--json", "--over", "50ms"]);
    let shown: Vec<_> = lines.iter().map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!(shown, ["counter", "dead", "demo.files", "demo.windows", "denies", "hidden"]);
    let files = of(&lines, "demo.files");
    assert_eq!(files["pid"], demo.pid());
    assert_eq!(files["interfaces"][0]["name"], "FileCache");
    assert_eq!(files["interfaces"][0]["methods"], 5);
    assert_eq!((&files["mode"], &files["revocable"]), (&"0600".into(), &true.into()));
    assert_eq!(files["bindings"], Value::Array(Vec::new()), "the tool's own are not shown");
    assert_eq!(files["calls_a_second"], 0.0);
    assert_eq!(of(&lines, "counter")["mode"], "0666");
    assert_eq!(of(&lines, "dead")["error"], "its server is dead");
    assert_eq!(of(&lines, "hidden")["error"], "it shows nothing of itself");
    let refused = of(&lines, "denies")["error"].as_str().unwrap();
    assert!(refused.starts_with("its server refuses"), "{refused}");

    let some = run_with(underpass(&names, &["ls", "--over", "0", "demo.windows", "dead"]), "");
    assert_eq!(some.status.code(), Some(1), "one that was asked for does not tell");
    let table = String::from_utf8(some.stdout).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..4], ["name", "interface", "pid", "user"]);
    assert_eq!(rows[1][..2], ["demo.windows", "WindowManager"]);
    assert!(table.contains("its server is dead"), "{table}");
    assert!(!table.contains('\x1b'), "colours are for terminals");
}

#[test]
fn describe_shows_the_trait_that_one_would_write() {
    let (_home, names, text) = home();
    let _demo = DemoServer::start(&names, &text);
    let shown = said(&names, &["describe", "demo.files"]);
    for part in [
        "/// The file cache manager (FCM).",
        "#[underpass::interface]\npub trait FileCache {",
        "    /// Returns the size of the file.\n    fn stat(&self, file: FileId) -> Result<Stat, FsError>;",
        "    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FsError>;",
        "#[derive(underpass::Wire)]\npub struct FileId {\n    /// The life of the manager that gave the id.\n    pub life: u32,",
        "    /// It manages no file of this name.\n    NoFile(String),",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    let told = &json(&names, &["describe", "demo.windows", "--json"])[0]["interfaces"][0];
    assert_eq!(told["name"], "WindowManager");
    assert_eq!(told["methods"][2]["doc"], "Composes the rows that have changed.");
    assert_eq!(told["methods"][1]["arguments"][1], serde_json::json!({ "name": "row", "type": "u16" }));
    assert_eq!(told["versions"][0]["hash"], told["hash"]);
    let of_type = told["types"].as_array().unwrap().iter().find(|of| of["name"] == "Frame").unwrap();
    assert_eq!(of_type["docs"][""], "One picture of the screen.");

    let missing = error(&names, &["describe", "nobody"]);
    assert!(missing.contains("no server exports"), "{missing}");
}

#[test]
fn top_shows_a_process_under_load() {
    let (_home, names, text) = home();
    let demo = DemoServer::start(&names, &text);
    let ends = Arc::new(AtomicBool::new(false));
    let stop = ends.clone();
    // The caller is a process of its own as well: the command, again and again.
    let to = names.clone();
    let caller = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            said(&to, &["call", "demo.windows", "compose"]);
        }
    });
    // The caller may get no processor for a while.
    let shown = loop {
        let lines = json(&names, &["top", "--once", "--json", "--interval", "300ms"]);
        let line = lines.into_iter().find(|line| line["pid"] == demo.pid()).unwrap();
        if line["totals"]["served"].as_u64().unwrap() > 20 {
            break line;
        }
    };
    ends.store(true, Ordering::Relaxed);
    caller.join().unwrap();
    assert!(shown["served_a_second"].as_f64().unwrap() > 0.0, "{shown}");
    assert!(shown["memory"].as_u64().unwrap() > 1 << 20, "{shown}");
    assert!(shown["kernel_threads"].as_u64().unwrap() > 1, "{shown}");
    assert_eq!(shown["names"][0]["name"], "demo.files");
    assert_eq!(shown["node"], Value::Null, "no activation server runs here");
    let table = said(&names, &["top", "--once", "--interval", "20ms"]);
    assert!(table.contains("demo.files demo.windows"), "{table}");
}

#[test]
fn an_editor_keeps_the_demo_busy_and_ends_with_it() {
    let (_home, names, text) = home();
    let demo = DemoServer::start(&names, &text);
    let to = names.clone();
    let editor = std::thread::spawn(move || run_with(demo_with(&to, &["--edit"]), ""));
    // What `top` itself asks is a few calls for each picture.
    until(|| {
        let lines = json(&names, &["top", "--once", "--json", "--interval", "20ms"]);
        let line = lines.into_iter().find(|line| line["pid"] == demo.pid())?;
        (line["totals"]["served"].as_u64()? > 10_000).then_some(())
    });
    drop(demo);
    let ended = editor.join().unwrap();
    let why = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{why}");
    assert!(why.starts_with("underpass-demo: ") && why.contains("ended"), "{why}");
}

#[test]
fn top_shows_what_a_running_activation_server_says() {
    let (_home, names, text) = home();
    let node = NodeServer::start(&names);
    let demo = DemoServer::start(&names, &text);
    let of = |lines: Vec<Value>| lines.into_iter().find(|line| line["pid"] == demo.pid());
    let top = || json(&names, &["top", "--once", "--json", "--interval", "20ms"]);
    // The domain finds the server by itself, and gets a processor for what it does.
    let shown = until(|| of(top()).filter(|line| line["node"]["owned"] == 1));
    let status = json(&names, &["node", "status", "--json"]).remove(0);
    let told = of(status["domains"].as_array().unwrap().clone()).unwrap();
    for (shown_as, told_as) in [("owned", "processors"), ("lent", "temporary")] {
        assert_eq!(shown["node"][shown_as], told[told_as], "{shown_as}");
    }
    for column in ["wanted", "running", "parked", "queueing_delay_us"] {
        assert!(shown["node"][column].is_u64() && told[column].is_u64(), "{column}: {shown}, {told}");
    }
    let table = said(&names, &["top", "--once", "--interval", "20ms"]);
    let heads = table.lines().next().unwrap();
    for head in ["owned", "lent", "wanted", "running", "parked", "delay us"] {
        assert!(heads.contains(head), "{head}: {table}");
    }
    // Without the server nobody says it.
    drop(node);
    until(|| of(top()).filter(|line| line["node"].is_null()));
}

/// `underpass node`, until it is dropped.
struct NodeServer(Child);

impl NodeServer {
    /// Starts it with one processor, and waits until it takes orders.
    fn start(names: &Path) -> Self {
        let mut command = underpass(names, &["node", "--processors", "1"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("divides 1 processors"), "{line}");
        Self(child)
    }
}

impl Drop for NodeServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Checks again and again until `found` returns something.
fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "it does not come");
    }
}

#[test]
fn measured_methods_are_shown_with_their_quantiles() {
    let (_home, names, _text) = home();
    let server = Server::new().directory(&names).export("counter", counter().measured(true));
    let _running = server.export("other", counter()).start().unwrap();
    for _ in 0..5 {
        said(&names, &["call", "counter", "add", "1"]);
    }
    said(&names, &["call", "other", "add", "1"]);

    let lines = json(&names, &["ls", "--json", "--over", "0s"]);
    assert_eq!(of(&lines, "other")["methods"], Value::Array(Vec::new()));
    let method = &of(&lines, "counter")["methods"][0];
    assert_eq!((&method["method"], &method["side"]), (&"add".into(), &"export".into()), "{method}");
    assert_eq!(
        (&method["calls"], &method["bytes_in"], &method["bytes_out"]),
        (&5.into(), &40.into(), &45.into())
    );
    let times = &method["latency_ns"];
    assert!(times["timed"].as_u64() >= Some(1) && times["p99"].as_u64() > Some(0), "{times}");

    let stop = Arc::new(AtomicBool::new(false));
    let (stops, to) = (stop.clone(), names.clone());
    let caller = std::thread::spawn(move || {
        while !stops.load(Ordering::Relaxed) {
            said(&to, &["call", "counter", "add", "1"]);
        }
    });
    // The caller may get no processor for a while.
    let table = loop {
        let table = said(&names, &["top", "--once", "--interval", "300ms"]);
        if table.contains("counter.add") {
            break table;
        }
    };
    stop.store(true, Ordering::Relaxed);
    caller.join().unwrap();
    assert!(table.contains("p99 us") && table.contains("export"), "{table}");
    assert!(!table.contains("other.add"), "{table}");
}

#[test]
fn trace_shows_the_calls_of_others() {
    let (home, names, text) = home();
    let demo = DemoServer::start(&names, &text);
    let (svg, perfetto) = (home.path().join("calls.svg"), home.path().join("calls.json"));
    let mut tracer = underpass(&names, &["trace", "demo.files", "--json", "--calls", "3"]);
    tracer.arg("--svg").arg(&svg).arg("--perfetto").arg(&perfetto);
    let traced = std::thread::spawn(move || run_with(tracer, ""));
    // Calls that come before the tracer asks are not recorded, so there are more than it wants.
    while !traced.is_finished() {
        said(&names, &["call", "demo.files", "open", "text"]);
    }
    let traced = traced.join().unwrap();
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    let lines = String::from_utf8(traced.stdout).unwrap();
    let calls: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(calls.len(), 3);
    for call in &calls {
        assert_eq!((&call["method"], &call["server"]), (&"open".into(), &demo.pid().into()));
        assert_eq!((&call["bytes"], &call["fine"]), (&5.into(), &true.into()), "a length, and \"text\"");
    }
    let drawn = fs::read_to_string(svg).unwrap();
    let document = roxmltree::Document::parse(&drawn).unwrap();
    assert_eq!(document.descendants().filter(|node| node.has_tag_name("title")).count(), 3);
    let events: Value = serde_json::from_str(&fs::read_to_string(perfetto).unwrap()).unwrap();
    assert!(events["traceEvents"].as_array().unwrap().len() > 3, "{events}");

    let refused = error(&names, &["trace", "demo.windows", "--for", "1ms"]);
    assert!(refused.contains("Service::traceable"), "{refused}");
    let pid = demo.pid().to_string();
    said(&names, &["trace", &pid, "--for", "1ms"]);
}

#[test]
fn revoke_ends_bindings_of_an_export_that_allows_it() {
    let (_home, names, _) = home();
    let ends = Arc::new(AtomicBool::new(false));
    let running = Server::new()
        .directory(&names)
        .export("allows", counter_until(&ends).revocable())
        .export("forbids", counter_until(&ends))
        .start()
        .unwrap();
    // Clients in other processes: each has a binding as long as its call lasts.
    let clients = ["allows", "forbids"].map(|name| {
        let mut command = underpass(&names, &["call", name, "wait"]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    });
    let binding_of = |pid: u32| {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            // The client asks first what there is to call, over a binding of its own.
            let told = json(&names, &["ls", "--json", "--over", "0"]);
            let bindings = told.iter().flat_map(|name| name["bindings"].as_array().unwrap());
            if let Some(found) = bindings.into_iter().find(|binding| binding["pid"] == pid) {
                return found["id"].as_u64().unwrap().to_string();
            }
            assert!(Instant::now() < deadline, "the client has no binding");
        }
    };
    let [allows, forbids] = [0, 1].map(|client| binding_of(clients[client].id()));
    let refused = error(&names, &["revoke", "forbids", "--binding", &forbids]);
    assert!(refused.contains("Service::revocable"), "{refused}");
    let refused = error(&names, &["revoke", "allows", "--binding", &forbids]);
    assert!(refused.contains("allows has no such binding"), "a name revokes its own: {refused}");
    let usage = run_with(underpass(&names, &["revoke", "allows"]), "");
    assert_eq!(usage.status.code(), Some(2), "which ones has to be said");
    let revoked = said(&names, &["revoke", "allows", "--binding", &allows]);
    assert_eq!(revoked, "revoked 1 bindings of allows\n");
    let [freed, mut waits] = clients;
    let freed = freed.wait_with_output().unwrap();
    let why = String::from_utf8(freed.stderr).unwrap();
    assert!(why.contains("revoked"), "{why}");
    assert!(waits.try_wait().unwrap().is_none(), "the other one keeps its binding");
    waits.kill().unwrap();
    waits.wait().unwrap();
    assert_eq!(said(&names, &["revoke", "allows", "--all"]), "revoked 0 bindings of allows\n");
    let told = json(&names, &["revoke", "allows", "--all", "--json"]);
    assert_eq!(told, [serde_json::json!({ "name": "allows", "revoked": 0 })]);
    ends.store(true, Ordering::Relaxed);
    drop(running);
}

#[test]
fn completions_and_pages_name_the_commands() {
    let (home, names, _) = home();
    for shell in ["bash", "zsh", "fish"] {
        let script = said(&names, &["completions", shell]);
        assert!(script.contains("describe") && script.contains("deadline"), "{shell}");
    }
    let pages = home.path().join("man");
    said(&names, &["man", pages.to_str().unwrap()]);
    let page = fs::read_to_string(pages.join("underpass-call.1")).unwrap();
    assert!(page.contains("underpass\\-call") && page.contains("deadline"), "{page}");
    assert!(pages.join("underpass-node-status.1").exists());
    assert!(!pages.join("underpass-doctor-namespaces.1").exists(), "it is no command of users");
}
