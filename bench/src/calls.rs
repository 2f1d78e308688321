//! The interface that the benchmarks call, and its calls as a measured subject.

mod window;

use crate::measure::call_counters::{Both, CallCounters, CountedCalls};
use crate::measure::contest::Subject;
use crate::processes::role::ChildRole;
use crate::{BenchError, Figures};
use std::sync::Arc;
use std::time::Duration;
use underpass::sync::Barrier;
use underpass::{CallError, Server, Service};
use underpass_os::clock::{self, now_ns};
pub(crate) use window::TimeWindow;

/// The interface that the client calls.
#[underpass::interface]
pub trait Probe {
    /// Does nothing.
    fn null(&self) -> Result<(), CallError>;
    /// Takes bytes and returns their number.
    fn put(&self, data: &[u8]) -> Result<u64, CallError>;
    /// Returns `len` bytes.
    fn get(&self, len: u64) -> Result<Vec<u8>, CallError>;
    /// Returns what the server's domain has counted so far.
    fn counted(&self) -> Result<CallCounters, CallError>;
    /// Computes for `ns` ns.
    fn compute(&self, ns: u64) -> Result<(), CallError>;
    /// Returns how many binding ends the server's domain polls.
    fn active(&self) -> Result<u64, CallError>;
    /// Returns the processor time that the server's process has used so far, in ns.
    fn cpu_ns(&self) -> Result<u64, CallError>;
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

    fn counted(&self) -> Result<CallCounters, CallError> {
        Ok(CallCounters::here())
    }

