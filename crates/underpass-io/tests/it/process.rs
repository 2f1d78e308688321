//! Child processes.

use crate::common::{by_both, watchdog};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use underpass_io::pipe;
use underpass_io::process::{Command, Stdio};
use underpass_threads::spawn;

const MUCH: usize = 1 << 20;

fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line);
    command
}

fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("1000");
    command
}

#[test]
fn much_goes_through_a_child() {
    let _dog = watchdog();
    by_both(|| {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writer = spawn(move || stdin.write_all(&vec![5; MUCH]).unwrap());
        let mut all = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut all).unwrap();
        writer.join().unwrap();
        assert!(all.len() == MUCH && all.iter().all(|&byte| byte == 5));
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn both_outputs_are_collected() {
    let _dog = watchdog();
    by_both(|| {
        let output =
            shell("head -c 1048576 /dev/zero >&2; head -c 1048576 /dev/zero; exit 3").output().unwrap();
        assert_eq!((output.stdout.len(), output.stderr.len()), (MUCH, MUCH));
        assert_eq!(output.status.code(), Some(3));
    });
}

#[test]
fn a_status_is_waited_for() {
    let _dog = watchdog();
    by_both(|| {
        assert_eq!(shell("exit 7").status().unwrap().code(), Some(7));
        assert_eq!(Command::new("/nonexistent/program").status().unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_child_that_reads_ends_when_it_is_waited_for() {
    let _dog = watchdog();
    by_both(|| {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        assert!(child.wait().unwrap().success());
        // Again, and it says the same.
        assert!(child.wait().unwrap().success());
        assert!(child.try_wait().unwrap().is_some());
    });
}

#[test]
fn a_child_is_killed() {
    let _dog = watchdog();
    by_both(|| {
        let mut child = sleeper().spawn().unwrap();
        assert_ne!(child.id(), std::process::id());
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(child.wait_until(soon).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        child.kill().unwrap();
    });
}

#[test]
fn dropping_kills_where_it_was_asked_to() {
    let _dog = watchdog();
    by_both(|| {
        let exists = |id: u32| PathBuf::from(format!("/proc/{id}")).exists();
        let child = sleeper().kill_on_drop(true).spawn().unwrap();
        let id = child.id();
        assert!(exists(id));
        drop(child);
        assert!(!exists(id), "killed and waited for");
    });
}

#[test]
fn dropping_lets_run_on_where_it_was_not() {
    let _dog = watchdog();
    by_both(|| {
        let child = shell("read line; echo \"$line\"").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        drop(child);
        stdin.write_all(b"still here\n").unwrap();
        let mut said = String::new();
        stdout.read_to_string(&mut said).unwrap();
        assert_eq!(said, "still here\n");
    });
}

#[test]
fn children_are_connected_by_pipes() {
    let _dog = watchdog();
    by_both(|| {
        let mut first = shell("echo one two").stdout(Stdio::piped()).spawn().unwrap();
        let through = Stdio::try_from(first.stdout.take().unwrap()).unwrap();
        let (mut reader, writer) = pipe().unwrap();
        let mut second = Command::new("wc");
        second.arg("-w").stdin(through).stdout(Stdio::try_from(writer).unwrap());
        assert!(second.status().unwrap().success());
        assert!(first.wait().unwrap().success());
        // The command holds the pipe's other end too.
        drop(second);
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(said.trim(), "2");
    });
}

#[test]
fn many_children_are_waited_for_at_once() {
    let _dog = watchdog();
    let threads: Vec<_> =
        (0..20).map(|n| spawn(move || shell(&format!("exit {n}")).status().unwrap().code())).collect();
    for (n, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap(), Some(n as i32));
    }
}
