//! What a domain of this benchmark does, with user-level threads or with kernel threads.

use crate::BenchError;
use crate::calls::{self, Probe, ProbeClient};
use serde::{Deserialize, Serialize};
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use underpass_os::clock::now_ns;

/// An order to a domain. It answers with numbers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum DomainOrder {
    /// So many threads compute from now on, and never reach a scheduling point.
    Compute(u64),
    /// They end. Answers how much they have computed.
    Rest,
    /// So many times: waits for `pause_us`, then lets a thread compute for `work_us`. Answers each
    /// time how long it took until the thread began, in ns.
    Wake { times: u64, pause_us: u64, work_us: u64 },
    /// Does that from now on, until `EndWaking`.
    BeginWaking { pause_us: u64, work_us: u64 },
    /// Answers each time how long it took until the thread had computed, in ns.
    EndWaking,
    /// So many threads count under one spin lock for so long. Answers how far they have come.
    Locks { threads: u64, ms: u64 },
    /// So many threads meet at a barrier for so long. Answers how often.
    Barriers { threads: u64, ms: u64 },
    /// Calls the server of this directory so often. Answers how long that took, in ns.
    Null(u64),
    /// Starts and joins so many threads, one after another. Answers how long that took, in ns.
    Fork(u64),
}

/// When a thread began, and when it had computed.
type Ran = (u64, u64);

fn compute_for(work: Duration) -> Ran {
    let begun = now_ns();
    let end = begun + work.as_nanos() as u64;
    while now_ns() < end {
        spin_loop();
    }
    (begun, now_ns())
}

/// What computes in the background.
struct Computing {
    over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    join: Box<dyn FnOnce()>,
}

/// Lets a thread compute, and waits for it.
type Waker = Box<dyn FnMut(Duration) -> Ran + Send>;

