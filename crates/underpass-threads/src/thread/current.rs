//! The calling thread: its handle, yielding, sleeping, and whether it was cancelled.

use crate::block::control::{Control, flag};
use crate::block::suspension::{Awaited, Wait, Woken};
use crate::block::thread_id::ThreadId;
use crate::sched::scheduler;
use crate::thread::handle::Thread;
use crate::wait::me::control;
use crate::wait::section::outside_section;
use crate::wait::suspend::suspend;
use std::time::Duration;
use underpass_context::Pause;
use underpass_os::{clock, cpu};

/// The calling thread, user-level or of the kernel.
///
/// # Examples
/// ```
/// use underpass::thread;
///
/// let id = thread::current().id();
/// assert_eq!(thread::current().id(), id);
/// assert_ne!(thread::spawn(|| thread::current().id()).join().unwrap(), id);
/// ```
pub fn current() -> Thread {
    Thread::of(control())
}

/// The calling thread's number, without a handle.
pub fn current_id() -> ThreadId {
    ThreadId(control().id())
}

/// Whether the caller is a user-level thread.
///
/// # Examples
/// ```
/// use underpass::thread;
///
/// assert!(!thread::on_user_thread());
/// assert!(thread::spawn(thread::on_user_thread).join().unwrap());
/// ```
pub fn on_user_thread() -> bool {
    scheduler::running().is_some()
}

/// Lets other threads go first. URPC's `YIELD` (section 4.1).
///
/// # Examples
/// ```
/// use underpass::thread;
///
/// thread::spawn(|| thread::yield_now()).join().unwrap();
/// ```
#[inline(always)]
pub fn yield_now() {
    match scheduler::running() {
        Some((own, me)) => own.pause(me, Pause::Yield),
        None => outside_section(cpu::give_way),
    }
}

/// A point in a long computation at which other threads may go first. Cheap enough for an inner
/// loop.
///
/// Yields if a thread of the same activation waits. See [`no_preempt`](crate::no_preempt) for the
/// contrary. Preemption alone lets other activations run, but not the threads that have started on
/// this one.
///
/// # Examples
/// ```
/// use underpass::thread;
///
/// let sum = thread::spawn(|| (0..1_000u64).inspect(|_| thread::checkpoint()).sum::<u64>());
/// assert_eq!(sum.join().unwrap(), 499_500);
/// ```
#[inline]
pub fn checkpoint() {
    if let Some((own, me)) = scheduler::running()
        && own.busy()
    {
        own.pause(me, Pause::Yield);
    }
}

/// Whether the calling thread was asked to end. See [`Thread::cancel`].
#[inline]
pub fn cancelled() -> bool {
    control().has(flag::CANCELLED)
}

/// Blocks the calling thread, and no other, for at least `span`. A cancellation ends it early.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use underpass::thread;
/// thread::spawn(|| thread::sleep(Duration::from_millis(1))).join().unwrap();
/// ```
pub fn sleep(span: Duration) {
    sleep_until_ns(clock::deadline_ns(span));
}

/// Blocks the calling thread until a time of the monotonic clock, in ns. A cancellation ends it
/// early.
pub(crate) fn sleep_until_ns(deadline_ns: u64) {
    // SAFETY: the block is the caller's own. Nobody wakes it, as `Time` says.
    let woken = unsafe { suspend(control(), &Time, Some(deadline_ns), true) };
    debug_assert_ne!(woken, Woken::Woken, "nobody can wake a thread that only waits for a time");
}

/// A time, as something to wait for. The waiting thread is in no list.
struct Time;

impl Wait for Time {
    fn abandon(&self, _: &'static Control) -> bool {
        true
    }

    fn describe(&self) -> Awaited {
        Awaited { kind: "a time", address: 0, holder: None }
    }
}
