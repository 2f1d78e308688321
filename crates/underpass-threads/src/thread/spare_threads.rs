//! Spare kernel threads, for calls that block in the kernel while their callers' activations go on.

use crate::block::control::Control;
use crate::block::suspension::{Awaited, Wait};
use crate::wait::latch::Latch;
use crate::wait::me::control;
use crate::wait::suspend::suspend;
use crate::wait::wait_on::Opens;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most spare kernel threads; further calls wait for one of them.
const MOST: usize = 512;
/// How long a spare kernel thread waits for another call before it ends.
const PATIENCE: Duration = Duration::from_secs(5);

type Call = Box<dyn FnOnce() + Send>;

struct Spares {
    waiting: VecDeque<Call>,
    /// Those that begin or look for a call: each takes one of those that wait.
    idle: usize,
    all: usize,
}

static SPARES: Mutex<Spares> = Mutex::new(Spares { waiting: VecDeque::new(), idle: 0, all: 0 });
static CALLED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Spares> {
    SPARES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a spare kernel thread run `call`, and blocks the calling thread until it has. If the kernel
/// gives none, the caller runs it itself.
pub(crate) fn run<F, T>(call: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let done = Latch::default();
    let mut result = None;
    {
        let (done, result) = (&done, &mut result);
        let call: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
            *result = Some(catch_unwind(AssertUnwindSafe(call)));
            done.open();
        });
        // SAFETY: only the lifetime changes. This function returns only after `done` is open, by
        // when the call has ended, and nothing of it is dropped later: its captures are two
        // references by then.
        if let Err(call) = submit(unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Call>(call) })
        {
            call();
        }
    }
    let me = control();
    if done.register(me) {
        // SAFETY: the caller has registered itself just now; `Ended` withdraws it.
        unsafe { suspend(me, &Ended(&done), None, false) };
    }
    match result.expect("the call leaves its result before it opens the latch") {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

/// The end of a call, as something to wait for.
struct Ended<'a>(&'a Latch);

impl Wait for Ended<'_> {
    fn abandon(&self, who: &'static Control) -> bool {
        self.0.abandon(who)
    }

    fn describe(&self) -> Awaited {
        Awaited { kind: "a blocking call", address: 0, holder: None }
    }
}

/// Leaves `call` for a spare kernel thread, or gives it back if there are none and the kernel gives
/// none: then it is in no list.
fn submit(call: Call) -> Result<(), Call> {
    let mut spares = lock();
    while spares.idle <= spares.waiting.len() && spares.all < MOST {
        spares.all += 1;
        spares.idle += 1;
        let number = spares.all;
        drop(spares);
        let started = std::thread::Builder::new().name(format!("spare-{number}")).spawn(serve).is_ok();
        spares = lock();
        if !started {
            spares.all -= 1;
            spares.idle -= 1;
            if spares.all == 0 {
                // Others may have counted on it.
                let orphans = std::mem::take(&mut spares.waiting);
                drop(spares);
                orphans.into_iter().for_each(|call| call());
                return Err(call);
            }
            break;
        }
    }
    spares.waiting.push_back(call);
    CALLED.notify_one();
    Ok(())
}

/// The life of a spare kernel thread, which is counted as idle by who started it.
fn serve() {
    let mut spares = lock();
    loop {
        if let Some(call) = spares.waiting.pop_front() {
            spares.idle -= 1;
            drop(spares);
            call();
            spares = lock();
            spares.idle += 1;
            continue;
        }
        let (back, waited) = CALLED.wait_timeout(spares, PATIENCE).unwrap_or_else(PoisonError::into_inner);
        spares = back;
        if waited.timed_out() && spares.waiting.is_empty() {
            spares.idle -= 1;
            spares.all -= 1;
            return;
        }
    }
}
