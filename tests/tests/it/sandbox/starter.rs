//! What a domain in a sandbox can reach of its starter and of its starter's user.

use crate::sandbox::{Killed, SANDBOXED, is_root};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use underpass::CallError;
use underpass_harness::{alone, skip};
use underpass_os::calls;
use underpass_tests::{Captive, CaptiveClient, PublicRoom, Room, ServerProcess, Watchdog, until};

#[test]
fn the_files_behind_the_starters_outputs_are_out_of_reach() {
    alone!();
    let _watchdog = Watchdog::new("the_files_behind_the_starters_outputs_are_out_of_reach");
    let name = Room::name("outputs");
    let path = std::env::temp_dir().join(format!("underpass-{name}"));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    file.write_all(b"a secret\n").unwrap();
    let mut starter = Command::new(SANDBOXED);
    starter.args(["starter", &name]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut starter = Killed(starter.stdout(file.try_clone().unwrap()).spawn().unwrap());
    let captive = CaptiveClient::import_within(&name, ServerProcess::soon()).unwrap();
    for deed in ["read an output", "truncate an output"] {
        let done = captive.attempt(deed, 0).unwrap();
        assert!(done.starts_with("errno"), "{deed}: {done}");
    }
    let flags = || fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).unwrap();
    let before = flags();
    captive.attempt("unblock an output", 0).unwrap();
    let line = |of: &str| of.lines().find(|line| line.starts_with("flags:")).unwrap().to_owned();
    assert_eq!(line(&flags()), line(&before));
    assert_eq!(captive.attempt("say", 0).as_deref(), Ok("done"));
    drop(starter.0.stdin.take());
    assert!(starter.0.wait().unwrap().success());
    let mut said = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut said).unwrap();
    let lines: Vec<_> = said.lines().collect();
    assert!(matches!(lines[..], ["a secret", _, "last words", "ended: Killed"]), "{said}");
}

#[test]
fn output_before_the_end_arrives_before_the_end_is_reported() {
    alone!();
    let _watchdog = Watchdog::new("output_before_the_end_arrives_before_the_end_is_reported");
    let name = Room::name("said");
    let (mut starter, _pid) = careless_starter(&name);
    let captive = CaptiveClient::import(&name).unwrap();
    // When the domain ends, most of the output is still in transit: the reader takes a few bytes at
    // a time.
    let bytes = 250_000;
    std::thread::scope(|scope| {
        let mut output = BufReader::with_capacity(16, starter.0.stdout.take().unwrap());
        let reader = scope.spawn(move || {
            let mut said = Vec::new();
            loop {
                let some = output.fill_buf().unwrap();
                let len = some.len();
                if len == 0 {
                    return String::from_utf8(said).unwrap();
                }
                said.extend_from_slice(some);
                output.consume(len);
            }
        });
        assert_eq!(captive.attempt("say", bytes).as_deref(), Ok("done"));
        drop(starter.0.stdin.take());
        let said = reader.join().unwrap();
        let (dots, rest) = said.split_at(bytes as usize);
        assert!(dots.bytes().all(|byte| byte == b'.'));
        assert_eq!(rest, "last words\nended: Killed\n");
    });
}

#[test]
fn an_output_that_nobody_reads_holds_up_the_domain_alone() {
    alone!();
    let _watchdog = Watchdog::new("an_output_that_nobody_reads_holds_up_the_domain_alone");
    let name = Room::name("unread");
    let (mut starter, pid) = careless_starter(&name);
    let captive = CaptiveClient::import(&name).unwrap();
    std::thread::scope(|scope| {
        let speaker = scope.spawn(|| captive.attempt("say for ever", 0));
        let own = starter.0.id();
        until("the starter's output to be full", || copies_in_vain(own).then_some(()));
        // Its other calls go on. Its starter goes on too, and ends it.
        assert_eq!(captive.attempt("reserve", 1).as_deref(), Ok("done"));
        drop(starter.0.stdin.take());
        assert!(matches!(speaker.join().unwrap(), Err(CallError::PeerDied(_))));
    });
    until("its process's end", || (!is_alive(pid)).then_some(()));
    // More output is waiting behind all that.
    assert!(starter.0.try_wait().unwrap().is_none());
    drop(starter.0.stdout.take());
    starter.0.wait().unwrap();
}

