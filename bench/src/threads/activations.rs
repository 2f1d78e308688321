//! The cost of an activation's kernel thread when threads block in the kernel (OThreads, Table 1):
//! it is started, woken and stopped.
//!
//! A `batch` sums the times that the threads record. Waiting for a quiet state between two of them
//! is not timed.

use super::timed::Timed;
use super::{package, paper};
use crate::measure::contest::{Contest, Subject};
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Effort, Figures};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use underpass::thread::{blocking, spawn};
use underpass_os::clock::now_ns;

/// The longest wait, so that a benchmark cannot hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough for an activation without work to fall asleep.
const REST: Duration = Duration::from_micros(200);

/// `activation-start`: a thread becomes ready while all activations are in blocking calls. It runs
/// on a new kernel thread.
pub(super) fn start(client: &ScenarioClient) -> Result<(), BenchError> {
    underpass::processors::set(1);
    let mut blocked = Blocked::default();
    // The first one finds an idle activation.
    blocked.one_more()?;
    /// With one CPU, there may be at most 64 activations.
    const ROUNDS: usize = 9;
    const EACH: u64 = 6;
    let effort = Effort { least: ROUNDS, most: ROUNDS, ..client.effort() };
    let mut kernel = Kernel::Starts;
    let mut progress = |share| client.progress(share);
    let contest = Contest::of(&mut [&mut blocked, &mut kernel], &[EACH, EACH], effort, &mut progress)?;
    client.report("activation-start", paper(Figures::of(&contest, 0, 1), (Some(140.0), None)))
}

/// `activation-wake`: as `activation-start`, with an activation that sleeps.
pub(super) fn wake(client: &ScenarioClient) -> Result<(), BenchError> {
    underpass::processors::set(1);
    let mut blocked = Blocked::default();
    blocked.one_more()?;
    // The thread ends, and leaves an activation asleep.
    spawned()?;
    let contest = client.contest(&mut [&mut Wakes, &mut Kernel::Wakes], 0, 1)?;
    drop(blocked);
    client.report("activation-wake", Figures::of(&contest, 0, 1))
}

/// `activation-stop`: a blocking call ends while another thread has the processor. The time runs
/// until its thread continues. The other thread ends at once.
pub(super) fn stop(client: &ScenarioClient) -> Result<(), BenchError> {
    underpass::processors::set(1);
    let mut kernel = Timed::kernel("std ping-pong", package::kernel::ping_pong);
    let contest = client.contest(&mut [&mut Stops, &mut kernel], 0, 1)?;
    client.report("activation-stop", paper(Figures::of(&contest, 0, 1), (Some(230.0), None)))
}

/// An event to wait for in the kernel.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(open, |open| !*open).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Threads in blocking calls, one more for each operation. All of them leave when this value is
/// dropped.
#[derive(Default)]
struct Blocked {
    end: Arc<Gate>,
}

impl Blocked {
    /// The ns until a new thread runs. The thread then blocks.
    fn one_more(&mut self) -> Result<u64, BenchError> {
        let (tell, told) = mpsc::channel();
        let end = Arc::clone(&self.end);
        let begun = now_ns();
        let thread = spawn(move || {
            let now = now_ns();
            blocking(|| {
                // If nothing receives this, the benchmark has failed.
                let _ = tell.send(now);
                end.pass();
            });
        });
        drop(thread);
        Ok(heard(&told, "work was spawned beside blocking calls")? - begun)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.end.open();
    }
}

impl Subject for Blocked {
    fn name(&self) -> &str {
        "ours"
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        (0..operations).map(|_| self.one_more()).sum()
    }

    /// There are not enough activations.
    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

fn heard(told: &Receiver<u64>, what: &str) -> Result<u64, BenchError> {
    let told = told.recv_timeout(PATIENCE);
    told.map_err(|_| format!("{what}, and it did not run for {} s", PATIENCE.as_secs()).into())
}

/// The ns until a new thread runs. The thread then ends.
fn spawned() -> Result<u64, BenchError> {
    let (tell, told) = mpsc::channel();
    let begun = now_ns();
    drop(spawn(move || tell.send(now_ns())));
    Ok(heard(&told, "work was spawned beside a blocking call")? - begun)
}

/// New threads while one activation is blocked and another sleeps.
struct Wakes;

impl Wakes {
    fn once() -> Result<u64, BenchError> {
        std::thread::sleep(REST);
        spawned()
    }
}

/// Times that are recorded one by one, as a subject.
macro_rules! spans {
    ($subject:ty, $name:literal, $once:expr) => {
        impl Subject for $subject {
            fn name(&self) -> &str {
                $name
            }

            fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
                (0..operations).map(|_| $once).sum()
            }

            fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
                for _ in 0..operations {
                    let span: Result<u64, BenchError> = $once;
                    samples.push(span? as f64);
                }
                Ok(())
            }
        }
    };
}

spans!(Wakes, "ours", Wakes::once());

/// Ends of blocking calls, each while another thread has the processor.
struct Stops;

impl Stops {
    fn once() -> Result<u64, BenchError> {
        let (tell, told) = mpsc::channel();
        drop(spawn(move || {
            let (gate, back) = (Gate::default(), AtomicBool::new(false));
            let (gate, back) = (Arc::new(gate), Arc::new(back));
            let (opens, came_back) = (Arc::clone(&gate), Arc::clone(&back));
            let ended = blocking(move || {
                drop(spawn(move || {
                    opens.open();
                    // Relaxed: this word carries nothing else. The thread waits for the CPU only,
                    // not for the activation's other threads.
                    while !came_back.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                }));
                gate.pass();
                let now = now_ns();
                back.store(true, Ordering::Relaxed);
                now
            });
            tell.send(now_ns() - ended)
        }));
        heard(&told, "a blocking call ended beside a thread that ended")
    }
}

spans!(Stops, "ours", Stops::once());

/// The same with kernel threads.
enum Kernel {
    /// A thread is started and runs.
    Starts,
    /// A sleeping thread is woken and runs.
    Wakes,
}

impl Subject for Kernel {
    fn name(&self) -> &str {
        "std"
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        match self {
            Self::Starts => (0..operations)
                .map(|_| {
                    let begun = now_ns();
                    let ran = std::thread::spawn(now_ns).join().map_err(|_| "reading the clock panicked")?;
                    Ok(ran - begun)
                })
                .sum(),
            Self::Wakes => wakes(operations),
        }
    }

    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

fn wakes(operations: u64) -> Result<u64, BenchError> {
    let (call, called): (Sender<()>, _) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let sleeper = std::thread::spawn(move || called.iter().try_for_each(|()| tell.send(now_ns())));
    let once = |_| {
        std::thread::sleep(REST);
        let begun = now_ns();
        call.send(())?;
        Ok(heard(&told, "a kernel thread was woken")? - begun)
    };
    let sum = (0..operations).map(once).sum();
    drop(call);
    sleeper.join().map_err(|_| "reading the clock panicked")??;
    sum
}
