//! `underpass node` and what belongs to it, as a user or a script runs them.

mod jobserver;
mod parties;

use parties::{Command, Node, ended, kill, signal, until};
use underpass_os::cpu;

#[test]
fn without_a_server_the_commands_say_so() {
    let node = Node::new();
    let said = node.run(&["status"]);
    assert_eq!(said.status.code(), Some(1));
    let error = String::from_utf8(said.stderr).unwrap();
    assert!(error.contains("no server runs") && error.contains("underpass node"), "{error}");
    let said = node.run(&["env"]);
    assert!(String::from_utf8(said.stderr).unwrap().contains("no server runs"));
    // A command runs all the same.
    let said = node.run(&["run", "--weight", "2", "--", "sh", "-c", "echo it runs; exit 7"]);
    assert_eq!((said.status.code(), &said.stdout[..]), (Some(7), &b"it runs\n"[..]));
    assert!(String::from_utf8(said.stderr).unwrap().contains("no server runs yet"));
}

#[test]
fn a_server_says_who_takes_part() {
    let node = Node::new();
    let _server = node.serve(&["--processors", "2"]);
    let said = node.run(&["status"]);
    assert!(said.status.success(), "{said:?}");
    assert!(String::from_utf8(said.stdout).unwrap().starts_with("2 processors, 2 of them free\n"));
    let mut command = node.command("3", "yes > /dev/null");
    let of = until("the command to be there", || node.of(command.pid()));
    assert_eq!((&of["kind"], &of["weight"]), (&"command".into(), &3.into()));
    let said = String::from_utf8(node.run(&["status"]).stdout).unwrap();
    assert!(said.contains("command"), "{said}");
    let again = node.run(&["--processors", "1"]);
    assert!(String::from_utf8(again.stderr).unwrap().contains("--replace"));
    command.end();
    until("the server to forget it", || node.status()["domains"].as_array()?.is_empty().then_some(()));
    assert_eq!(node.status()["free"], 2);
}

#[test]
fn the_exit_status_and_signals_are_passed_on() {
    let node = Node::new();
    let _server = node.serve(&["--processors", "1"]);
    let code = |script: &str| node.run(&["run", "--", "sh", "-c", script]).status.code();
    assert_eq!(code("exit 0"), Some(0));
    assert_eq!(code("exit 42"), Some(42));
    assert_eq!(code("kill -KILL $$"), Some(137));
    assert_eq!(node.run(&["run", "--", "/nowhere/is-no-program"]).status.code(), Some(127));
    let mut command = node.command("1", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done");
    assert_eq!(command.line(), "ready");
    signal("-TERM", command.pid());
    assert_eq!(command.end_by_itself(), Some(9));
}

/// The only process below the runner, once there is one and it is no shell any more.
fn computing(command: &Command) -> u32 {
    until("the process that computes", || {
        command.descendants().into_iter().find(|pid| parties::name(*pid) == "yes")
    })
}

/// Waits until the process may run on so many CPUs, with or without the niceness of a domain
/// without a processor.
fn is_confined_to(pid: u32, cpus: usize) {
    until("the process to be pinned", || {
        cpu::allowed_to(pid).is_ok_and(|allowed| allowed.len() == cpus).then_some(())
    });
}

fn all() -> usize {
    cpu::allowed().unwrap().len()
}

#[test]
fn what_a_command_starts_is_pinned_to_what_is_granted() {
    let node = Node::new();
    let _server = node.serve(&["--processors", "1"]);
    let mut command = node.command("1", "(yes > /dev/null &); yes > /dev/null & wait; sleep 1000");
    until("both to compute", || {
        let of = node.of(command.pid())?;
        // The shell waits, and one process is an orphan.
        (of["processes"] == 3 && of["ready"] == 2 && of["processors"] == 1).then_some(())
    });
    let computing = command.descendants().into_iter().filter(|pid| parties::name(*pid) == "yes");
    let computing: Vec<_> = computing.collect();
    computing.iter().for_each(|&pid| is_confined_to(pid, 1));
    // They are two, and want one more than there is.
    until("it to want another", || (node.of(command.pid())?["wanted"] == u64::from(all() > 1)).then_some(()));
    command.end();
    computing.into_iter().filter(|&pid| parties::name(pid) == "yes").for_each(kill);
}

#[test]
fn commands_share_by_weight_and_have_everything_back() {
    let node = Node::new();
    let mut server = node.serve(&["--processors", "1"]);
    let before = parties::niceness(std::process::id());
    let mut one = node.command("1", "yes > /dev/null & wait");
    let mut two = node.command("2", "yes > /dev/null & wait");
    let pids = [computing(&one), computing(&two)];
    for pid in pids {
        is_confined_to(pid, 1);
    }
    // Each gets its turn.
    for of in [&one, &two] {
        until("it to have the processor", || (node.of(of.pid())?["processors"] == 1).then_some(()));
    }
    // A runner that is killed leaves its command behind, with all CPUs.
    kill(one.pid());
    one.reap();
    is_confined_to(pids[0], all());
    until("its niceness", || (parties::niceness(pids[0]) == before).then_some(()));
    kill(pids[0]);
    // A server that ends gives everything back as well.
    signal("-TERM", server.pid());
    assert_eq!(server.end_by_itself(), Some(0));
    is_confined_to(pids[1], all());
    until("its niceness", || (parties::niceness(pids[1]) == before).then_some(()));
    kill(pids[1]);
    assert_eq!(two.end_by_itself(), Some(0));
}

#[test]
fn a_killed_server_leaves_commands_to_themselves_and_the_next_one_finds_them() {
    let node = Node::new();
    let mut server = node.serve(&["--processors", "1"]);
    let mut command = node.command("1", "yes > /dev/null & yes > /dev/null & wait");
    let pid = computing(&command);
    for _ in 0..2 {
        is_confined_to(pid, 1);
        until("it to be counted", || (node.of(command.pid())?["processes"] == 3).then_some(()));
        kill(server.pid());
        server.reap();
        is_confined_to(pid, all());
        server = node.serve(&["--processors", "1"]);
        until("it to be there again", || node.of(command.pid()));
    }
    command.end();
    ended(pid);
}

#[test]
fn a_stopped_command_keeps_nobody_waiting() {
    let node = Node::new();
    let _server = node.serve(&["--processors", "1"]);
    let mut stopped = node.command("1", "yes > /dev/null & wait");
    let pid = computing(&stopped);
    until("it to have the processor", || (node.of(stopped.pid())?["processors"] == 1).then_some(()));
    signal("-STOP", pid);
    signal("-STOP", stopped.pid());
    let mut other = node.command("1", "yes > /dev/null & wait");
    until("the other one to have it", || (node.of(other.pid())?["processors"] == 1).then_some(()));
    until("the first one to want none", || (node.of(stopped.pid())?["wanted"] == 0).then_some(()));
    signal("-CONT", pid);
    signal("-CONT", stopped.pid());
    until("it to have the processor again", || (node.of(stopped.pid())?["processors"] == 1).then_some(()));
    stopped.end();
    other.end();
}
