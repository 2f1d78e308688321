//! `underpass doctor`, as a user or a script runs it.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn doctor(names: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_underpass"));
    command.arg("doctor").args(arguments).env("UNDERPASS_DIR", names).output().unwrap()
}

/// What it says of `check`.
fn of(output: &Output, check: &str) -> Value {
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    let mut lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.find(|line| line["check"] == check).unwrap_or_else(|| panic!("no {check} in {said}"))
}

#[test]
fn a_directory_that_others_can_write_is_broken() {
    let home = tempfile::tempdir().unwrap();
    let names = home.path().join("names");
    fs::create_dir(&names).unwrap();
    fs::set_permissions(&names, fs::Permissions::from_mode(0o700)).unwrap();
    let sound = doctor(&names, &["--json"]);
    assert!(sound.status.success(), "{sound:?}");
    assert_eq!(of(&sound, "names")["judgement"], "good");

    fs::set_permissions(&names, fs::Permissions::from_mode(0o777)).unwrap();
    let open = doctor(&names, &["--json"]);
    assert_eq!(open.status.code(), Some(1));
    let finding = of(&open, "names");
    assert_eq!(finding["judgement"], "broken");
    assert!(finding["consequence"].as_str().unwrap().contains("mode 0777"), "{finding}");
}

#[test]
fn it_says_what_the_system_has() {
    let home = tempfile::tempdir().unwrap();
    let output = doctor(&home.path().join("none"), &["--json"]);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(of(&output, "kernel")["found"].as_str().unwrap().contains(release.trim()));
    // As far as this process can tell the same by itself.
    let expected = [("futex_waitv", underpass_os::futex::can_watch_several(), "slower")];
    for (check, has, lacks) in expected {
        assert_eq!(of(&output, check)["judgement"], if has { "good" } else { lacks });
    }
    assert!(of(&output, "landlock")["judgement"] == "good" || of(&output, "landlock")["remedy"].is_string());
}

#[test]
fn people_get_lines_without_colours_where_there_is_no_terminal() {
    let home = tempfile::tempdir().unwrap();
    let output = doctor(&home.path().join("none"), &[]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!said.contains('\x1b'), "{said:?}");
    assert!(said.contains("the first server makes it"), "{said}");
}
