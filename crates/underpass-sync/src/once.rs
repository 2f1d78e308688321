//! Running a function once.

use crate::holder;
use crate::queue_wait::QueueWait;
use crate::runtime::{WaitLimit, const_fn, me};
use crate::wait_queue::{ListEnd, WaitQueue};
use std::fmt;
use underpass_seam::atomic::{AtomicU32, AtomicUsize, Ordering};

/// No thread has begun.
const NEW: u32 = 0;
/// A thread runs the function.
const RUNNING: u32 = 1;
/// The thread that ran the function panicked.
const POISONED: u32 = 2;
/// It is done.
const DONE: u32 = 3;

/// `std`'s `Once` for user-level threads.
///
/// | field | written by |
/// |---|---|
/// | `state` | any thread, to make it `RUNNING` by compare-and-exchange; then that thread |
/// | `runner` | the thread that made it `RUNNING` |
/// | `waiters` | see there |
///
/// # Examples
/// ```
/// static START: underpass::sync::Once = underpass::sync::Once::new();
/// let mut times = 0;
/// START.call_once(|| times += 1);
/// START.call_once(|| times += 1);
/// assert!(times == 1 && START.is_completed());
/// ```
pub struct Once {
    state: AtomicU32,
    runner: AtomicUsize,
    waiters: WaitQueue<(), (), 1>,
}

/// The state that is passed to [`Once::call_once_force`]'s function.
#[derive(Debug)]
pub struct OnceState {
    poisoned: bool,
}

impl OnceState {
    /// Whether a thread that tried before panicked.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }
}

impl Once {
    const_fn! {
        /// A `Once` that has not run.
        pub fn new() -> Once {
            Once { state: AtomicU32::new(NEW), runner: AtomicUsize::new(0), waiters: WaitQueue::new(()) }
        }
    }

    /// Runs `f` if nothing has run yet. Otherwise waits until the function that runs is done.
    ///
    /// # Panics
    /// If a thread that tried before panicked.
    #[inline]
    pub fn call_once(&self, f: impl FnOnce()) {
        if !self.is_completed() {
            self.call(false, |_| f());
        }
    }

    /// As [`call_once`](Self::call_once), but runs `f` after a panic as well.
    #[inline]
    pub fn call_once_force(&self, f: impl FnOnce(&OnceState)) {
        if !self.is_completed() {
            self.call(true, f);
        }
    }

    /// Whether it is done.
    #[inline]
    pub fn is_completed(&self) -> bool {
        // SYNC with `state` store in `Running::drop`: what the function did.
        self.state.load(Ordering::Acquire) == DONE
    }

    /// Waits until the function is done, whichever thread runs it.
    ///
    /// # Panics
    /// If a thread that tried panicked.
    pub fn wait(&self) {
        self.wait_with(false);
    }

    /// As [`wait`](Self::wait), but goes on waiting if a thread that tried panicked.
    pub fn wait_force(&self) {
        self.wait_with(true);
    }

    fn wait_with(&self, force: bool) {
        while !self.is_completed() {
            if force {
                self.wait_until(|state| state == DONE);
            } else {
                // SYNC with `state` store in `Running::drop`: what the thread that panicked did.
                assert!(self.state.load(Ordering::Acquire) != POISONED, "{BROKEN}");
                self.wait_until(|state| state == DONE || state == POISONED);
            }
        }
    }

    #[cold]
    fn call(&self, force: bool, f: impl FnOnce(&OnceState)) {
        loop {
            // SYNC with `state` store in `Running::drop`: what the function did.
            let state = self.state.load(Ordering::Acquire);
            match state {
                DONE => return,
                RUNNING => self.wait_until(|state| state != RUNNING),
                _ => {
                    assert!(force || state != POISONED, "{BROKEN}");
                    // SYNC with `state` store in `Running::drop`: what the thread that panicked
                    // did.
                    let begun =
                        self.state.compare_exchange(state, RUNNING, Ordering::Acquire, Ordering::Relaxed);
                    if begun.is_ok() {
                        return self.run(state, f);
                    }
                }
            }
        }
    }

    fn run(&self, before: u32, f: impl FnOnce(&OnceState)) {
        // Relaxed: it is for people, and for guesses that are checked.
        self.runner.store(holder::mark(), Ordering::Relaxed);
        let mut running = Running { once: self, becomes: POISONED };
        f(&OnceState { poisoned: before == POISONED });
        running.becomes = DONE;
    }

    /// Waits for the next end of a run, unless the state is one of `these`.
    fn wait_until(&self, these: fn(u32) -> bool) {
        let me = me();
        let held = self.waiters.lock();
        // Inside the queue: a thread that ends a run enters the queue afterwards, and finds us
        // there. Therefore relaxed.
        if these(self.state.load(Ordering::Relaxed)) {
            return;
        }
        held.enlist(me, 0, ListEnd::Back, (), |entry| {
            let holder = || holder::number(self.runner.load(Ordering::Relaxed));
            QueueWait::new(entry, "something done once", self, &holder).suspend(me, WaitLimit::Endless, false)
        });
    }
}

const BROKEN: &str = "what was to be done once panicked before; use `call_once_force` to try again";

/// A thread runs the function. The run ends when this is dropped.
struct Running<'a> {
    once: &'a Once,
    becomes: u32,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.once.runner.store(0, Ordering::Relaxed);
        // SYNC with `state` loads in `is_completed`, `call` and `wait_with`: what the function did.
        self.once.state.store(self.becomes, Ordering::Release);
        self.once.waiters.lock().wake_all(0);
    }
}

impl Default for Once {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("completed", &self.is_completed()).finish_non_exhaustive()
    }
}
