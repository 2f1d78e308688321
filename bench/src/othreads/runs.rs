//! The test applications. The code is the same for both kinds of threads.

use super::domain_barrier::{DomainBarrier, DomainBarrierClient};
use crate::BenchError;
use crate::measure::contest::Subject;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use underpass::CallError;
use underpass_os::clock::now_ns;

/// The amount of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// The operations of all threads together.
    pub(super) operations: u64,
    /// The operations of a thread between two calls.
    pub(super) each: u64,
}

impl Work {
    /// How often each of that many threads calls.
    pub(super) fn calls(self, threads: u64) -> u64 {
        WorkShare::of(self, threads).calls
    }
}

/// The work of each thread: it makes `operations` operations and then a call, and repeats that
/// `calls` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkShare {
    threads: u64,
    calls: u64,
    operations: u64,
}

impl WorkShare {
    fn of(work: Work, threads: u64) -> Self {
        let mine = work.operations.div_ceil(threads);
        let calls = (mine / work.each).max(1);
        Self { threads, calls, operations: mine.div_ceil(calls) }
    }

    /// The operations of all threads.
    fn all(self) -> u64 {
        self.threads * self.calls * self.operations
    }
}

/// What a thread does that finds the spin lock held.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Spinner {
    /// It spins on.
    #[default]
    Stays,
    /// It lets the kernel run another thread (CThreads: it drops its priority).
    GivesWay,
}

/// A pure spin lock.
#[derive(Default)]
pub(super) struct Spinlock {
    spinner: Spinner,
    held: AtomicBool,
    /// The guarded count. Relaxed: the lock orders its accesses.
    count: AtomicU64,
}

impl Spinlock {
    pub(super) fn new(spinner: Spinner) -> Self {
        Self { spinner, ..Self::default() }
    }

