//! All activations of a domain.

use crate::Activation;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most activations that a domain has.
pub const MOST_ACTIVATIONS: usize = 1024;

/// The activations in the order of their numbers. It only grows, by a caller that holds the lock of
/// starts.
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

    /// Appends the activation whose number comes next.
    pub(crate) fn push(&self, activation: &'static Activation) {
        // SYNC with `len` load in `iter`. The length comes before the entry: an activation goes on
        // once its entry is there, and a thread that learns of it has to find it.
        self.len.store(activation.number() + 1, Ordering::Release);
        let set = self.table[activation.number()].set(activation);
        assert!(set.is_ok(), "the caller holds the lock of starts");
    }

    /// Waits until all threads find the activation of this number.
    pub(crate) fn wait(&self, number: usize) {
        self.table[number].wait();
    }

    /// How many activations there are.
    pub(crate) fn len(&self) -> usize {
        // Relaxed: a number. A caller that starts activations holds the lock of starts.
        self.len.load(Ordering::Relaxed)
    }

    /// The activation of this number, if it has been started.
    pub(crate) fn get(&self, number: usize) -> Option<&'static Activation> {
        self.table[number].get().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Activation> {
        // SYNC with `len` store in `push`. The entries synchronize by themselves.
        let len = self.len.load(Ordering::Acquire);
        self.table[..len].iter().filter_map(OnceLock::get).copied()
    }
}
