//! A guard of `std`'s mutex that a suspended thread holds is reported with both threads' names when
//! it does harm.

use crate::common::{setting, test_command, watchdog};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::Mutex;
use underpass_harness::skip;
use underpass_threads::{Builder, State, dump, park, spawn};

/// The child process: two threads of one activation, and a kernel thread that wakes the holder.
fn locks_itself_out() {
    let both = spawn(|| {
        // Not started yet, they stay with the one activation that may run.
        let lock: &'static Mutex<u32> = Box::leak(Box::default());
        let holder = Builder::new().name("keeps the guard").spawn(move || {
            let guard = lock.lock().unwrap();
            park();
            println!("never: {guard}");
        });
        let other = Builder::new().name("has none").spawn(park);
        let waiter = Builder::new().name("waits in the kernel").spawn(move || {
            drop(lock.lock());
        });
        (holder.unwrap(), other.unwrap(), waiter.unwrap())
    });
    let (holder, other, waiter) = both.join().unwrap();
    while !dump().unresponsive.contains(&0) {}
    // From now on a thread waits for the activation. A dump interrupts the thread that waits in the
    // kernel. If that comes while its lock is searched for, it is not reported unasked. So the
    // parent process says when that is over.
    holder.thread().unpark();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let found = loop {
        let mut dump = dump();
        let Some(found) = dump.held_up.pop() else { continue };
        // Threads that can't run are in the dump all the same.
        let seen = |name: &str| {
            let thread = dump.threads.iter().find(|thread| thread.name.as_deref() == Some(name)).unwrap();
            (thread.state, thread.trace.to_string())
        };
        let ((waits, at), (held_up, there)) = (seen("waits in the kernel"), seen("keeps the guard"));
        assert_eq!((waits, held_up), (State::Running, State::HeldUp));
        if at.contains("tests/it/guards.rs:") && there.contains("tests/it/guards.rs:") {
            break found;
        }
    };
    assert_eq!((found.waiter, found.holders[0].0), (waiter.thread().id(), holder.thread().id()));
    println!("dumped: {found}");
    waiter.join().unwrap();
    drop(other);
}

#[test]
fn a_guard_across_a_pause_is_reported_with_both_names() {
    let _dog = watchdog();
    if setting("UNDERPASS_TEST_HANGS", 0) == 1 {
        return locks_itself_out();
    }
    if cfg!(any(not(target_arch = "x86_64"), underpass_portable)) {
        skip!("the switch is not ours");
    }
    let mut child = test_command();
    child.env("UNDERPASS_TEST_HANGS", "1").env("UNDERPASS_PROCESSORS", "1").stdin(Stdio::piped());
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = said.find(|line| line.contains("blocks activation")).expect("it is reported");
    assert!(line.contains("thread 'waits in the kernel' ("), "{line}");
    // Another thread may be named after it, if that one has the stack of a thread that used the
    // lock.
    assert!(line.contains("which thread 'keeps the guard' ("), "{line}");
    assert!(line.contains("underpass::sync::Mutex"), "{line}");
    child.stdin.take().unwrap().write_all(b"dump\n").unwrap();
    let mut dumped = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(dumped.any(|line| line.contains("dumped: thread 'waits in the kernel' (")));
    child.kill().unwrap();
    child.wait().unwrap();
}
