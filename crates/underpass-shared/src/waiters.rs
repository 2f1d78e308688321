//! The threads of this domain that wait in the region's queues: private memory. The steps E1 to E7
//! are in `README.md`.

use crate::layout::WAITERS;
use crate::runtime::{Control, TaskWaker, open};
use crate::thread_name;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use underpass_seam::Gate;
use underpass_seam::atomic::{AtomicU64, Ordering};

/// The waiters of this domain, each taken by one thread at a time.
///
/// | field | written by |
/// |---|---|
/// | `taken` | whoever takes or frees a waiter: its bit |
/// | `keys` | nobody: what makes keys unguessable |
/// | `all` | see [`OwnWaiter`] |
#[derive(Debug)]
pub(crate) struct RegionWaiters {
    taken: AtomicU64,
    keys: RandomState,
    all: [OwnWaiter; WAITERS],
}

/// One waiter.
///
/// | field | written by |
/// |---|---|
/// | `gate` | opened by anybody; shut, and waited at, by the thread that has the waiter |
/// | `name` | the thread that has the waiter: the name of its wait, or of its last one |
/// | `queue` | the same thread: where it is enrolled, or 0 |
/// | `task` | the task that has the waiter, if it is a task |
#[derive(Debug)]
pub(crate) struct OwnWaiter {
    pub(crate) gate: Gate<Control>,
    pub(crate) task: TaskWaker,
    pub(crate) name: AtomicU64,
    pub(crate) queue: AtomicU64,
}

impl OwnWaiter {
    /// Makes the thread or task that has this waiter look again.
    pub(crate) fn tell(&self) {
        open(&self.gate);
        self.task.wake();
    }
}

impl RegionWaiters {
    pub(crate) fn new() -> Self {
        let waiter = |()| OwnWaiter {
            gate: Gate::new(),
            task: TaskWaker::default(),
            name: AtomicU64::new(0),
            queue: AtomicU64::new(0),
        };
        Self { taken: AtomicU64::new(0), keys: RandomState::new(), all: [(); WAITERS].map(waiter) }
    }

    /// The waiter `index`.
    pub(crate) fn get(&self, index: usize) -> Option<&OwnWaiter> {
        self.all.get(index)
    }

    /// Takes a waiter, if one is free.
    pub(crate) fn take(&self) -> Option<usize> {
        // Relaxed: the exchange below decides.
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            let index = taken.trailing_ones() as usize;
            if index >= WAITERS {
                return None;
            }
            // Acquire: SYNC with the fetch_and in `give_back`: what the last thread wrote.
            let with = taken | 1 << index;
            match self.taken.compare_exchange(taken, with, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(index),
                Err(found) => taken = found,
            }
        }
    }

    /// Gives a waiter back.
    pub(crate) fn give_back(&self, index: usize) {
        // Release: SYNC with the exchange in `take`.
        self.taken.fetch_and(!(1 << index), Ordering::Release);
    }

    /// Gives waiter `index`, which the caller has taken, the name of a new wait.
    pub(crate) fn rename(&self, index: usize) -> u64 {
        let name = &self.all[index].name;
        // Relaxed, here and below: only its taker writes it. A thread that reads it for a wake-up
        // has read a bit that was set afterwards, or is told apart by the key.
        let generation = ((name.load(Ordering::Relaxed) >> 32) as u32).wrapping_add(1).max(1);
        let key = self.keys.hash_one((index, generation)) as u32;
        let word = thread_name::word(generation, key);
        name.store(word, Ordering::Relaxed);
        word
    }

    /// All waiters.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &OwnWaiter> {
        self.all.iter()
    }
}
