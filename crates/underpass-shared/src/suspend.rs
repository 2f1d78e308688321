//! Suspending and waking threads: what this crate promises to the runtime, in one place.

use crate::runtime::is_past;
use std::mem;
use underpass_os::clock;
use underpass_seam::Gate;
use underpass_sync::{Mutex, MutexGuard, PoisonError};
use underpass_threads::{Awaited, Wait, WaitSpin, me, no_preempt, yield_now};
pub(crate) use underpass_threads::{Control, Woken, panicking};

/// A wait at a gate, as the runtime sees it.
struct GateWait<'a> {
    gate: &'a Gate<Control>,
    kind: &'static str,
}

impl Wait for GateWait<'_> {
    fn abandon(&self, thread: &'static Control) -> bool {
        self.gate.withdraw(thread)
    }

    fn describe(&self) -> Awaited {
        Awaited { kind: self.kind, address: std::ptr::from_ref(self.gate).addr(), holder: None }
    }
}

/// What the threads of this domain have learnt of their waits in a region.
#[derive(Debug, Default)]
pub(crate) struct BellSpin(Mutex<WaitSpin>);

impl BellSpin {
    fn kept(&self) -> MutexGuard<'_, WaitSpin> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls until it `came`, for about as long as a wake-up costs, and calls `block` then. `begin`
    /// is called before the first look. What it returns is dropped after the last one. No other
    /// thread gets the processor in between, as other threads rely on the one that polls.
    pub(crate) fn spin_then<P, R>(
        &self,
        deadline_ns: Option<u64>,
        begin: impl FnOnce() -> P,
        came: impl Fn() -> bool,
        block: impl FnOnce() -> R,
    ) -> Option<R> {
        // Others that poll meanwhile learn nothing from this wait.
        let mut spin = mem::take(&mut *self.kept());
        let off = no_preempt();
        // Dropped in this order: first what `begin` returned.
        let mut polling = Some((begin(), off));
        let late = |_: &Option<_>| is_past(deadline_ns);
        let blocked = spin.spin_then(
            &mut polling,
            |_| came(),
            late,
            |polling| {
                drop(polling.take());
                block()
            },
        );
        drop(polling);
        let gives_way = spin.gives_way();
        *self.kept() = spin;
        if gives_way {
            yield_now();
        }
        blocked
    }
}

/// Suspends the calling thread until `gate` is open, the deadline has passed, or the thread is
/// cancelled if it is `cancellable`. It is the only thread that may wait at this gate now.
pub(crate) fn suspend(
    gate: &Gate<Control>,
    kind: &'static str,
    deadline_ns: Option<u64>,
    cancellable: bool,
) -> Woken {
    let me = me();
    if !gate.register(me) {
        return Woken::Woken;
    }
    // SAFETY: the calling thread has registered itself just now. The gate gives it out once, to
    // `open` below, which wakes it, or to `abandon`.
    unsafe { underpass_threads::suspend(me, &GateWait { gate, kind }, deadline_ns, cancellable) }
}

/// Opens `gate`, and wakes the thread that waits there.
pub(crate) fn open(gate: &Gate<Control>) {
    if let Some(who) = gate.open() {
        // SAFETY: the gate gives out each waiter once.
        unsafe { who.wake() };
    }
}

/// Sleeps for a moment, but not beyond the deadline: for a thread that can't be enrolled.
pub(crate) fn nap(deadline_ns: Option<u64>) {
    /// In ns.
    const MOMENT: u64 = 200_000;
    let until = clock::now_ns() + MOMENT;
    // Nobody opens this gate.
    let gate = Gate::new();
    suspend(
        &gate,
        "a free waiter of a region",
        Some(deadline_ns.map_or(until, |deadline| until.min(deadline))),
        false,
    );
}
