//! Suspending the calling thread for exactly one wake.

use crate::control::Control;
use crate::current::control;
use crate::scheduler;
use underpass_os::clock::now_ns;
use underpass_processor::{Line, Role, sleep};

/// What a thread waits for, for people.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// What kind of thing.
    pub kind: &'static str,
    /// Where it is.
    pub address: usize,
    /// The number of the thread that holds it.
    pub holder: Option<u64>,
}

/// What a thread is suspended on.
pub trait Wait {
    /// Takes `who` out of the list of waiters; `false` if its wake is under way.
    fn abandon(&self, who: &'static Control) -> bool;
    /// What is waited for.
    fn describe(&self) -> Awaited {
        Awaited { kind: "something", address: 0, holder: None }
    }
}

/// Why a suspension ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// By [`Control::wake`].
    Woken,
    /// The deadline passed.
    Late,
    /// The thread was cancelled.
    Cancelled,
}

/// The calling thread.
pub fn me() -> &'static Control {
    control()
}

/// Suspends the caller until it is woken.
pub fn suspend(me: &'static Control, wait: &dyn Wait, deadline_ns: Option<u64>, _cancellable: bool) -> Woken {
    const NONE: [&dyn Line; 0] = [];
    let mut deadline_ns = deadline_ns;
    loop {
        if me.take_woken() {
            return Woken::Woken;
        }
        if deadline_ns.is_some_and(|at| at <= now_ns()) {
            deadline_ns = None;
            if wait.abandon(me) {
                return Woken::Late;
            }
            continue;
        }
        if scheduler::with(|own| own.block_until(me, deadline_ns)).is_none() {
            sleep(me.parker(), &NONE, Role::Last { others: false }, deadline_ns, || false);
        }
    }
}

/// Holds off preemption.
#[derive(Debug)]
pub struct Critical(std::marker::PhantomData<*mut ()>);

/// Holds off preemption while the value lives.
#[inline]
pub fn critical() -> Critical {
    Critical(std::marker::PhantomData)
}

/// Whether the caller was asked to end.
pub fn cancelled() -> bool {
    false
}

/// Whether the calling thread panics.
pub fn panicking() -> bool {
    std::thread::panicking()
}
