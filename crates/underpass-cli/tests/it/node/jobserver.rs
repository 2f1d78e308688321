//! `make` and `cargo` as clients of the server's jobserver.

use crate::node::parties::{Command, Node, kill, until};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

/// Two jobs of which neither ends before both have begun.
const TOGETHER: &str = "all: a b\na:\n\t@touch a-begun; while ! test -e b-begun; do sleep 0.01; done\nb:\n\t@touch b-begun; while ! test -e a-begun; do sleep 0.01; done\n";

fn has_make() -> bool {
    let found = std::process::Command::new("make").arg("--version").stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// What the server says of the jobserver's clients.
fn clients(node: &Node, server: &Command) -> Value {
    node.of(server.pid()).expect("a server with a jobserver has the domain of its clients")
}

fn makefile(node: &Node, text: &str) {
    fs::write(node.path().join("Makefile"), text).unwrap();
}

#[test]
fn jobs_run_together_if_the_server_has_processors() {
    if !has_make() {
        underpass_harness::skip!("there is no make");
    }
    let node = Node::new();
    let server = node.serve(&["--processors", "2", "--jobserver", "--jobserver-weight", "5"]);
    assert_eq!(clients(&node, &server)["weight"], 5);
    makefile(&node, TOGETHER);
    let mut make = node.in_environment("pipe", &["make"]);
    assert_eq!(make.end_by_itself(), Some(0));
    // Its token is there again, or taken out.
    until("all tokens to be back", || (clients(&node, &server)["tokens_out"] == 0).then_some(()));
    until("nobody to be left", || (clients(&node, &server)["processes"] == 0).then_some(()));
}

#[test]
fn no_more_jobs_run_than_processors_are_granted() {
    if !has_make() {
        underpass_harness::skip!("there is no make");
    }
    let node = Node::new();
    let server = node.serve(&["--processors", "1", "--jobserver"]);
    // Each job says how many run.
    makefile(
        &node,
        "jobs = 1 2 3 4 5 6\nall: $(jobs)\n$(jobs):\n\t@touch job-$@; ls job-* | wc -l >> counts; sleep 0.02; rm job-$@\n",
    );
    let mut make = node.in_environment("pipe", &["make"]);
    assert_eq!(make.end_by_itself(), Some(0));
    let counts = fs::read_to_string(node.path().join("counts")).unwrap();
    assert_eq!(counts.lines().collect::<Vec<_>>(), ["1"; 6]);
    // Without the jobserver they run together.
    fs::remove_file(node.path().join("counts")).unwrap();
    makefile(&node, TOGETHER);
    let mut alone = std::process::Command::new("make");
    assert!(succeeds(alone.arg("-j2").current_dir(node.path()).env_remove("MAKEFLAGS")));
    drop(server);
}

fn succeeds(make: &mut std::process::Command) -> bool {
    make.stdout(Stdio::null()).status().unwrap().success()
}

#[test]
fn a_shell_gets_the_environment_and_its_jobs_are_counted() {
    if !has_make() {
        underpass_harness::skip!("there is no make");
    }
    let node = Node::new();
    let _server = node.serve(&["--processors", "2", "--jobserver"]);
    makefile(&node, TOGETHER);
    let said = node.run(&["env", "--by", "pipe"]);
    let line = String::from_utf8(said.stdout).unwrap();
    assert!(line.starts_with("exec 8<>"), "{line}");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("{line}\nmake")]).current_dir(node.path()).env_remove("MAKEFLAGS");
    assert!(succeeds(&mut shell));
    let said = String::from_utf8(node.run(&["env", "--by", "fifo"]).stdout).unwrap();
    assert!(said.contains("--jobserver-auth=fifo:") && !said.contains("exec"), "{said}");
}