    pub(super) fn count_one(&self) {
        // SYNC with `held` store below, by the previous holder: the count.
        while self.held.swap(true, Ordering::Acquire) {
            // Spins on a load, which leaves the cache line with the holder. Relaxed: the swap
            // decides.
            while self.held.load(Ordering::Relaxed) {
                match self.spinner {
                    Spinner::Stays => std::hint::spin_loop(),
                    Spinner::GivesWay => std::thread::yield_now(),
                }
            }
        }
        self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // SYNC with `held` swap above, by the next holder.
        self.held.store(false, Ordering::Release);
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

macro_rules! runs {
    ($(#[$about:meta])* $name:ident, $threads:path, $locks:path) => {
        $(#[$about])*
        pub(super) mod $name {
            use super::{DomainBarrierClient, Spinlock, Spinner, WorkShare, calls_alone, together};
            use crate::BenchError;
            use std::sync::Arc;
            use underpass::CallError;
            use $threads as thread;
            use $locks as sync;

            /// The ns until all threads have counted with a spin lock.
            pub(crate) fn spinlocks(
                meeting: &DomainBarrierClient,
                share: WorkShare,
                spinner: Spinner,
            ) -> Result<u64, BenchError> {
                let lock = Arc::new(Spinlock::new(spinner));
                let counted = Arc::clone(&lock);
                let ns = run(meeting, share, move |meeting| together(meeting, share, || lock.count_one()))?;
                let all = share.all();
                let counted = counted.count();
                if counted == all { Ok(ns) } else { Err(format!("{counted} of {all} operations").into()) }
            }

            /// The ns until all threads have passed the barriers.
            pub(crate) fn barriers(
                meeting: &DomainBarrierClient,
                share: WorkShare,
                _: Spinner,
            ) -> Result<u64, BenchError> {
                let barrier = Arc::new(sync::Barrier::new(share.threads as usize));
                run(meeting, share, move |meeting| {
                    together(meeting, share, || {
                        barrier.wait();
                    })
                })
            }

            /// The ns until all threads have made their calls.
            pub(crate) fn calls(
                meeting: &DomainBarrierClient,
                share: WorkShare,
                _: Spinner,
            ) -> Result<u64, BenchError> {
                run(meeting, share, move |meeting| calls_alone(meeting, share))
            }

            /// `part` is what each thread does. It returns when it began and ended.
            fn run(
                meeting: &DomainBarrierClient,
                share: WorkShare,
                part: impl Fn(&DomainBarrierClient) -> Result<(u64, u64), CallError> + Clone + Send + 'static,
            ) -> Result<u64, BenchError> {
                let threads = (0..share.threads).map(|_| {
                    let (meeting, part) = (meeting.clone(), part.clone());
                    thread::spawn(move || part(&meeting))
                });
                let threads: Vec<_> = threads.collect();
                let spans = threads.into_iter().map(|t| Ok(t.join().map_err(|_| "a thread panicked")??));
                let spans = spans.collect::<Result<Vec<_>, BenchError>>()?;
                let begun = spans.iter().map(|span| span.0).min().unwrap_or(0);
                Ok(spans.iter().map(|span| span.1).max().unwrap_or(0) - begun)
            }
        }
    };
}

runs!(
    /// User-level threads.
    ours, underpass::thread, underpass::sync
);
runs!(
    /// A kernel thread for each.
    kernel, std::thread, std::sync
);

/// Waits until all threads are there. Returns the time.
fn begin(meeting: &DomainBarrierClient, share: WorkShare) -> Result<u64, CallError> {
    meeting.arrive(share.threads)?;
    Ok(now_ns())
}

/// The part of one thread. Returns when it began, once all were there, and when it ended.
fn together(
    meeting: &DomainBarrierClient,
    share: WorkShare,
    operation: impl Fn(),
) -> Result<(u64, u64), CallError> {
    let begun = begin(meeting, share)?;
    for _ in 0..share.calls {
        (0..share.operations).for_each(|_| operation());
        meeting.arrive(share.threads)?;
    }
    Ok((begun, now_ns()))
}

/// As [`together`], where each operation is a call that does nothing, and nobody waits for others.
fn calls_alone(meeting: &DomainBarrierClient, share: WorkShare) -> Result<(u64, u64), CallError> {
    let begun = begin(meeting, share)?;
    for _ in 0..share.calls * share.operations {
        meeting.nothing()?;
    }
    Ok((begun, now_ns()))
}

pub(super) type Function = fn(&DomainBarrierClient, WorkShare, Spinner) -> Result<u64, BenchError>;

/// A line of a figure: which threads do what.
#[derive(Clone, Copy)]
pub(super) struct FigureLine {
    pub(super) name: &'static str,
    pub(super) function: Function,
    pub(super) spinner: Spinner,
}

/// One line of a figure, with that many threads.
pub(super) struct Run {
    name: &'static str,
    function: Function,
    spinner: Spinner,
    meeting: DomainBarrierClient,
    threads: u64,
    each: u64,
}

impl Run {
    pub(super) fn new(
        FigureLine { name, function, spinner }: FigureLine,
        meeting: DomainBarrierClient,
        threads: u64,
        work: Work,
    ) -> Self {
        Self { name, function, spinner, meeting, threads, each: work.each }
    }
}

impl Subject for Run {
    fn name(&self) -> &str {
        self.name
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        let share = WorkShare::of(Work { operations, each: self.each }, self.threads);
        let ns = (self.function)(&self.meeting, share, self.spinner)?;
        // The shares may add up to slightly more operations than requested.
        Ok((u128::from(ns) * u128::from(operations) / u128::from(share.all())) as u64)
    }

    /// A run is timed as a whole.
    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_add_up() {
        let work = Work { operations: 60_000, each: 1_000 };
        assert_eq!(WorkShare::of(work, 1), WorkShare { threads: 1, calls: 60, operations: 1_000 });
        for threads in 1..=20 {
            let share = WorkShare::of(work, threads);
            let excess = share.all() - work.operations;
            assert!(excess < threads * (share.calls + 1), "{share:?}");
        }
        assert_eq!(
            WorkShare::of(Work { operations: 10, each: 100 }, 3),
            WorkShare { threads: 3, calls: 1, operations: 4 }
        );
    }
}
