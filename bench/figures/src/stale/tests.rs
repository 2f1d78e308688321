use super::history::{CommitHistory, Repository};
use super::ledger::InstructionLedger;
use super::rooms::{COUNTED, ROOMS};
use super::{StaleReason, StaleRule};
use crate::{SourceTree, SourceVersion, mark};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Commits in their order, as the letters `a` to `e`, and the file that changed after one.
struct Line {
    changed_after: HashMap<&'static str, &'static str>,
}

impl CommitHistory for Line {
    fn has(&self, commit: &str) -> bool {
        ("a"..="e").contains(&commit)
    }

    fn comes_after(&self, later: &str, earlier: &str) -> bool {
        self.has(later) && self.has(earlier) && later >= earlier
    }

    fn changed_since(&self, commit: &str, rooms: &[&str]) -> Option<String> {
        let mut changed =
            self.changed_after.iter().filter(|(after, _)| **after >= commit).map(|(_, file)| *file);
        let in_rooms = |file: &&str| rooms.iter().any(|room| file.starts_with(room));
        changed.find(in_rooms).map(str::to_owned)
    }
}

/// The ledger counts 1,000 instructions for a null call from `b` on, and `today` from `d` on.
fn rule(today: f64, changed_after: &[(&'static str, &'static str)]) -> StaleRule<Line> {
    let entry = |commit: &str, null: f64| {
        format!(r#"{{"commit":"{commit}","date":"2026-11-26","why":"w","instructions":{{"null":{null}}}}}"#)
    };
    let ledger = InstructionLedger::parsed(&format!("[{},{}]", entry("b", 1000.0), entry("d", today)));
    let history = Line { changed_after: changed_after.iter().copied().collect() };
    StaleRule { history, ledger: ledger.unwrap(), known: Default::default() }
}

fn clean(commit: &str) -> SourceVersion {
    SourceVersion::recorded(commit, "clean")
}

#[test]
fn a_counted_operation_may_differ_by_three_percent_and_no_more() {
    let reason = |today: f64| rule(today, &[]).reason(&clean("c"), "urpc", "null/pinned");
    for today in [1000.0, 1030.0, 970.0] {
        assert_eq!(reason(today), None, "{today}");
    }
    for today in [1030.1, 969.9, 2000.0] {
        assert_eq!(reason(today), Some(StaleReason::Instructions { then: 1000.0, today }));
    }
}

#[test]
fn a_count_holds_from_its_commit_to_the_next_entry() {
    let rule = rule(1100.0, &[]);
    let reason = |commit: &str| rule.reason(&clean(commit), "urpc", "null/pinned");
    assert!(reason("b").is_some() && reason("c").is_some());
    assert_eq!((reason("d"), reason("e")), (None, None));
    // Nothing was counted before `b`, so its sources count. They have not changed.
    assert_eq!(reason("a"), None);
}

#[test]
fn sources_count_only_where_instructions_do_not() {
    let file = "crates/underpass-rpc/src/lib.rs";
    let rule = rule(1000.0, &[("c", file)]);
    let stale = Some(StaleReason::SourceFile(file.into()));
    assert_eq!(rule.reason(&clean("c"), "urpc", "null/pinned"), None, "it takes as many instructions");
    assert_eq!(rule.reason(&clean("a"), "urpc", "null/pinned"), stale, "nothing was counted then");
    assert_eq!(rule.reason(&clean("c"), "urpc", "null/one-cpu"), stale);
    assert_eq!(rule.reason(&clean("d"), "urpc", "null/one-cpu"), None, "it was measured afterwards");
    assert_eq!(rule.reason(&clean("c"), "threads", "fork"), None, "that is no room of threads");
}

#[test]
fn a_row_whose_code_nobody_can_name_is_stale() {
    let rule = rule(1000.0, &[]);
    let reason = |version: &SourceVersion| rule.reason(version, "urpc", "null/pinned").unwrap();
    assert_eq!(reason(&SourceVersion::default()), StaleReason::UnknownCommit);
    assert_eq!(reason(&SourceVersion { tree: SourceTree::Changed, ..clean("c") }), StaleReason::ChangedTree);
    assert_eq!(reason(&SourceVersion { tree: SourceTree::Unknown, ..clean("c") }), StaleReason::ChangedTree);
    assert_eq!(reason(&clean("z")), StaleReason::MissingCommit);
    assert_eq!(rule.reason(&clean("c"), "other", "case"), Some(StaleReason::UnknownBenchmark));
}

#[test]
fn a_mark_names_the_commit_and_says_what_is_stale() {
    let version = clean("0123456789abcdef");
    assert_eq!(mark(&version, None), "of 01234567");
    assert_eq!(mark(&version, Some(&StaleReason::MissingCommit)), "of 01234567, stale");
    let unknown = SourceVersion::default();
    assert_eq!(mark(&unknown, Some(&StaleReason::UnknownCommit)), "of an unknown commit, stale");
}

/// Runs `git` in `root`, and gives what it printed.
fn git(root: &Path, arguments: &[&str]) -> String {
    let who = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"];
    let output = Command::new("git").arg("-C").arg(root).args(who).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Writes a file and commits it. Gives the commit.
fn committed(root: &Path, file: &str, text: &str) -> String {
    fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
    fs::write(root.join(file), text).unwrap();
    git(root, &["add", "."]);
    git(root, &["commit", "--quiet", "--message", file]);
    git(root, &["rev-parse", "HEAD"])
}

#[test]
fn a_repository_knows_its_commits_and_what_has_changed() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    git(root, &["init", "--quiet"]);
    let first = committed(root, "crates/a/src/deep/lib.rs", "1");
    let second = committed(root, "crates/a/src/notes.md", "2");
    let history = Repository::around(&root.join("crates"));
    assert_eq!(fs::canonicalize(history.root()).unwrap(), fs::canonicalize(root).unwrap());
    assert!(history.has(&first) && !history.has("HEAD") && !history.has(&"0".repeat(40)));
    assert!(history.comes_after(&second, &first) && history.comes_after(&first, &first));
    assert!(!history.comes_after(&first, &second));
    let rooms = ["crates/a/src", "other.rs"];
    assert_eq!(history.changed_since(&first, &rooms), None, "that is no Rust file");
    // A change counts before it is committed.
    fs::write(root.join("crates/a/src/deep/lib.rs"), "3").unwrap();
    let changed = Some("crates/a/src/deep/lib.rs".to_owned());
    assert_eq!(history.changed_since(&first, &rooms), changed);
    assert_eq!(history.changed_since(&first, &["crates/b/src"]), None);
    let third = committed(root, "other.rs", "4");
    assert_eq!(
        (history.changed_since(&second, &rooms), history.changed_since(&third, &rooms)),
        (changed, None)
    );
}

#[test]
fn a_directory_without_a_repository_has_no_commits() {
    let directory = tempfile::tempdir().unwrap();
    let rule = StaleRule::of(directory.path()).unwrap();
    let reason = rule.reason(&clean(&"0".repeat(40)), "urpc", "null/pinned");
    assert_eq!(reason, Some(StaleReason::MissingCommit));
}

#[test]
fn every_package_is_a_room_and_every_room_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (at, (room, _)) in ROOMS.iter().enumerate() {
        assert!(root.join(room).exists(), "there is no {room}");
        assert!(ROOMS[..at].iter().all(|(other, _)| other != room), "{room} stands there twice");
    }
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let room = format!("crates/{}/src", entry.unwrap().file_name().to_str().unwrap());
        assert!(ROOMS.iter().any(|(known, _)| *known == room), "which benchmarks depend on {room}?");
    }
}

#[test]
fn every_counted_operation_is_in_the_ledger() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let ledger = InstructionLedger::read(&root).unwrap();
    for (bench, case, operation) in COUNTED {
        assert!(ledger.count_today(operation).is_some(), "{bench} {case}: nothing counts {operation}");
    }
}
