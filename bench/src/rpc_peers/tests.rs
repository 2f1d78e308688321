//! A whole run, with shell scripts for peers.

use super::*;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A peer. Its server writes its number down and waits for the end of its input. Its client answers
/// loads at once, each call after `$NS` nanoseconds. Those that last a second or longer it answers
/// by an error once the server is dead, or never.
const SCRIPT: &str = r#"#!/bin/sh
NS=@NS@
case $1 in
variants)
    echo '{"peer":"@NAME@","version":"1","variants":[{"name":"w","about":"waits","callers":1,"idles":true}]}' ;;
server)
    echo $$ > "$3/pid"
    echo ready
    read -r end ;;
client)
    read -r server < "$3/pid"
    echo '{"connect_ns":5000}'
    while read -r order bytes callers time rate; do
        case $order in
        connections) echo "{\"connections\":$bytes}" ;;
        load)
            if [ "$time" -lt 500 ]; then
                echo "{\"made\":12,\"cpu_ns\":6000,\"span_ns\":$((NS * 10)),\"latencies\":[[$NS,10]]}"
            else
                while read -r line < "/proc/$server/stat"; do
                    case $line in *") Z "*) break ;; esac
                    sleep 0.01
                done
                echo '{"error":"the server is dead"}'
            fi ;;
        esac
    done ;;
esac
"#;

/// Makes a directory with a peer for each name. A call of that peer takes the time beside its
/// name.
fn scripts(test: &str, peers: &[(&str, u32)]) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("underpass-{test}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    for (name, ns) in peers {
        let script = SCRIPT.replace("@NS@", &ns.to_string()).replace("@NAME@", name);
        let path = directory.join(format!("underpass-rpc-peer-{name}"));
        // Another process writes the file. A file that this process, or a child of another test,
        // has open for writing cannot be executed.
        let wrote = Command::new("sh")
            .args(["-c", "printf '%s' \"$1\" > \"$0\" && chmod 700 \"$0\""])
            .args([path.as_os_str(), script.as_ref()])
            .status();
        assert!(wrote.unwrap().success());
    }
    directory
}

/// Keeps what it is told.
#[derive(Default)]
struct Notes(Vec<String>);

impl RunObserver for Notes {
    fn row(&mut self, _: &Row) {}

    fn progress(&mut self, _: &str, share: f64) {
        assert!((0.0..=1.0).contains(&share));
    }

    fn note(&mut self, text: &str) {
        self.0.push(text.into());
    }
}

fn options(peers: &Path, only: &[&str]) -> PeersOptions {
    PeersOptions {
        only: only.iter().map(|&name| name.into()).collect(),
        pace: PeersPace::Quick,
        scope: PeersScope::Whole,
        peers: Some(peers.into()),
    }
}

#[test]
fn each_peer_has_its_rows_and_a_line_in_the_table() {
    let directory = scripts("rpc-peers", &[("underpass", 200), ("other", 700)]);
    let mut notes = Notes::default();
    let report = peers(&options(&directory, &[]), &mut notes).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    let figures = |case: &str| {
        let row = report.rows.iter().find(|row| row.case == case);
        row.unwrap_or_else(|| panic!("no {case} in {:?}", report.rows)).result.clone()
    };
    let null = figures("together/null/other").unwrap();
    assert_eq!((null.ns, null.ratio, null.limit.as_str()), (700.0, 3.5, "underpass"));
    assert_eq!((&null.more["p999_ns"], &null.more["calls_per_s"]), (&700.0.into(), &1_428_571.into()));
    let many = report.rows.iter().filter(|row| row.case == "together/null/other").nth(1).unwrap();
    assert!(many.result.as_ref().unwrap_err().contains("a CPU of its own"), "{many:?}");
    for peer in ["underpass", "other"] {
        let killed = figures(&format!("killed/{peer}")).unwrap();
        assert_eq!(killed.more["outcome"], "error");
        assert_eq!(killed.more["error"], "the server is dead");
        assert_eq!(figures(&format!("stopped/{peer}")).unwrap().more["outcome"], "waits");
    }
    let method: Value = serde_json::from_str(&report.method).unwrap();
    assert_eq!((&method["case"], &method["peers"][0]["name"]), (&"method".into(), &"underpass".into()));
    let lines = report
        .side_by_side
        .lines()
        .filter(|line| line.starts_with("underpass ") || line.starts_with("other "));
    assert_eq!(lines.count(), 2, "{}", report.side_by_side);
    let only_cpus = notes.0.iter().all(|note| note.contains("needs two CPUs"));
    assert!(only_cpus, "{:?}", notes.0);
}

#[test]
fn a_peer_that_fails_is_told_and_the_others_are_measured() {
    let directory = scripts("rpc-peer-fails", &[("underpass", 200), ("other", 700)]);
    let broken = directory.join("underpass-rpc-peer-other");
    let script = fs::read_to_string(&broken).unwrap().replace("echo ready", "echo no memory >&2; exit 1");
    let mut writer = Command::new("sh");
    writer.args(["-c", "printf '%s' \"$1\" > \"$0\""]).args([broken.as_os_str(), script.as_ref()]);
    assert!(writer.status().unwrap().success());
    let mut notes = Notes::default();
    let report = peers(&options(&directory, &["other"]), &mut notes).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    let told = notes.0.iter().filter(|note| note.starts_with("other: ")).collect::<Vec<_>>();
    assert!(matches!(told[..], [told] if told.contains("no memory")), "{:?}", notes.0);
    let result = |case: &str| &report.rows.iter().find(|row| row.case == case).unwrap().result;
    assert!(result("together/null/underpass").is_ok());
    assert!(result("together/null/other").is_err());
    assert!(result("connect/other").as_ref().unwrap_err().contains("no memory"));
}
