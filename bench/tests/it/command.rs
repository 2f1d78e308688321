//! `underpass-bench`, as a user or a script runs it. No test asserts a time.

use serde_json::Value;
use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Far longer than a quick run takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs `underpass-bench` on `cpus`, or on all CPUs.
fn bench(cpus: Option<usize>, arguments: &[&str]) -> Output {
    if let Some(cpus) = cpus {
        let allowed = underpass_os::cpu::allowed().unwrap();
        // This confines the test's own kernel thread, and so the child.
        underpass_os::cpu::confine(&allowed[..cpus]).unwrap();
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_underpass-bench"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The pipes are read while it runs: it would wait for ever for room in a full one.
    let stdout = read_all(child.stdout.take().unwrap());
    let stderr = read_all(child.stderr.take().unwrap());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            let said =
                [stdout, stderr].map(|said| String::from_utf8_lossy(&said.join().unwrap()).into_owned());
            panic!("`underpass-bench {}` hangs: {said:?}", arguments.join(" "));
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// Reads a pipe to its end, beside the caller.
fn read_all(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        pipe.read_to_end(&mut all).unwrap();
        all
    })
}

fn rows(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{output:?}");
    let text = str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn two_cpus() -> bool {
    underpass_os::cpu::allowed().unwrap().len() > 1
}

#[test]
fn every_limit_has_its_row() {
    let rows = rows(&bench(None, &["limits", "--quick", "--json"]));
    let cases: Vec<_> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
    for case in ["two-line", "one-line", "call", "syscall", "futex-same-cpu", "futex-cross-cpu"] {
        assert!(cases.contains(&case), "{case} is not among {cases:?}");
    }
    for row in rows {
        assert_eq!(row["bench"], "limits");
        let measured = ["ns", "p99_ns", "limit_ns", "ratio"].map(|name| row[name].as_f64());
        let skipped = row["skipped"].is_string() && measured.iter().all(Option::is_none);
        let plausible = measured.iter().all(|figure| figure.is_some_and(|figure| figure > 0.0));
        assert!(plausible || (skipped && !two_cpus()), "{row}");
    }
}

/// The cases of a quick run of `urpc` that need two CPUs, and those that do not.
const APART: [&str; 15] = [
    "null/pinned",
    "null/floating",
    "null/donated/floating",
    "null/kernel-thread/pinned",
    "throughput",
    "table2/both-sides",
    "table2/lines",
    "table2/null",
    "scale",
    "fair",
    "connection/100",
    "connection/import",
    "exclusive/pinned",
    "exclusive/floating",
    "value",
];
const ANYWHERE: [&str; 19] = [
    "connection/three",
    "null/donated/pinned",
    "null/one-cpu",
    "null/idle",
    "null/kernel-thread/donated",
    "table2/client/send",
    "table2/client/poll",
    "table2/client/receive",
    "table2/client/dispatch",
    "table2/client/total",
    "table2/server/send",
    "table2/server/poll",
    "table2/server/receive",
    "table2/server/dispatch",
    "table2/server/total",
    "idle/server",
    "idle/client",
    "trickle/client",
    "trickle/server",
];

/// Whether a row says if the paper's claim holds.
fn has_verdict(row: &Value) -> bool {
    let told = ["paper_claims", "because"].iter().all(|name| row[*name].is_string());
    told && (row["holds_today"] == "yes" || row["holds_today"] == "no")
}

/// Whether a case needs as many CPUs as its name says.
fn on_many(case: &str) -> bool {
    ["figures/", "throughput/", "B/"].iter().any(|of| case.starts_with(of))
}

/// Checks one row of `urpc`.
fn check_urpc(row: &Value) {
    assert_eq!(row["bench"], "urpc");
    let case = row["case"].as_str().unwrap();
    assert!(APART.contains(&case) || ANYWHERE.contains(&case) || on_many(case), "{row}");
    let measured = ["ns", "p99_ns", "limit_ns", "ratio"].map(|name| row[name].as_f64());
    // A component may be too short to be measured.
    let component = case.starts_with("table2/client/") || case.starts_with("table2/server/");
    let least = if component { 0.0 } else { f64::MIN_POSITIVE };
    assert!(measured.iter().all(|figure| figure.is_some_and(|figure| figure >= least)), "{row}");
    if component {
        assert!(row["paper_ns"].as_f64().is_some() && row["instructions_missing"].is_string(), "{row}");
    }
    if case == "table2/null" {
        assert!(row["explained"].as_f64().is_some() && row["calls_counted"].as_u64() > Some(0), "{row}");
    }
    if case.starts_with("table2/") {
        return;
    }
    let calls = !["idle/", "trickle/", "connection/import", "value"].iter().any(|of| case.starts_with(of));
    if calls {
        let numbers = ["T", "C", "S", "calls_per_s", "calls_counted", "server_served", "client_calls"];
        assert!(numbers.iter().all(|number| row[number].as_u64().is_some()), "{row}");
        assert!(row["kernel_entries_per_call"].as_f64().is_some(), "{row}");
        assert!(row["client_calls"].as_u64() >= row["calls_counted"].as_u64(), "{row}");
    }
    if case == "scale" {
        let active = ["client_active", "server_active"].map(|side| row[side].as_u64().unwrap());
        assert!(row["bindings"] == 1_000 && active.iter().all(|active| (1..=10).contains(active)), "{row}");
    }
    if case.starts_with("figures/") {
        assert!(row["latency_ns"].as_f64().is_some_and(|ns| ns > 0.0), "{row}");
        assert_eq!(case, format!("figures/C{}S{}", row["C"], row["S"]), "{row}");
    } else if case.starts_with("B/") {
        let beside = ["raw_speedup", "speedup_to_alone", "mean_calls_per_s", "slowest_calls_per_s"];
        assert!(beside.iter().all(|name| row[*name].as_f64() > Some(0.0)), "{row}");
    } else if !case.starts_with("throughput") || (case == "throughput" && row["T"] == 16) {
        let bars =
            ["bar", "bar_seconds"].map(|bar| row[bar].is_number() && row[format!("{bar}_is")].is_string());
        assert!(bars.contains(&true), "{row}");
    }
}

#[test]
fn calls_are_measured_beside_their_limits() {
    let rows = rows(&bench(None, &["urpc", "--quick", "--json"]));
    let cases: Vec<_> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
    for case in APART.iter().chain(&ANYWHERE) {
        assert!(cases.contains(case), "{case} is not among {cases:?}");
    }
    let skipped = |row: &Value| row["skipped"].is_string();
    let few = |row: &Value| row["case"].as_str().is_some_and(on_many) || !two_cpus();
    assert!(rows.iter().all(|row| !skipped(row) || few(row)), "{rows:?}");
    for row in rows.iter().filter(|row| !row["skipped"].is_string()) {
        check_urpc(row);
    }
    let lines: Vec<_> = rows.iter().filter(|row| row["case"] == "figures/C1S0").collect();
    assert_eq!(lines.iter().map(|row| row["T"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!(lines[0]["paper_latency_ns"], 375e3);
    assert!(has_verdict(lines[2]) && lines[0].get("holds_today").is_none(), "{lines:?}");
    if two_cpus() {
        let last = rows.iter().rfind(|row| row["case"] == "figures/C1S1").unwrap();
        assert!(has_verdict(last), "{last}");
    }
    let donated: Vec<_> = rows.iter().filter(|row| row["case"] == "null/donated/pinned").collect();
    assert_eq!(donated.iter().map(|row| row["T"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 16]);
    assert!(donated.iter().all(|row| row["S"] == 0 && row["client_donations_given"].as_u64().unwrap() > 0));
    assert!(
        donated[0]["kernel_entries_per_call"].as_f64().unwrap() > 1.0,
        "somebody has to give the CPU away"
    );
    let late = rows.iter().find(|row| row["case"] == "null/idle").unwrap();
    assert!(late["limit"].as_str().unwrap().starts_with("futex-") && late["futex-same-cpu_ns"].is_number());
}

#[test]
fn lrpcs_calls_are_measured_beside_their_limits() {
    let rows = rows(&bench(None, &["lrpc", "--quick", "--json"]));
    let calls = ["null", "add", "big-in", "big-in-out"].map(|call| format!("{call}/one-cpu"));
    let parts = ["procedure-call", "traps", "switches", "both-sides", "rest", "total"]
        .map(|part| format!("table5/{part}"));
    let others = ["import".to_owned(), "fig2/1".to_owned()];
    for case in calls.iter().chain(&parts).chain(&others) {
        let row = rows.iter().find(|row| row["case"] == case.as_str());
        let row = row.unwrap_or_else(|| panic!("{case} is not among {rows:?}"));
        // Some parts of Table V may be too short to be measured. None is negative.
        let least = if case.starts_with("table5/") { 0.0 } else { f64::MIN_POSITIVE };
        assert!(row["ns"].as_f64().is_some_and(|ns| ns >= least), "{row}");
    }
    for row in rows.iter().filter(|row| !row["skipped"].is_string()) {
        let case = row["case"].as_str().unwrap();
        if case.ends_with("/pinned") || case.ends_with("/one-cpu") {
            let beside = ["minimum_ns", "socket_ns", "of_null", "kernel_entries_per_call"];
            assert!(beside.iter().all(|name| row[name].is_number()), "{row}");
        }
        if case.starts_with("add/") || case.starts_with("big-in-out/") || case == "in-1m" {
            assert!(row["bar"].is_number() && row["bar_is"].is_string(), "{row}");
        }
    }
    let few = |row: &Value| row["case"].as_str().is_some_and(|case| case.starts_with("fig2/")) || !two_cpus();
    assert!(rows.iter().all(|row| !row["skipped"].is_string() || few(row)), "{rows:?}");
}

#[test]
fn instructions_are_counted_or_it_is_said_why_not() {
    // A child that passes messages, and a child that runs threads.
    for case in ["table2/server/receive", "table2/client/dispatch"] {
        let rows = rows(&bench(None, &["urpc", "--quick", "--json", "--case", case]));
        let [row] = &rows[..] else { panic!("one case was asked for, not {rows:?}") };
        let counted = row["instructions"].as_f64().is_some_and(|count| count > 10.0);
        let missing = row["instructions_missing"].as_str();
        assert!(counted || missing.is_some_and(|why| why.contains("is it installed?")), "{row}");
    }
}

#[test]
fn with_one_cpu_what_needs_two_is_skipped() {
    // On a kernel thread of its own, so that the confinement ends with that thread.
    let output = std::thread::spawn(|| bench(Some(1), &["urpc", "--quick", "--json"])).join().unwrap();
    for row in rows(&output) {
        let skipped = row["skipped"].as_str().is_some_and(|why| why.contains("CPU"));
        let case = row["case"].as_str().unwrap();
        // The paper's S = 0.
        let runs = ANYWHERE.contains(&case) || case == "figures/C1S0";
        assert!(skipped != runs, "{row}");
        if !skipped {
            check_urpc(&row);
        }
    }
}

#[test]
fn the_default_output_is_a_table_with_the_machine() {
    let output = bench(None, &["urpc", "--quick", "--case", "null/one-cpu"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().next().is_some_and(|heading| heading.contains("Linux")), "{text}");
    for word in ["ratio", "null/one-cpu", "futex-same-cpu", "kernel entries per call"] {
        assert!(text.contains(word), "{text}");
    }
    assert!(!text.contains("null/pinned") && !text.contains("wakeups"), "{text}");
}

#[test]
fn an_unknown_benchmark_is_answered_with_the_known_ones() {
    for arguments in [&["nul"][..], &["urpc", "--case", "nul"]] {
        let output = bench(None, arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains("`nul`") && text.contains("there are"), "{text}");
    }
    let list = bench(None, &["--list"]);
    assert!(String::from_utf8(list.stdout).unwrap().lines().any(|line| line.starts_with("urpc ")));
}

#[test]
fn the_report_of_the_committed_results_has_their_figures_and_machines() {
    let directory = tempfile::tempdir().unwrap();
    let [from, out] = [concat!(env!("CARGO_MANIFEST_DIR"), "/results"), "report"];
    let out = directory.path().join(out);
    let output = bench(None, &["papers", "--from", from, "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    // The results are of several machines, and each of them has a folder.
    let overview = std::fs::read_to_string(out.join("index.html")).unwrap();
    assert!(overview.contains("each machine has a page of its own"), "{overview}");
    let folders = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<_> = folders.filter(|path| path.is_dir()).collect();
    assert!(folders.len() > 1, "{folders:?}");
    let with = |file: &str| folders.iter().find(|folder| folder.join(file).exists()).unwrap();
    let page = std::fs::read_to_string(with("urpc.fig3.json").join("index.html")).unwrap();
    for part in
        ["<figure>", "urpc.fig3.json", "processors · a reading", "claims of the papers", "recorded results"]
    {
        assert!(page.contains(part), "the page has no {part}");
    }
    assert!(!page.contains("frequency governor"), "it tells settings of this machine");
    let told = |folder: &std::path::PathBuf| -> Value {
        let text = std::fs::read_to_string(folder.join("lrpc.table4.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    };
    let points = |told: &Value| told["outcome"]["points"].as_array().map_or(0, Vec::len);
    let told = folders.iter().map(told).max_by_key(points).unwrap();
    assert!(told["cpu"].is_string() && points(&told) > 4, "{told}");
    let refused = bench(None, &["papers", "--from", from, "--quick"]);
    assert!(String::from_utf8(refused.stderr).unwrap().contains("--quick"), "it measures nothing");
}

/// A directory with a peer that needs 7 ns for a `yield` and 3 ns for a `lock`, and supports
/// nothing else.
fn pretended_peer() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("underpass-peer-pretended");
    let script = r#"#!/bin/sh
echo '{"peer":"pretended","version":"1","cases":["yield","lock"]}'
while read -r case count; do
    case $case in
    yield) echo $((count * 7)) ;;
    lock) echo $((count * 3)) ;;
    quit) exit ;;
    *) echo error ;;
    esac
done
"#;
    // Another process writes the file. A file that this process, or a child of another test, has
    // open for writing cannot be executed.
    let wrote = Command::new("sh")
        .args(["-c", "printf %s \"$1\" > \"$0\" && chmod 700 \"$0\""])
        .args([path.as_os_str(), script.as_ref()])
        .status();
    assert!(wrote.unwrap().success());
    directory
}

#[test]
fn threads_are_measured_beside_peers_and_kernel_threads() {
    let peers = pretended_peer();
    let directory = peers.path().to_str().unwrap();
    let rows = rows(&bench(None, &["threads", "--quick", "--json", "--peers", directory]));
    let cases: Vec<_> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
    let all = [
        "call",
        "fork",
        "fork-join",
        "yield",
        "lock",
        "ping-pong",
        "park",
        "blocking",
        "activation-start",
        "activation-wake",
        "activation-stop",
        "spawn-remote",
    ];
    assert_eq!(cases, all);
    for row in &rows {
        assert_eq!(row["bench"], "threads");
        let measured = ["ns", "limit_ns", "ratio"].map(|name| row[name].as_f64());
        let plausible = measured.iter().all(|figure| figure.is_some_and(|figure| figure > 0.0));
        let skipped = row["skipped"].is_string() && !two_cpus() && row["case"] == "spawn-remote";
        assert!(plausible || skipped, "{row}");
        let beside = ["yield", "lock"].contains(&row["case"].as_str().unwrap());
        assert_eq!(row["peer"] == "pretended" && row["peer_ns"].as_f64().is_some(), beside, "{row}");
    }
    let of = |case: &str| rows.iter().find(|row| row["case"] == case).unwrap();
    let lock = of("lock");
    assert!((2.9..3.1).contains(&lock["peer_ns"].as_f64().unwrap()), "it says so: {lock}");
    assert_eq!((&lock["bar"], lock["bar_is"].is_string()), (&1.0.into(), true), "{lock}");
    assert!(of("fork")["std_ns"].as_f64().unwrap() > 0.0 && of("fork")["limit"] == "std");
}

#[test]
fn the_papers_figures_have_a_row_for_each_number_of_threads() {
    for name in ["othreads-fig5", "othreads-fig6", "othreads-fig7"] {
        let rows = rows(&bench(None, &[name, "--quick", "--json"]));
        let cases: Vec<_> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
        assert_eq!(cases, ["1", "2", "8", "20"], "{name}");
        let verdicts: Vec<_> = rows.iter().map(has_verdict).collect();
        assert_eq!(verdicts, [false, false, false, true], "{rows:?}");
        for row in rows {
            let third = row["std_giving_way_elapsed_ns"].as_f64().is_some_and(|ns| ns > 0.0);
            assert_eq!(third, name == "othreads-fig5", "{row}");
            let measured = ["ns", "limit_ns", "ratio", "elapsed_ns", "std_elapsed_ns", "speedup"];
            assert!(measured.iter().all(|figure| row[figure].as_f64().is_some_and(|f| f > 0.0)), "{row}");
            assert_eq!((&row["bench"], &row["limit"]), (&name.into(), &"std".into()));
        }
    }
}

/// The processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parent_of = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in parentheses, may contain anything; state and parent follow.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    pids.filter(|pid| parent_of(pid) == Some(parent)).collect()
}

/// Whether there is a process `pid` that has not ended.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Checks that a quick run has a row for each case, with plausible figures.
fn has_rows(arguments: &[&str], cases: &[&str]) -> Vec<Value> {
    let rows = rows(&bench(None, arguments));
    for case in cases {
        assert!(rows.iter().any(|row| row["case"] == *case), "{case} is not among {rows:?}");
    }
    for row in &rows {
        let measured = ["ns", "limit_ns", "ratio"].map(|name| row[name].as_f64());
        let plausible = measured.iter().all(|figure| figure.is_some_and(|figure| figure > 0.0));
        assert!(plausible || row["skipped"].is_string(), "{row}");
    }
    rows
}

#[test]
fn locks_of_two_domains_are_measured_beside_calls_and_the_c_library() {
    let cases = ["uncontended", "local", "one-domain", "two-domains", "two-domains-one-cpu"];
    let rows = has_rows(&["othreads-table2", "--quick", "--json"], &cases);
    assert!(!two_cpus() || rows.iter().any(|row| row["kernel_thread_ratio"].is_number()));
}

#[test]
fn access_is_measured_beside_invocation() {
    let cases = ["table1/enqueue-dequeue", "table1/create-process"];
    let rows = has_rows(&["psyche", "--quick", "--json", "--case", "table1"], &cases);
    let columns = ["local_on_ns", "access_off_ns", "invoke_on_ns", "access_hybrid_ns"];
    let has_all = |row: &Value| columns.iter().all(|column| row[*column].is_number());
    assert!(!two_cpus() || rows.iter().all(has_all), "{rows:?}");
}

#[test]
fn the_children_die_with_the_command() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_underpass-bench"))
        .args(["limits"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut roles = Vec::new();
    wait_for("client and server to be started", || {
        roles = children(command.id());
        roles.len() == 2
    });
    command.kill().unwrap();
    command.wait().unwrap();
    wait_for("client and server to end", || roles.iter().all(|&role| !lives(role)));
}

#[test]
fn the_hidden_command_says_what_it_is_for() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_underpass-bench")).args(["bench-role", "x"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("underpass-bench"));
}

#[test]
fn results_of_two_builds_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, factor: f64| {
        let row = |case: &str, ratio: f64| {
            format!("{{\"bench\":\"urpc\",\"case\":\"{case}\",\"ratio\":{ratio}}}\n")
        };
        let run = |run: u32| {
            let drift = 1.0 + f64::from(run % 3);
            row("slower", drift * factor * (1.0 + f64::from(run) / 1e3)) + &row("same", drift)
        };
        let path = directory.path().join(name);
        std::fs::write(&path, (0..8).map(run).collect::<String>()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (first, second) = (file("a.json", 1.0), file("b.json", 1.2));
    let cases = rows(&bench(None, &["compare", &first, &second, "--json"]));
    let told: Vec<_> = cases.iter().map(|case| (&case["case"], &case["change"])).collect();
    assert_eq!(told, [(&"urpc slower".into(), &"slower".into()), (&"urpc same".into(), &"not-shown".into())]);
    let table = bench(None, &["compare", &first, &second]);
    let text = String::from_utf8(table.stdout).unwrap();
    assert!(text.contains("B is slower") && text.contains("no difference shown"), "{text}");
    let missing = bench(None, &["compare", &first, "/nowhere.json"]);
    let text = String::from_utf8(missing.stderr).unwrap();
    assert!(!missing.status.success() && text.contains("/nowhere.json"), "{text}");
}