/// Whether a starter's kernel thread that copies an output waits in the kernel for the output's
/// reader.
fn copies_in_vain(starter: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{starter}/task")).unwrap();
    tasks.flatten().any(|task| {
        let read = |of| fs::read_to_string(task.path().join(of)).unwrap_or_default();
        let number = read("syscall").split(' ').next().and_then(|number| number.parse().ok());
        read("comm").starts_with("underpass-outp") && number == calls::number("write")
    })
}

#[test]
fn others_of_its_user_pass_files_while_it_floods() {
    alone!();
    let _watchdog = Watchdog::new("others_of_its_user_pass_files_while_it_floods");
    if !is_root() {
        skip!("only root can become another user");
    }
    // No other test's files belong to this user.
    let user = 54_321;
    let directory = PublicRoom::directory(SANDBOXED);
    let names = directory.join("names");
    fs::create_dir(&names).unwrap();
    std::os::unix::fs::chown(&names, Some(user), Some(user)).unwrap();
    let name = Room::name("flood");
    let command = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 1024; exec \"$0\" \"$@\""]).arg(directory.join("program"));
        command.args(arguments).uid(user).gid(user).env("UNDERPASS_DIR", &names);
        command
    };
    let pass = || String::from_utf8(command(&["pass"]).output().unwrap().stdout).unwrap();
    assert_eq!(pass(), "Ok(())\n");
    let mut starter = command(&["starter", &name, "flood with files"]);
    starter.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut starter = Killed(starter.spawn().unwrap());
    let mut said = BufReader::new(starter.0.stdout.as_mut().unwrap()).lines().skip(1);
    // ETOOMANYREFS.
    assert_eq!(said.next().unwrap().unwrap(), "flood with files: errno 109");
    assert_eq!(pass(), "Ok(())\n");
}

/// The open files of a process, as `/proc` shows them.
fn files_of(pid: u32) -> Vec<String> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let link = |file: fs::DirEntry| fs::read_link(file.path()).unwrap().display().to_string();
    files.map(|file| link(file.unwrap())).collect()
}

/// What an open file of a domain is. `None` for a file that need not be there.
fn kind(file: &str, pid: u32) -> Option<&'static str> {
    match file {
        "/dev/null" => Some("standard"),
        _ if file.starts_with("socket:") => Some("socket"),
        "anon_inode:[eventpoll]" => Some("epoll"),
        "anon_inode:[eventfd]" => Some("eventfd"),
        // Files by which the monitor reads the state of its own kernel threads, opened before the
        // restriction.
        _ if file.starts_with(&format!("/proc/{pid}/task/")) => None,
        _ => Some("something else"),
    }
}

/// The starter of a sandboxed domain that has inherited a file from a careless parent.
fn careless_starter(name: &str) -> (Killed, u32) {
    let mut starter = Command::new("sh")
        .args(["-c", "exec 9</etc/passwd; exec \"$0\" starter \"$1\"", SANDBOXED, name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(starter.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    let pid =
        said.trim().parse().unwrap_or_else(|_| panic!("the starter says its domain's process, not {said:?}"));
    (Killed(starter), pid)
}

#[test]
fn no_file_comes_along_and_a_starter_takes_its_domain_along() {
    alone!();
    let _watchdog = Watchdog::new("no_file_comes_along_and_a_starter_takes_its_domain_along");
    let name = Room::name("descriptors");
    let (starter, pid) = careless_starter(&name);
    assert!(files_of(starter.0.id()).iter().any(|file| file == "/etc/passwd"), "the starter has it");
    let captive = CaptiveClient::import(&name).unwrap();
    assert_eq!(captive.attempt("reserve", 1).as_deref(), Ok("done"));
    // The memory of a new binding is passed on and then closed. These remain: the standard input,
    // the sockets of three names, of one binding and of two outputs, the way to the clerk's
    // spawner, and the clerk's two files.
    let wanted = [&["epoll", "eventfd"][..], &["socket"; 7], &["standard"]].concat();
    until("the domain has no file but these", || {
        if !is_root() {
            return Some(());
        }
        let mut found: Vec<_> = files_of(pid).iter().filter_map(|file| kind(file, pid)).collect();
        found.sort_unstable();
        (found == wanted).then_some(())
    });

    drop(starter);
    until("the domain's end", || captive.attempt("reserve", 1).is_err().then_some(()));
    until("its process's end", || (!is_alive(pid)).then_some(()));
    // A killed starter cleans nothing up.
    for name in [name.clone(), format!("{name}-probe"), format!("{name}-vault")] {
        fs::remove_file(Room::directory().join(name)).unwrap();
    }
}

/// Whether such a process exists and still runs.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}