    fn compute(&self, ns: u64) -> Result<(), CallError> {
        let start = now_ns();
        while now_ns() - start < ns {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn active(&self) -> Result<u64, CallError> {
        Ok(underpass::active_bindings() as u64)
    }

    fn cpu_ns(&self) -> Result<u64, CallError> {
        Ok(clock::cpu_ns())
    }
}

/// The exported name. Each run has a directory of its own, so one name is enough.
pub(crate) const NAME: &str = "bench";

/// How long a server may take to start.
const APPEAR: Duration = Duration::from_secs(10);

/// The longest that a call may take, so that a benchmark cannot hang.
const ANSWER: Duration = Duration::from_secs(30);

/// Serves the interface until the process is killed.
pub(crate) fn serve(_: &ChildRole) -> Result<(), BenchError> {
    Ok(exporting(NAME).run()?)
}

/// As [`serve`], in a domain without processors of its own: only its callers' donated ones (URPC's
/// S = 0).
pub(crate) fn serve_donated(role: &ChildRole) -> Result<(), BenchError> {
    underpass::processors::set(0);
    serve(role)
}

/// Makes a server that exports the interface under this name.
pub(crate) fn exporting(name: &str) -> Server {
    export(Server::new(), name)
}

/// The same, beside what `server` exports already.
pub(crate) fn export(server: Server, name: &str) -> Server {
    server.export(name, Probe::serve(Answers))
}

/// The interface, served over a channel that has no name. Its procedure 0 does nothing.
pub(crate) fn lone_service() -> Service {
    Probe::serve(Answers)
}

/// Makes another binding of the interface.
pub(crate) fn bind() -> Result<ProbeClient, BenchError> {
    bind_to(NAME)
}

/// The same, over a connection of its own.
pub(crate) fn bind_apart() -> Result<ProbeClient, BenchError> {
    bind_apart_to(NAME)
}

/// Makes a binding of the interface that is exported under this name, over a connection of its own.
pub(crate) fn bind_apart_to(name: &str) -> Result<ProbeClient, BenchError> {
    Ok(ProbeClient::import_apart(name, APPEAR)?)
}

/// Makes another binding of the interface that is exported under this name.
pub(crate) fn bind_to(name: &str) -> Result<ProbeClient, BenchError> {
    Ok(ProbeClient::import_within(name, APPEAR)?)
}

/// Imports the interface. This starts the runtime's kernel threads, on the CPUs that the calling
/// kernel thread may use now.
pub(crate) fn import() -> Result<ProbeClient, BenchError> {
    let probe = bind()?;
    // The first call comes from a user-level thread, so that activations exist before the measuring
    // thread moves to its CPU.
    let first = probe.with_deadline(ANSWER);
    underpass::thread::spawn(move || first.null()).join().map_err(|_| "the first caller panicked")??;
    Ok(probe)
}

/// The call that a thread repeats.
pub(crate) trait CallFn: Fn() -> Result<(), CallError> + Clone + Send + 'static {}

impl<F: Fn() -> Result<(), CallError> + Clone + Send + 'static> CallFn for F {}

/// Calls made by threads of this domain, one or many at once.
pub(crate) struct Calls<F> {
    name: String,
    by: By,
    call: F,
    probe: Option<ProbeClient>,
    counts: CountedCalls,
    /// How long all threads call at once, if it is not a number of calls that they make.
    window: Option<Duration>,
}

/// The kind of callers.
#[derive(Clone, Copy)]
enum By {
    /// That many user-level threads.
    Users(u64),
    /// The measuring kernel thread.
    Kernel,
}

impl<F: CallFn> Calls<F> {
    /// `threads` user-level threads that repeat `call`.
    pub(crate) fn new(name: &str, threads: u64, call: F) -> Self {
        Self {
            name: name.into(),
            by: By::Users(threads.max(1)),
            call,
            probe: None,
            counts: CountedCalls::default(),
            window: None,
        }
    }

    /// As [`new`](Self::new), by the measuring kernel thread.
    pub(crate) fn by_kernel_thread(name: &str, call: F) -> Self {
        Self { by: By::Kernel, ..Self::new(name, 1, call) }
    }

    /// Reads both domains' counters before and after each batch, by calls of `probe`.
    pub(crate) fn counted(self, probe: &ProbeClient) -> Self {
        Self { probe: Some(probe.clone()), ..self }
    }

    /// As long as this, all threads call at once. Otherwise each makes a share of the calls, and
    /// the last ones call alone.
    pub(crate) fn within(self, window: Duration) -> Self {
        Self { window: Some(window), ..self }
    }

    /// The counts of all batches.
    pub(crate) fn counts(&self) -> CountedCalls {
        self.counts
    }

    /// Adds the counts to `figures`.
    pub(crate) fn tell(&self, figures: Figures) -> Figures {
        self.counts.tell(figures)
    }

    /// The number of calling threads.
    pub(crate) fn threads(&self) -> u64 {
        match self.by {
            By::Users(threads) => threads,
            By::Kernel => 1,
        }
    }

    /// Each thread warms up. Then all start `work` together. Returns the results. `calls` says how
    /// many calls they have made.
    fn together<T, W>(&mut self, work: W, calls: impl Fn(&[T]) -> u64) -> Result<Vec<T>, BenchError>
    where
        T: Send + 'static,
        W: Fn(&F) -> Result<T, CallError> + Clone + Send + 'static,
    {
        let threads = self.threads();
        let gate = Arc::new(Barrier::new(threads as usize));
        let caller = |leads: bool| {
            let (call, work, gate) = (self.call.clone(), work.clone(), Arc::clone(&gate));
            let probe = self.probe.clone().filter(|_| leads);
            move || {
                let warm = warm_up(&call);
                // All threads arrive, one reads the counters, and all start. At the end it is the
                // other way round.
                gate.wait();
                let before = probe.as_ref().map(Both::before);
                gate.wait();
                let done = warm.and_then(|()| work(&call));
                gate.wait();
                let after = probe.as_ref().map(Both::after);
                (done, before.zip(after))
            }
        };
        let done: Vec<_> = match self.by {
            By::Kernel => vec![caller(true)()],
            By::Users(_) => {
                let threads = (0..threads).map(|n| underpass::thread::spawn(caller(n == 0)));
                let threads: Vec<_> = threads.collect();
                let joined = threads.into_iter().map(|t| t.join().map_err(|_| "a calling thread panicked"));
                joined.collect::<Result<_, _>>()?
            }
        };
        let mut results = Vec::with_capacity(done.len());
        let mut both = None;
        for (result, counted) in done {
            results.push(result?);
            both = both.or(counted);
        }
        if let Some((before, after)) = both {
            self.counts.add(calls(&results), &before?, &after?);
        }
        Ok(results)
    }
}

/// Long enough for both sides to wake up and to fill their caches.
pub(crate) fn warm_up(call: impl Fn() -> Result<(), CallError>) -> Result<(), CallError> {
    const WARM_UP_NS: u64 = 300_000;
    let start = now_ns();
    call()?;
    while now_ns() - start < WARM_UP_NS {
        call()?;
    }
    Ok(())
}

impl<F: CallFn> Subject for Calls<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_windowed(&self) -> bool {
        self.window.is_some()
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        if let Some(window) = self.window {
            return self.call_within(window, operations);
        }
        let threads = self.threads();
        let share = operations.div_ceil(threads);
        let work = move |call: &F| {
            let start = now_ns();
            for _ in 0..share {
                call()?;
            }
            Ok((start, now_ns()))
        };
        let spans = self.together(work, |_| share * threads)?;
        let start = spans.iter().map(|span| span.0).min().unwrap_or(0);
        let end = spans.iter().map(|span| span.1).max().unwrap_or(0);
        // The shares may add up to slightly more calls than requested.
        Ok((u128::from(end - start) * u128::from(operations) / u128::from(share * threads)) as u64)
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
        let threads = self.threads();
        let share = operations.div_ceil(threads);
        if let Some(window) = self.window {
            return self.sample_within(window, share, samples);
        }
        let work = move |call: &F| {
            let mut taken = Vec::with_capacity(share as usize);
            let mut before = now_ns();
            for _ in 0..share {
                call()?;
                let now = now_ns();
                taken.push((now - before) as f64);
                before = now;
            }
            Ok(taken)
        };
        let taken = self.together(work, |_| share * threads)?;
        samples.extend(taken.into_iter().flatten());
        Ok(())
    }
}
