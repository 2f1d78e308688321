//! A thread that computes for ever on the only processor holds up neither unstarted threads nor
//! those of other activations.

use crate::common::{Watchdog, watchdog};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use underpass_harness::alone;
use underpass_processor::{Pool, metrics};
use underpass_threads::{Builder, blocking, checkpoint, sleep, spawn};

fn one_processor() -> Watchdog {
    Pool::configure(1);
    watchdog()
}

struct Hog {
    stop: Arc<AtomicBool>,
    thread: underpass_threads::JoinHandle<u64>,
}

impl Hog {
    fn start(builder: Builder) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (begun, end) = (Arc::new(AtomicBool::new(false)), stop.clone());
        let running = begun.clone();
        let thread = builder.spawn(move || {
            running.store(true, Ordering::Relaxed);
            let mut rounds = 0u64;
            while !end.load(Ordering::Relaxed) {
                rounds = std::hint::black_box(rounds + 1);
            }
            rounds
        });
        while !begun.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        Self { stop, thread: thread.unwrap() }
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[test]
fn the_unstarted_start() {
    alone!();
    let _dog = one_processor();
    let hog = Hog::start(Builder::new().name("hog"));
    let before = metrics().preemptions();
    for n in 0..10u64 {
        assert_eq!(spawn(move || n * n).join().unwrap(), n * n);
    }
    assert!(metrics().preemptions() > before, "somebody gave way");
    assert!(hog.stop() > 0);
}

#[test]
fn a_dedicated_hog_leaves_others_alone() {
    alone!();
    let _dog = one_processor();
    let hog = Hog::start(Builder::new().name("hog").dedicated());
    let steps = Arc::new(AtomicU64::new(0));
    let counted = steps.clone();
    let other = spawn(move || {
        for _ in 0..5 {
            sleep(Duration::from_millis(1));
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    other.join().unwrap();
    assert_eq!(steps.load(Ordering::Relaxed), 5);
    hog.stop();
}

#[test]
fn checkpoints_let_siblings_run() {
    alone!();
    let _dog = one_processor();
    let stop = Arc::new(AtomicBool::new(false));
    let end = stop.clone();
    let polite = spawn(move || {
        let sibling = spawn(move || end.store(true, Ordering::Relaxed));
        while !stop.load(Ordering::Relaxed) {
            checkpoint();
        }
        sibling.join().unwrap();
    });
    polite.join().unwrap();
}

#[test]
fn a_thread_that_blocks_without_a_bracket_is_found() {
    alone!();
    let _dog = one_processor();
    let before = metrics().compensations();
    let found = (0..100).any(|_| {
        block_without_a_bracket();
        metrics().compensations() > before
    });
    assert!(found, "the monitor has counted a thread that blocked");
}

/// One thread blocks in the kernel until another one has run. If the other one comes first, nothing
/// is to be found.
fn block_without_a_bracket() {
    let (reader, writer) = std::io::pipe().unwrap();
    let blocked = spawn(move || {
        use std::io::Read;
        let mut byte = [0];
        (&reader).read_exact(&mut byte).unwrap();
        byte[0]
    });
    // Runs only if the monitor sees that the one processor idles.
    let helper = spawn(move || {
        use std::io::Write;
        (&writer).write_all(&[7]).unwrap();
    });
    helper.join().unwrap();
    assert_eq!(blocked.join().unwrap(), 7);
}

#[test]
fn a_blocking_call_leaves_the_processor_to_the_unstarted() {
    alone!();
    let _dog = one_processor();
    let (reader, writer) = std::io::pipe().unwrap();
    let blocked = spawn(move || {
        blocking(move || {
            use std::io::Read;
            let mut byte = [0];
            (&reader).read_exact(&mut byte).unwrap();
            byte[0]
        })
    });
    let helper = spawn(move || {
        use std::io::Write;
        (&writer).write_all(&[9]).unwrap();
    });
    helper.join().unwrap();
    assert_eq!(blocked.join().unwrap(), 9);
}

#[test]
fn siblings_run_while_one_is_in_a_bracket() {
    alone!();
    let _dog = one_processor();
    let done = spawn(|| {
        let (reader, writer) = std::io::pipe().unwrap();
        // Both have started on this activation by the time that one of them blocks.
        let blocked = spawn(move || {
            underpass_threads::yield_now();
            blocking(move || {
                use std::io::Read;
                let mut byte = [0];
                (&reader).read_exact(&mut byte).unwrap();
                byte[0]
            })
        });
        let sibling = spawn(move || {
            for _ in 0..3 {
                underpass_threads::yield_now();
            }
            use std::io::Write;
            (&writer).write_all(&[5]).unwrap();
        });
        sibling.join().unwrap();
        blocked.join().unwrap()
    });
    assert_eq!(done.join().unwrap(), 5);
}