macro_rules! kind {
    ($(#[$about:meta])* $name:ident, $threads:path, $locks:path) => {
        $(#[$about])*
        mod $name {
            use super::*;
            use $locks as sync;
            use $threads as thread;

            pub(super) fn compute(threads: u64) -> Computing {
                let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
                let one = |_| {
                    let (over, done) = (over.clone(), done.clone());
                    thread::spawn(move || {
                        let mut count = 0;
                        // Relaxed, here and below: the words only count and end.
                        while !over.load(Ordering::Relaxed) {
                            spin_loop();
                            count += 1;
                        }
                        done.fetch_add(count, Ordering::Relaxed);
                    })
                };
                let threads: Vec<_> = (0..threads).map(one).collect();
                let join = move || threads.into_iter().for_each(|thread| drop(thread.join()));
                Computing { over, done, join: Box::new(join) }
            }

            /// So many threads do `operation` until the time is over. Returns how often.
            fn together(threads: u64, ms: u64, operation: impl Fn(bool) -> bool + Clone + Send + 'static) -> u64 {
                let end = now_ns() + ms * 1_000_000;
                let one = |_| {
                    let operation = operation.clone();
                    thread::spawn(move || {
                        let mut count = 0_u64;
                        while !operation(now_ns() >= end) {
                            count += 1;
                        }
                        count
                    })
                };
                let threads: Vec<_> = (0..threads).map(one).collect();
                threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
            }

            /// Figure 5's program: a pure spin lock, held for a moment.
            pub(super) fn locks(threads: u64, ms: u64) -> u64 {
                let (held, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
                together(threads, ms, move |is_over| {
                    for _ in 0..100 {
                        // SYNC with `held` store below, by the previous holder: the count.
                        while held.swap(true, Ordering::Acquire) {
                            while held.load(Ordering::Relaxed) {
                                spin_loop();
                            }
                        }
                        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        // SYNC with `held` swap above, by the next holder.
                        held.store(false, Ordering::Release);
                    }
                    is_over
                })
            }

            /// Figure 6's program: all meet, again and again.
            pub(super) fn barriers(threads: u64, ms: u64) -> u64 {
                let barrier = Arc::new(sync::Barrier::new(threads as usize));
                let last = Arc::new(AtomicBool::new(false));
                together(threads, ms, move |is_over| {
                    // All see the same decision: it is made before the first barrier, and read
                    // between the two.
                    if is_over {
                        last.store(true, Ordering::Relaxed);
                    }
                    barrier.wait();
                    let is_last = last.load(Ordering::Relaxed);
                    barrier.wait();
                    is_last
                })
            }

            pub(super) fn fork(times: u64) -> u64 {
                let begun = now_ns();
                (0..times).for_each(|_| drop(thread::spawn(|| ()).join()));
                now_ns() - begun
            }
        }
    };
}

kind!(
    /// User-level threads.
    ours, underpass::thread, underpass::sync
);
kind!(
    /// A kernel thread for each.
    kernel, std::thread, std::sync
);

/// A thread that is started each time.
fn user_level_waker() -> Waker {
    Box::new(|work| underpass::thread::spawn(move || compute_for(work)).join().unwrap_or((0, 0)))
}

/// A kernel thread that waits, and is woken each time: to start one takes longer.
fn kernel_waker() -> Waker {
    let (order, orders) = channel::<Duration>();
    let (answer, answers) = channel();
    std::thread::spawn(move || {
        for work in orders {
            if answer.send(compute_for(work)).is_err() {
                return;
            }
        }
    });
    Box::new(move |work| match order.send(work) {
        Ok(()) => answers.recv().unwrap_or((0, 0)),
        Err(_) => (0, 0),
    })
}

/// Wakes again and again in the background.
struct Waking {
    end: Sender<()>,
    thread: JoinHandle<(Waker, Vec<f64>)>,
}

/// A domain, between two orders.
pub(super) struct BenchDomain {
    is_kernel: bool,
    computing: Option<Computing>,
    waker: Option<Waker>,
    waking: Option<Waking>,
    probe: Option<ProbeClient>,
}

impl BenchDomain {
    pub(super) fn new(is_kernel: bool) -> Self {
        let waker = if is_kernel { kernel_waker() } else { user_level_waker() };
        Self { is_kernel, computing: None, waker: Some(waker), waking: None, probe: None }
    }

    pub(super) fn perform(&mut self, order: DomainOrder) -> Result<Vec<f64>, BenchError> {
        let one = |number: u64| Ok(vec![number as f64]);
        match (order, self.is_kernel) {
            (DomainOrder::Compute(threads), is_kernel) => {
                self.rest();
                self.computing =
                    Some(if is_kernel { kernel::compute(threads) } else { ours::compute(threads) });
                Ok(Vec::new())
            }
            (DomainOrder::Rest, _) => one(self.rest()),
            (DomainOrder::Wake { times, pause_us, work_us }, _) => self.wake(times, pause_us, work_us),
            (DomainOrder::BeginWaking { pause_us, work_us }, _) => self.begin_waking(pause_us, work_us),
            (DomainOrder::EndWaking, _) => self.end_waking(),
            (DomainOrder::Locks { threads, ms }, true) => one(kernel::locks(threads, ms)),
            (DomainOrder::Locks { threads, ms }, false) => one(ours::locks(threads, ms)),
            (DomainOrder::Barriers { threads, ms }, true) => one(kernel::barriers(threads, ms)),
            (DomainOrder::Barriers { threads, ms }, false) => one(ours::barriers(threads, ms)),
            (DomainOrder::Fork(times), true) => one(kernel::fork(times)),
            (DomainOrder::Fork(times), false) => one(ours::fork(times)),
            (DomainOrder::Null(times), _) => one(self.null(times)?),
        }
    }

    fn rest(&mut self) -> u64 {
        let Some(Computing { over, done, join }) = self.computing.take() else { return 0 };
        over.store(true, Ordering::Relaxed);
        join();
        done.load(Ordering::Relaxed)
    }

    fn wake(&mut self, times: u64, pause_us: u64, work_us: u64) -> Result<Vec<f64>, BenchError> {
        let waker = self.waker.as_mut().ok_or("it wakes already")?;
        let once = |_| {
            std::thread::sleep(Duration::from_micros(pause_us));
            let ordered = now_ns();
            waker(Duration::from_micros(work_us)).0.saturating_sub(ordered) as f64
        };
        Ok((0..times).map(once).collect())
    }

    fn begin_waking(&mut self, pause_us: u64, work_us: u64) -> Result<Vec<f64>, BenchError> {
        let mut waker = self.waker.take().ok_or("it wakes already")?;
        let (end, ends) = channel();
        let thread = std::thread::spawn(move || {
            let mut took = Vec::new();
            while ends.recv_timeout(Duration::from_micros(pause_us)).is_err() {
                let ordered = now_ns();
                let (_, done) = waker(Duration::from_micros(work_us));
                took.push(done.saturating_sub(ordered) as f64);
            }
            (waker, took)
        });
        self.waking = Some(Waking { end, thread });
        Ok(Vec::new())
    }

    fn end_waking(&mut self) -> Result<Vec<f64>, BenchError> {
        let Waking { end, thread } = self.waking.take().ok_or("it does not wake")?;
        end.send(())?;
        let (waker, took) = thread.join().map_err(|_| "the waker panicked")?;
        self.waker = Some(waker);
        Ok(took)
    }

    /// By one user-level thread.
    fn null(&mut self, times: u64) -> Result<u64, BenchError> {
        let probe = match self.probe.take() {
            Some(probe) => probe,
            None => calls::import()?,
        };
        self.probe = Some(probe.clone());
        let call = move || -> Result<u64, underpass::CallError> {
            let begun = now_ns();
            (0..times).try_for_each(|_| probe.null())?;
            Ok(now_ns() - begun)
        };
        Ok(underpass::thread::spawn(call).join().map_err(|_| "a thread panicked")??)
    }
}
