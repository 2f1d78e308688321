//! Activations that serve calls divide the lines among themselves. One that is alone serves all.

mod common;

use common::with_processors;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use underpass_os::thread::here;
use underpass_processor::{
    ActiveLine, AwaitedLine, DonationLine, Line, LineOwner, PolledLine, SleepLine, lines,
};
use underpass_threads::wake_all_idle;

const LINES: usize = 2;

/// How often a call looks for one of another line: some microseconds.
const LOOKS: u32 = 300;

/// The state that the lines share: calls wait on them all the time, until the test is over.
#[derive(Default)]
struct Load {
    /// How often each call looks.
    looks: u32,
    over: AtomicBool,
    /// The kernel thread that serves a call of each line at this moment, or 0.
    serves: [AtomicUsize; LINES],
    /// Calls of each line that were served.
    served: [AtomicU64; LINES],
    /// How often calls of both lines were served at the same time, by two activations.
    met: AtomicU64,
    /// The kernel thread that served the last call of any line, and how often it was another one
    /// than before.
    last: AtomicUsize,
    changes: AtomicU64,
}

struct End {
    number: usize,
    load: Arc<Load>,
    owner: LineOwner,
    word: AtomicU32,
}

impl PolledLine for End {
    fn poll(&self) -> bool {
        false
    }

    fn pending(&self) -> bool {
        !self.load.over.load(Ordering::Acquire)
    }

    fn backlog(&self) -> bool {
        self.pending()
    }

    fn taken(&self) -> u32 {
        self.load.served[self.number].load(Ordering::Acquire) as u32
    }

    fn serve(&self, _: u64) -> bool {
        if !self.pending() {
            return false;
        }
        let Load { looks, serves, served, met, last, changes, .. } = &*self.load;
        if last.swap(here(), Ordering::AcqRel) != here() {
            changes.fetch_add(1, Ordering::AcqRel);
        }
        let mine = serves[self.number].compare_exchange(0, here(), Ordering::AcqRel, Ordering::Relaxed);
        for _ in 0..*looks {
            let other = serves[(self.number + 1) % LINES].load(Ordering::Acquire);
            if other != 0 && other != here() {
                met.fetch_add(1, Ordering::AcqRel);
                break;
            }
            std::hint::spin_loop();
        }
        if mine.is_ok() {
            serves[self.number].store(0, Ordering::Release);
        }
        served[self.number].fetch_add(1, Ordering::AcqRel);
        true
    }
}

impl SleepLine for End {
    fn park(&self, _: bool) -> Option<u32> {
        None
    }

    fn spare(&self) -> Option<u32> {
        None
    }

    fn quiet(&self) -> bool {
        !self.pending()
    }

    fn word(&self) -> &AtomicU32 {
        &self.word
    }

    fn look(&self) {}

    fn set_unpolled(&self) {}
}

impl ActiveLine for End {}

impl AwaitedLine for End {
    fn wake_spare(&self) {}
}

impl DonationLine for End {}

impl Line for End {
    fn owner(&self) -> Option<&LineOwner> {
        Some(&self.owner)
    }

    fn elsewhere(&self) -> bool {
        true
    }

    fn shares(&self) -> bool {
        true
    }
}

/// Puts the load of so many lines with this owner on this domain's activations, until `enough` of
/// it was seen.
fn serve_until(processors: u32, count: usize, owner: Option<usize>, enough: impl Fn(&Load) -> bool) {
    // A single line has no other to look for.
    let looks = if count > 1 { LOOKS } else { 0 };
    let load = Arc::new(Load { looks, ..Load::default() });
    let ends: Vec<Arc<End>> = (0..count)
        .map(|number| {
            let end =
                End { number, load: load.clone(), owner: LineOwner::default(), word: AtomicU32::new(0) };
            end.owner.set(owner);
            Arc::new(end)
        })
        .collect();
    // As many activations as may run exist, and sleep.
    let there = Arc::new(AtomicU32::new(0));
    let threads = (0..processors).map(|_| {
        let there = there.clone();
        underpass_threads::spawn(move || {
            there.fetch_add(1, Ordering::AcqRel);
            while there.load(Ordering::Acquire) < processors {
                std::thread::yield_now();
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    for end in &ends {
        lines::add(end.clone());
    }
    wake_all_idle();
    while !enough(&load) {
        std::thread::yield_now();
    }
    load.over.store(true, Ordering::Release);
    // An activation that has stopped serving owns no line.
    while ends.iter().any(|end| end.owner.get().is_some()) {
        std::thread::yield_now();
    }
    for end in ends {
        lines::remove(&(end as Arc<dyn Line>));
    }
}

#[test]
fn two_activations_serve_two_lines_at_once() {
    with_processors(&[2], || {
        // The first activation wakes the second one, because it has more to do than one can.
        serve_until(2, LINES, None, |load| load.met.load(Ordering::Acquire) > 1_000);
    });
}

#[test]
fn a_line_stays_with_the_activation_that_takes_its_calls() {
    const CALLS: u64 = 20_000;
    with_processors(&[2], || {
        serve_until(2, 1, None, |load| {
            let served = load.served[0].load(Ordering::Acquire);
            // The other one is awake and has nothing to do. It takes the line over if the first one
            // loses its processor.
            underpass_threads::invite();
            served >= CALLS && {
                let changes = load.changes.load(Ordering::Acquire);
                assert!(changes < CALLS / 100, "{changes} changes in {served} calls");
                true
            }
        });
    });
}

#[test]
fn one_activation_serves_all_lines() {
    with_processors(&[1], || {
        serve_until(1, LINES, None, |load| {
            load.served.iter().all(|served| served.load(Ordering::Acquire) > 1_000)
        });
    });
}

#[test]
fn lines_of_an_owner_that_takes_no_calls_are_taken_over() {
    /// No activation has this number. It is like one whose kernel thread waits for a processor.
    const AWAY: usize = 63;
    with_processors(&[1], || {
        // In the end no line is left to it.
        serve_until(1, LINES, Some(AWAY), |load| {
            load.served.iter().all(|served| served.load(Ordering::Acquire) > 0)
        });
    });
}
