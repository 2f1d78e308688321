//! The interface that the benchmarks call, and calls of it as a subject.

use crate::Error;
use crate::contest::Subject;
use crate::role::Role;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use underpass::{CallError, Server};
use underpass_os::clock::now_ns;

/// What the client calls.
#[underpass::interface]
pub trait Probe {
    /// Does nothing.
    fn null(&self) -> Result<(), CallError>;
    /// Takes bytes and gives their number.
    fn put(&self, data: &[u8]) -> Result<u64, CallError>;
    /// Gives `len` bytes.
    fn get(&self, len: u64) -> Result<Vec<u8>, CallError>;
    /// Gives what the server's domain has counted so far.
    fn counted(&self) -> Result<Counted, CallError>;
}

/// A domain's counters, as far as the benchmarks want them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, underpass::Wire)]
pub struct Counted {
    /// System calls made for calls.
    pub kernel_entries: u64,
    /// Times that a processor went to sleep.
    pub sleeps: u64,
    /// Wake-ups sent.
    pub wakeups: u64,
}

impl Counted {
    /// What this domain has counted so far.
    pub fn here() -> Self {
        let counters = underpass::counters();
        Self {
            kernel_entries: counters.kernel_entries,
            sleeps: counters.sleeps,
            wakeups: counters.wakeups_sent,
        }
    }

    /// What was counted since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            kernel_entries: self.kernel_entries.saturating_sub(earlier.kernel_entries),
            sleeps: self.sleeps.saturating_sub(earlier.sleeps),
            wakeups: self.wakeups.saturating_sub(earlier.wakeups),
        }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            kernel_entries: self.kernel_entries + other.kernel_entries,
            sleeps: self.sleeps + other.sleeps,
            wakeups: self.wakeups + other.wakeups,
        }
    }
}

struct Answers;

impl Probe for Answers {
    fn null(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn put(&self, data: &[u8]) -> Result<u64, CallError> {
        Ok(data.len() as u64)
    }

    fn get(&self, len: u64) -> Result<Vec<u8>, CallError> {
        Ok(vec![1; len as usize])
    }

    fn counted(&self) -> Result<Counted, CallError> {
        Ok(Counted::here())
    }
}

/// The exported name; the directory is the run's own.
const NAME: &str = "bench";

/// How long a server may take to start.
const APPEAR: Duration = Duration::from_secs(10);

/// How long any one call may take: a benchmark that hangs helps nobody.
const ANSWER: Duration = Duration::from_secs(30);

/// Serves the interface until the process is killed.
pub(crate) fn serve(_: &Role) -> Result<(), Error> {
    Ok(Server::new().export(NAME, Probe::serve(Answers)).run()?)
}

/// Imports the interface, which starts the runtime's kernel threads, on the CPUs that this kernel thread may use now.
pub(crate) fn import() -> Result<ProbeClient, Error> {
    let probe = ProbeClient::import_within(NAME, APPEAR)?;
    // A first call by a user-level thread, so that there are activations before the measuring thread settles elsewhere.
    let first = probe.with_deadline(ANSWER);
    underpass::thread::spawn(move || first.null()).join().map_err(|_| "the first caller panicked")??;
    Ok(probe)
}

/// What a calling thread does again and again.
pub(crate) trait Call: Fn() -> Result<(), CallError> + Clone + Send + 'static {}

impl<F: Fn() -> Result<(), CallError> + Clone + Send + 'static> Call for F {}

/// Calls made by user-level threads of this domain, one or many at once.
pub(crate) struct Calls<F> {
    name: String,
    threads: u64,
    call: F,
}

impl<F: Call> Calls<F> {
    /// `threads` threads that make `call` again and again.
    pub(crate) fn new(name: &str, threads: u64, call: F) -> Self {
        Self { name: name.into(), threads: threads.max(1), call }
    }

    /// Has each thread warm up, and all begin `work` together; gives what they return.
    pub(crate) fn together<T, W>(&self, work: W) -> Result<Vec<T>, Error>
    where
        T: Send + 'static,
        W: Fn(&F) -> Result<T, CallError> + Clone + Send + 'static,
    {
        let start = Arc::new(Start { missing: AtomicUsize::new(self.threads as usize) });
        let threads = (0..self.threads).map(|_| {
            let (call, work, start) = (self.call.clone(), work.clone(), Arc::clone(&start));
            underpass::thread::spawn(move || {
                let warm = warm_up(&call);
                start.wait();
                warm.and_then(|()| work(&call))
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|t| Ok(t.join().map_err(|_| "a calling thread panicked")??)).collect()
    }
}

/// Where threads that are ready wait for the last one.
struct Start {
    missing: AtomicUsize,
}

impl Start {
    fn wait(&self) {
        // Relaxed: nothing but the number matters.
        self.missing.fetch_sub(1, Ordering::Relaxed);
        while self.missing.load(Ordering::Relaxed) > 0 {
            underpass::thread::yield_now();
        }
    }
}

/// Long enough for both sides to wake up, and to have what they need in their caches.
fn warm_up(call: impl Fn() -> Result<(), CallError>) -> Result<(), CallError> {
    const WARM_UP_NS: u64 = 300_000;
    let start = now_ns();
    call()?;
    while now_ns() - start < WARM_UP_NS {
        call()?;
    }
    Ok(())
}

impl<F: Call> Subject for Calls<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn batch(&mut self, operations: u64) -> Result<u64, Error> {
        let share = operations.div_ceil(self.threads);
        let spans = self.together(move |call| {
            let start = now_ns();
            for _ in 0..share {
                call()?;
            }
            Ok((start, now_ns()))
        })?;
        let start = spans.iter().map(|span| span.0).min().unwrap_or(0);
        let end = spans.iter().map(|span| span.1).max().unwrap_or(0);
        // The shares may add up to a few more calls than asked for.
        Ok((u128::from(end - start) * u128::from(operations) / u128::from(share * self.threads)) as u64)
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), Error> {
        let share = operations.div_ceil(self.threads);
        let taken = self.together(move |call| {
            let mut taken = Vec::with_capacity(share as usize);
            let mut before = now_ns();
            for _ in 0..share {
                call()?;
                let now = now_ns();
                taken.push((now - before) as f64);
                before = now;
            }
            Ok(taken)
        })?;
        samples.extend(taken.into_iter().flatten());
        Ok(())
    }
}