#[test]
fn tokens_of_a_killed_client_are_made_anew() {
    if !has_make() {
        underpass_harness::skip!("there is no make");
    }
    let node = Node::new();
    let server = node.serve(&["--processors", "2", "--jobserver"]);
    makefile(&node, "all: a b\na b:\n\t@touch $@-begun; sleep 1000\n");
    let mut make = node.in_environment("pipe", &["make"]);
    until("a token to be out", || (clients(&node, &server)["tokens_out"] == 1).then_some(()));
    until("both jobs", || node.path().join("b-begun").exists().then_some(()));
    // Its jobs go on without it, so their token is still in use.
    let jobs = make.descendants();
    kill(make.pid());
    make.reap();
    until("the jobs to be found", || (clients(&node, &server)["processes"].as_u64()? >= 2).then_some(()));
    assert_eq!(clients(&node, &server)["tokens_out"], 1);
    jobs.into_iter().for_each(kill);
    until("the token to be lost", || (clients(&node, &server)["tokens_out"] == 0).then_some(()));
    // The next client gets one.
    makefile(&node, TOGETHER);
    for name in ["a-begun", "b-begun"] {
        fs::remove_file(node.path().join(name)).unwrap();
    }
    assert_eq!(node.in_environment("pipe", &["make"]).end_by_itself(), Some(0));
}

/// A package whose build script looks which jobserver cargo has.
fn package(node: &Node, expected: &str) {
    let package = node.path().join("package");
    fs::create_dir_all(package.join("src")).unwrap();
    fs::write(
        package.join("Cargo.toml"),
        "[package]\nname = \"made\"\nversion = \"0.1.0\"\nedition = \"2021\"\nbuild = \"build.rs\"\n[workspace]\n",
    )
    .unwrap();
    fs::write(package.join("src/lib.rs"), "").unwrap();
    let script = format!(
        "fn main() {{ let flags = std::env::var(\"CARGO_MAKEFLAGS\").unwrap(); assert!(flags.contains({expected:?}), \"{{flags}}\"); }}"
    );
    fs::write(package.join("build.rs"), script).unwrap();
}

#[test]
fn cargo_takes_its_tokens_from_the_server() {
    let node = Node::new();
    let server = node.serve(&["--processors", "2", "--jobserver"]);
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let target = node.path().join("target");
    let pipe = fs::canonicalize(node.names()).unwrap().join(".jobserver");
    for (by, expected) in [("fifo", format!("fifo:{}", pipe.display())), ("pipe", "8,9".to_owned())] {
        package(&node, &expected);
        let build = ["build", "--offline", "--quiet", "--manifest-path", "package/Cargo.toml"];
        let mut arguments = vec![cargo.as_str()];
        arguments.extend(build);
        let shown = target.to_str().unwrap();
        arguments.extend(["--target-dir", shown]);
        assert_eq!(node.in_environment(by, &arguments).end_by_itself(), Some(0), "{by}");
    }
    until("all tokens to be back", || (clients(&node, &server)["tokens_out"] == 0).then_some(()));
}

#[test]
fn a_build_outlives_its_server_and_the_next_one_finds_it() {
    if !has_make() {
        underpass_harness::skip!("there is no make");
    }
    let node = Node::new();
    let mut server = node.serve(&["--processors", "2", "--jobserver"]);
    makefile(
        &node,
        "all: a b c\na b:\n\t@touch $@-begun; while ! test -e go; do sleep 0.02; done\nc: a b\n\t@touch c-begun\n",
    );
    let mut make = node.in_environment("pipe", &["make"]);
    until("a token to be out", || (clients(&node, &server)["tokens_out"] == 1).then_some(()));
    kill(server.pid());
    server.reap();
    let server = node.serve(&["--processors", "1", "--jobserver"]);
    // It is found by the pipe that it has open. The token that is out is of the earlier server.
    until("the build to be found", || (clients(&node, &server)["processes"].as_u64()? >= 3).then_some(()));
    assert_eq!(clients(&node, &server)["tokens_out"], 0);
    fs::write(node.path().join("go"), "").unwrap();
    assert_eq!(make.end_by_itself(), Some(0));
    // What it has put back was taken out.
    until("no token to be left", || (clients(&node, &server)["tokens"] == 0).then_some(()));
}
