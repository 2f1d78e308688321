//! Spare kernel threads, which run calls that block in the kernel while the callers' activations go
//! on.

use crate::block::control::Control;
use crate::block::suspension::{Awaited, Wait};
use crate::wait::latch::Latch;
use crate::wait::me::control;
use crate::wait::section::{OnBehalf, make_blocking_call};
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
    /// How many spare threads begin, or look for a call. Each will take one of the waiting calls.
    idle: usize,
    all: usize,
}

static SPARES: Mutex<Spares> = Mutex::new(Spares { waiting: VecDeque::new(), idle: 0, all: 0 });
static CALLED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Spares> {
    SPARES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `call` on a spare kernel thread, and blocks the calling thread until it has ended. If the
/// kernel gives no kernel thread, the caller runs it itself.
pub(crate) fn run<F, T>(call: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let me = control();
    match make_blocking_call(me, |on_behalf| run_apart(me, on_behalf, call)) {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

fn run_apart<F, T>(me: &'static Control, on_behalf: OnBehalf, call: F) -> std::thread::Result<T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let done = Latch::default();
    let mut result = None;
    {
        let (done, result) = (&done, &mut result);
        let call: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
            *result = Some(catch_unwind(AssertUnwindSafe(|| on_behalf.run(call))));
            done.open();
        });
        // SAFETY: only the lifetime changes. This function returns only after `done` is open, and
        // by then the call has ended. Nothing of the call is dropped later: its captures are
        // references and a pointer by then.
        if let Err(call) = submit(unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Call>(call) })
        {
            call();
        }
    }
    if done.register(me) {
        // SAFETY: the caller has registered itself just now, and `Ended` withdraws it.
        unsafe { suspend(me, &Ended(&done), None, false) };
    }
    result.expect("the call leaves its result before it opens the latch")
}

/// The end of a call, as something to wait for.
struct Ended<'a>(&'a Latch);

impl Wait for Ended<'_> {
    fn abandon(&self, thread: &'static Control) -> bool {
        self.0.abandon(thread)
    }

    fn describe(&self) -> Awaited {
        Awaited { kind: "a blocking call", address: 0, holder: None }
    }
}

/// Leaves `call` for a spare kernel thread. If there are none and the kernel gives none, the call
/// is in no list, and is returned.
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
                // Other callers may have counted on this thread.
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

/// Runs a spare kernel thread. Its starter has counted it as idle.
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
