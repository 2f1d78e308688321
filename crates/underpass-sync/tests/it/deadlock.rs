//! Threads that deadlock are found and named, and no others.

use crate::crew::watchdog;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use underpass_harness::alone;
use underpass_sync::{Mutex, RwLock};
use underpass_threads::{Builder, Deadlock, deadlocks, dump, spawn, yield_now};

/// The names in the first deadlock that is found, beginning with the alphabetically first.
fn names(deadlock: &Deadlock) -> Vec<String> {
    let name = |thread: &underpass_threads::Deadlocked| thread.name.as_deref().unwrap_or("?").to_owned();
    let mut names: Vec<_> = deadlock.threads.iter().map(name).collect();
    let first = names.iter().enumerate().min_by_key(|(_, name)| name.as_str()).map_or(0, |(place, _)| place);
    names.rotate_left(first);
    names
}

/// Waits until a deadlock is found for which `is` returns `true`.
fn until(is: impl Fn(&Deadlock) -> bool) -> Deadlock {
    loop {
        if let Some(found) = deadlocks().into_iter().find(&is) {
            return found;
        }
    }
}

/// Whether a dump shows that the thread called `name` waits.
fn waits(name: &str) -> bool {
    dump().threads.iter().any(|thread| thread.name.as_deref() == Some(name) && thread.awaited.is_some())
}

/// The body of the child process: three philosophers. One of them is a kernel thread.
fn philosophers() {
    let forks: [Arc<Mutex<u32>>; 3] = std::array::from_fn(|_| Arc::default());
    let (met, all_met) = mpsc::channel();
    let goes: Vec<_> = ["Ada", "Ben", "Cleo"]
        .into_iter()
        .enumerate()
        .map(|(place, name)| {
            let (left, right) = (forks[place].clone(), forks[(place + 1) % 3].clone());
            let (met, (go, may_go)) = (met.clone(), mpsc::channel::<()>());
            let eats = move || {
                let _left = left.lock().unwrap();
                met.send(()).unwrap();
                // In the kernel, until all have their left fork.
                underpass_threads::blocking(move || may_go.recv().unwrap());
                drop(right.lock());
            };
            if name == "Ben" {
                std::thread::Builder::new().name(name.into()).spawn(eats).unwrap();
            } else {
                Builder::new().name(name).spawn(eats).unwrap();
            }
            go
        })
        .collect();
    (0..3).for_each(|_| all_met.recv().unwrap());
    goes.iter().for_each(|go| go.send(()).unwrap());
    let found = until(|deadlock| deadlock.threads.len() == 3);
    assert_eq!(names(&found), ["Ada", "Ben", "Cleo"]);
    let said = dump().to_string();
    assert!(said.contains(&found.to_string()), "{said}");
    assert!(said.contains("waits for") && said.contains("held by 'Ben' ("), "{said}");
    println!("as expected");
    // The deadlock is reported on standard error without a request.
    loop {
        std::thread::park();
    }
}

#[test]
fn threads_that_lock_each_other_out_are_named_unasked() {
    let _dog = watchdog("philosophers");
    if std::env::var_os("UNDERPASS_TEST_HANGS").is_some() {
        return philosophers();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let name = "deadlock::threads_that_lock_each_other_out_are_named_unasked";
    child.args(["--exact", name, "--nocapture"]);
    child.env("UNDERPASS_TEST_HANGS", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = said.find(|line| line.contains("deadlock: ")).expect("it is told");
    assert!(["'Ada' (", "'Ben' (", "'Cleo' ("].iter().all(|name| line.contains(name)), "{line}");
    assert!(out.any(|line| line.contains("as expected")), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_thread_that_joins_a_waiter_for_its_own_lock_is_named() {
    alone!();
    let _dog = watchdog("joins and locks");
    let lock: Arc<Mutex<()>> = Arc::default();
    let inner = lock.clone();
    // Both threads stay as they are until the process ends.
    drop(Builder::new().name("joins").spawn(move || {
        let _held = lock.lock().unwrap();
        let joined = Builder::new().name("joined").spawn(move || drop(inner.lock())).unwrap();
        joined.join().unwrap();
    }));
    let found = until(|deadlock| names(deadlock)[0] == "joined");
    assert_eq!(names(&found), ["joined", "joins"]);
    let said = found.to_string();
    assert!(said.contains("waits for the end of thread 'joined' ("), "{said}");
}

#[test]
fn writers_of_two_locks_are_named() {
    alone!();
    let _dog = watchdog("writers");
    let locks: Arc<[RwLock<u32>; 2]> = Arc::default();
    let (met, all_met) = mpsc::channel();
    let goes: Vec<_> = (0..2)
        .map(|place| {
            let (locks, met) = (locks.clone(), met.clone());
            let (go, may_go) = mpsc::channel::<()>();
            let body = move || {
                let _held = locks[place].write().unwrap();
                met.send(()).unwrap();
                underpass_threads::blocking(move || may_go.recv().unwrap());
                drop(locks[1 - place].write());
            };
            drop(Builder::new().name(format!("writer {place}")).spawn(body));
            go
        })
        .collect();
    (0..2).for_each(|_| all_met.recv().unwrap());
    goes.iter().for_each(|go| go.send(()).unwrap());
    let found = until(|deadlock| names(deadlock)[0] == "writer 0");
    assert_eq!(names(&found), ["writer 0", "writer 1"]);
}

#[test]
fn a_thread_that_gives_up_or_goes_on_is_in_no_deadlock() {
    alone!();
    let _dog = watchdog("no deadlock");
    // Two threads that would deadlock, but for a deadline.
    let (a, b): (Arc<Mutex<()>>, Arc<Mutex<()>>) = Default::default();
    let (inner_a, inner_b) = (a.clone(), b.clone());
    let (let_go, may_go) = mpsc::channel::<()>();
    let patient = Builder::new().name("patient").spawn(move || {
        let _held = inner_a.lock().unwrap();
        underpass_threads::blocking(move || may_go.recv().unwrap());
        drop(inner_b.lock());
    });
    let impatient = Builder::new().name("impatient").spawn(move || {
        let _held = b.lock().unwrap();
        let_go.send(()).unwrap();
        while !waits("patient") {
            yield_now();
        }
        assert!(a.try_lock_for(Duration::from_millis(300)).is_err());
    });
    while !waits("impatient") {}
    let none = |deadlock: &Deadlock| !names(deadlock).iter().any(|name| name.contains("patient"));
    assert!(deadlocks().iter().all(none));
    impatient.unwrap().join().unwrap();
    patient.unwrap().join().unwrap();
    // Many threads that contend all the time.
    let lock: Arc<Mutex<u64>> = Arc::default();
    let contends = |lock: Arc<Mutex<u64>>| {
        move || {
            for _ in 0..20_000 {
                *lock.lock().unwrap() += 1;
                yield_now();
            }
        }
    };
    let users: Vec<_> = (0..8).map(|_| spawn(contends(lock.clone()))).collect();
    let kernels: Vec<JoinHandle<()>> = (0..2).map(|_| std::thread::spawn(contends(lock.clone()))).collect();
    while users.iter().any(|user| !user.is_finished()) {
        let found = deadlocks();
        assert!(found.iter().all(|deadlock| !names(deadlock).iter().any(|name| name == "?")), "{found:?}");
    }
    users.into_iter().for_each(|user| user.join().unwrap());
    kernels.into_iter().for_each(|kernel| kernel.join().unwrap());
    assert_eq!(*lock.lock().unwrap(), 200_000);
}
