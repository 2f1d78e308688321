//! Threads that keep an activation busy without ever being ready on it, and threads that wait
//! meanwhile.

use crate::common::with_processors;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use underpass_threads::{Builder, JoinHandle, blocking, current, park, sleep, spawn, yield_now};

/// Keeps all activations busy with threads that start, start another, and end, until it is dropped.
struct Busy(&'static AtomicBool);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn chains(count: u32) -> Busy {
    fn link(stop: &'static AtomicBool) {
        if !stop.load(Ordering::Relaxed) {
            drop(spawn(move || link(stop)));
        }
    }
    let stop: &'static AtomicBool = Box::leak(Box::default());
    for _ in 0..count {
        drop(spawn(move || link(stop)));
    }
    Busy(stop)
}

fn wanderers(count: u32) -> Busy {
    let stop: &'static AtomicBool = Box::leak(Box::default());
    for _ in 0..count {
        let wander = move || {
            while !stop.load(Ordering::Relaxed) {
                yield_now();
            }
        };
        // SAFETY: it holds nothing that belongs to its kernel thread.
        drop(unsafe { Builder::new().migrating() }.spawn(wander).unwrap());
    }
    Busy(stop)
}

/// A thread sleeps on an activation, and goes on in time.
fn sleeper() -> JoinHandle<()> {
    spawn(|| (0..20).for_each(|_| sleep(Duration::from_millis(1))))
}

#[test]
fn timers_end_while_threads_start_and_end() {
    with_processors(&[1, 2], || {
        let sleepers: Vec<_> = (0..4).map(|_| sleeper()).collect();
        let _busy = chains(8);
        sleepers.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn timers_end_while_threads_migrate() {
    with_processors(&[1, 2], || {
        let sleepers: Vec<_> = (0..4).map(|_| sleeper()).collect();
        let _busy = wanderers(8);
        sleepers.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn what_a_kernel_thread_starts_begins_while_threads_start_and_end() {
    with_processors(&[1, 2], || {
        let _busy = chains(8);
        (0..20).for_each(|_| spawn(yield_now).join().unwrap());
    });
}

#[test]
fn what_a_kernel_thread_starts_begins_while_threads_migrate() {
    with_processors(&[1, 2], || {
        let _busy = wanderers(8);
        (0..20).for_each(|_| spawn(yield_now).join().unwrap());
    });
}

#[test]
fn a_dedicated_thread_begins_while_threads_start_and_end() {
    with_processors(&[1, 2], || {
        let _busy = chains(8);
        Builder::new().dedicated().spawn(yield_now).unwrap().join().unwrap();
    });
}

/// A helper process that limits the address space of this one.
struct Limit {
    setter: Child,
    done: BufReader<ChildStdout>,
}

impl Limit {
    fn new() -> Self {
        // Only the soft limit, which can be raised again.
        let script = format!(
            "while read limit; do prlimit --pid {} --as=$limit: && echo done; done",
            std::process::id()
        );
        let mut setter = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell is there");
        let done = BufReader::new(setter.stdout.take().expect("it is piped"));
        Self { setter, done }
    }

    /// Limits this process's address space to `more` bytes beyond what it has. `None` removes the
    /// limit.
    fn set(&mut self, more: Option<u64>) {
        let status = std::fs::read_to_string("/proc/self/statm").expect("it tells of this process");
        let pages: u64 = status.split(' ').next().expect("it has words").parse().expect("a number");
        let limit = more.map_or("unlimited".into(), |more| (pages * 4096 + more).to_string());
        writeln!(self.setter.stdin.as_ref().expect("it is piped"), "{limit}").expect("it reads");
        let mut line = String::new();
        self.done.read_line(&mut line).expect("it answers");
        assert_eq!(line, "done\n");
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        drop(self.setter.stdin.take());
        self.setter.wait().expect("it ends");
    }
}

#[test]
fn timers_end_while_there_is_no_memory_for_a_stack() {
    with_processors(&[1], || {
        static BEGUN: AtomicU32 = AtomicU32::new(0);
        // They hold all memory that there is until their timers fire.
        let holds = || {
            BEGUN.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(300));
        };
        spawn(yield_now).join().unwrap();
        let mut limit = Limit::new();
        let all = spawn(move || {
            let large = || Builder::new().stack_size(1 << 30);
            let first = large().spawn(holds).unwrap();
            while BEGUN.load(Ordering::Relaxed) == 0 {
                yield_now();
            }
            limit.set(Some(256 << 20));
            let second = large().spawn(holds).unwrap();
            first.join().unwrap();
            second.join().unwrap();
            limit.set(None);
        });
        all.join().unwrap();
    });
}

#[test]
fn a_blocking_call_is_made_though_there_are_no_more_kernel_threads() {
    with_processors(&[1], || {
        // Another thread lives on the activation, so the call needs a kernel thread of its own.
        let other = spawn(park);
        let mut limit = Limit::new();
        let caller = spawn(move || {
            yield_now();
            limit.set(Some(256 << 10));
            let made = std::panic::catch_unwind(|| blocking(|| current().id()));
            limit.set(None);
            // A call that was not made must not be made later, when what it refers to is gone.
            let later = blocking(|| 7);
            (made.is_ok(), later)
        });
        assert_eq!(caller.join().unwrap(), (true, 7));
        other.thread().unpark();
        other.join().unwrap();
    });
}
