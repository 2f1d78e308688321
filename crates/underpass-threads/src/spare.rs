//! Spare kernel threads, for calls that block in the kernel while their callers' activations go on.

use crate::control::Control;
use crate::current::control;
use crate::latch::Latch;
use crate::suspend::{Awaited, Wait, suspend};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most spare kernel threads; further calls wait for one.
const MOST: usize = 512;
/// How long a spare kernel thread waits for another call before it ends.
const PATIENCE: Duration = Duration::from_secs(5);

type Call = Box<dyn FnOnce() + Send>;

struct Spares {
    waiting: VecDeque<Call>,
    idle: usize,
    all: usize,
}

static SPARES: Mutex<Spares> = Mutex::new(Spares { waiting: VecDeque::new(), idle: 0, all: 0 });
static CALLED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Spares> {
    SPARES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a spare kernel thread run `call`, and blocks the calling thread until it has.
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
        // SAFETY: only the lifetime changes. This function returns only after `done` is open, by when the call has ended, and nothing of it
        // is dropped later: its captures are two references by then.
        submit(unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Call>(call) });
    }
    let me = control();
    if done.register(me) {
        suspend(me, &Ended(&done), None, false);
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

fn submit(call: Call) {
    let mut spares = lock();
    spares.waiting.push_back(call);
    if spares.idle >= spares.waiting.len() {
        CALLED.notify_one();
    } else if spares.all < MOST {
        spares.all += 1;
        let number = spares.all;
        drop(spares);
        let started = std::thread::Builder::new().name(format!("spare-{number}")).spawn(serve);
        if started.is_err() {
            // The kernel gives no more: the call waits for one of those that there are.
            let mut spares = lock();
            spares.all -= 1;
            assert!(spares.all > 0, "the kernel gives no kernel thread for a blocking call; see `ulimit -u`");
        }
    }
}

fn serve() {
    let mut spares = lock();
    loop {
        if let Some(call) = spares.waiting.pop_front() {
            drop(spares);
            call();
            spares = lock();
            continue;
        }
        spares.idle += 1;
        let (back, waited) = CALLED.wait_timeout(spares, PATIENCE).unwrap_or_else(PoisonError::into_inner);
        spares = back;
        spares.idle -= 1;
        if waited.timed_out() && spares.waiting.is_empty() {
            spares.all -= 1;
            return;
        }
    }
}
