//! Activations that serve calls divide the lines among themselves. One that is alone serves all.

use crate::common::with_processors;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use underpass_os::thread::here;
use underpass_processor::{
    ActiveLine, AwaitedLine, DonationLine, Line, LineOwner, PolledLine, SleepLine, lines,
};
use underpass_threads::wake_all_idle;

const LINES: usize = 2;

/// The state that the lines share: calls wait on them all the time, until the test is over.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    /// The kernel thread that serves a call of each line at this moment, or 0.
    serves: [AtomicUsize; LINES],
    /// Calls of each line that were served.
    served: [AtomicU64; LINES],
    /// How often calls of both lines were served at the same time, by two activations.
    met: AtomicU64,
    /// A call of a line lasts until other activations have looked at the line so often, and at each
    /// look one more call seems to have been taken. 0: calls are short.
    lasts: u64,
    looks: AtomicU64,
    /// How many looks there were when it began, and whether another activation had decided before
    /// to take its line over.
    began: AtomicU64,
    raced: AtomicBool,
    /// How many calls another activation took meanwhile.
    taken_over: AtomicU64,
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
        let Load { over, serves, looks, .. } = &*self.load;
        let by = serves[self.number].load(Ordering::Acquire);
        if by != 0 && by != here() {
            looks.fetch_add(1, Ordering::AcqRel);
        }
        !over.load(Ordering::Acquire)
    }

    fn backlog(&self) -> bool {
        self.pending()
    }

    fn taken(&self) -> u32 {
        let taken = self.load.served[self.number].load(Ordering::Acquire);
        let seem_taken = if self.load.lasts > 0 { self.load.looks.load(Ordering::Acquire) } else { 0 };
        (taken + seem_taken) as u32
    }

    fn serve(&self, _: u64) -> bool {
        /// A call of a few microseconds.
        const LOOKS: u32 = 300;
        /// Fewer looks than a decision takes.
        const FEW: u64 = 20;
        if !self.pending() {
            return false;
        }
        let Load { serves, served, met, lasts, looks, began, raced, taken_over, .. } = &*self.load;
        let mine = serves[self.number].compare_exchange(0, here(), Ordering::AcqRel, Ordering::Relaxed);
        let so_far = looks.load(Ordering::Acquire);
        if mine.is_ok() {
            began.store(so_far, Ordering::Release);
        } else if so_far.saturating_sub(began.load(Ordering::Acquire)) < FEW {
            raced.store(true, Ordering::Release);
        } else if so_far < *lasts && !raced.load(Ordering::Acquire) {
            taken_over.fetch_add(1, Ordering::AcqRel);
        }
        while mine.is_ok()
            && looks.load(Ordering::Acquire) < *lasts
            && !raced.load(Ordering::Acquire)
            && self.pending()
        {
            std::thread::yield_now();
        }
        for _ in 0..LOOKS {
            let other = serves[(self.number + 1) % LINES].load(Ordering::Acquire);
            if other != 0 && other != here() {
                met.fetch_add(1, Ordering::AcqRel);
                break;
            }
            std::hint::spin_loop();
        }
        if mine.is_ok() {
            raced.store(false, Ordering::Release);
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
fn serve_until(
    (processors, count): (u32, usize),
    owner: Option<usize>,
    load: Load,
    enough: impl Fn(&Load) -> bool,
) {
    let load = Arc::new(load);
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
        serve_until((2, LINES), None, Load::default(), |load| load.met.load(Ordering::Acquire) > 1_000);
    });
}

#[test]
fn a_line_stays_with_the_activation_that_takes_its_calls() {
    const LOOKS: u64 = 10_000;
    with_processors(&[2], || {
        serve_until((2, 1), None, Load { lasts: LOOKS, ..Load::default() }, |load| {
            // The other one has nothing to do, and looks whether it is to take the line over.
            underpass_threads::invite();
            assert!(load.taken_over.load(Ordering::Acquire) < 100);
            load.looks.load(Ordering::Acquire) >= LOOKS
        });
    });
}

#[test]
fn one_activation_serves_all_lines() {
    with_processors(&[1], || {
        serve_until((1, LINES), None, Load::default(), |load| {
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
        serve_until((1, LINES), Some(AWAY), Load::default(), |load| {
            load.served.iter().all(|served| served.load(Ordering::Acquire) > 0)
        });
    });
}
