//! Activations that serve calls divide the lines among themselves, and one that is alone serves
//! all.

mod common;

use common::with_processors;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use underpass_os::thread::here;
use underpass_processor::{Keeper, Line, lines};
use underpass_threads::rouse_all;

const LINES: usize = 2;

/// What both lines have in common: calls wait on them always, until it is over.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    /// The kernel thread that serves a call of each line at this moment, or 0.
    serves: [AtomicUsize; LINES],
    /// Calls of each line that were served.
    served: [AtomicU64; LINES],
    /// Times that calls of both lines were served at once, by two.
    met: AtomicU64,
}

struct End {
    number: usize,
    load: Arc<Load>,
    keeper: Keeper,
    word: AtomicU32,
}

impl Line for End {
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
        /// A call of some microseconds.
        const LOOKS: u32 = 300;
        if !self.pending() {
            return false;
        }
        let Load { serves, served, met, .. } = &*self.load;
        let mine = serves[self.number].compare_exchange(0, here(), Ordering::AcqRel, Ordering::Relaxed);
        for _ in 0..LOOKS {
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
    fn knock(&self) {}
    fn keeper(&self) -> Option<&Keeper> {
        Some(&self.keeper)
    }
    fn elsewhere(&self) -> bool {
        true
    }
    fn shares(&self) -> bool {
        true
    }
}

/// Lays the load on this domain's activations, of lines with this keeper, until `enough` of it was
/// seen.
fn serve_until(processors: u32, keeper: Option<usize>, enough: impl Fn(&Load) -> bool) {
    let load = Arc::new(Load::default());
    let ends: Vec<Arc<End>> = (0..LINES)
        .map(|number| {
            let end = End { number, load: load.clone(), keeper: Keeper::default(), word: AtomicU32::new(0) };
            end.keeper.set(keeper);
            Arc::new(end)
        })
        .collect();
    // As many activations as may run are there, and sleep.
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
    rouse_all();
    while !enough(&load) {
        std::thread::yield_now();
    }
    load.over.store(true, Ordering::Release);
    // Who serves no more keeps nothing.
    while ends.iter().any(|end| end.keeper.get().is_some()) {
        std::thread::yield_now();
    }
    for end in ends {
        lines::remove(&(end as Arc<dyn Line>));
    }
}

#[test]
fn two_activations_serve_two_lines_at_once() {
    with_processors(&[2], || {
        // The second one is called by the first, which has more to do than one can.
        serve_until(2, None, |load| load.met.load(Ordering::Acquire) > 1_000);
    });
}

#[test]
fn one_activation_serves_all_lines() {
    with_processors(&[1], || {
        serve_until(1, None, |load| load.served.iter().all(|served| served.load(Ordering::Acquire) > 1_000));
    });
}

#[test]
fn lines_of_a_keeper_that_takes_no_calls_are_taken_over() {
    /// No activation has this number: it is like one whose kernel thread waits for a processor.
    const AWAY: usize = 63;
    with_processors(&[1], || {
        // Whoever serves leaves no line to it in the end.
        serve_until(1, Some(AWAY), |load| {
            load.served.iter().all(|served| served.load(Ordering::Acquire) > 0)
        });
    });
}
