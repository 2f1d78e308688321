//! All activations of a domain.

use crate::Activation;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More activations than this no domain has.
pub const MOST_ACTIVATIONS: usize = 1024;

/// Activations in the order of their numbers. Only grows, by one who holds the lock of starts.
#[derive(Debug)]
pub(crate) struct Registry {
    table: Box<[OnceLock<&'static Activation>]>,
    len: AtomicUsize,
}

impl Registry {
    pub(crate) fn new() -> Self {
        let table = std::iter::repeat_with(OnceLock::new).take(MOST_ACTIVATIONS).collect();
        Self { table, len: AtomicUsize::new(0) }
    }

    /// Appends the one whose number comes next.
    pub(crate) fn push(&self, activation: &'static Activation) {
        // SYNC with `len` load in `iter`. Before the entry: whom the entry lets go on is found by
        // who learns of it.
        self.len.store(activation.number() + 1, Ordering::Release);
        let set = self.table[activation.number()].set(activation);
        assert!(set.is_ok(), "the caller holds the lock of starts");
    }

    /// Waits until the one of this number is found by all.
    pub(crate) fn wait(&self, number: usize) {
        self.table[number].wait();
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        // Relaxed: a number. Who starts holds the lock.
        self.len.load(Ordering::Relaxed)
    }

    /// The one of this number, if it has been started.
    pub(crate) fn get(&self, number: usize) -> Option<&'static Activation> {
        self.table[number].get().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Activation> {
        // SYNC with `len` store in `push`. The entries synchronize for themselves.
        let len = self.len.load(Ordering::Acquire);
        self.table[..len].iter().filter_map(OnceLock::get).copied()
    }
}
