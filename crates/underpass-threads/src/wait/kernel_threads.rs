//! The plain kernel threads that use the package, and what they wait for.

use crate::block::coarse_clock;
use crate::block::control::Control;
use crate::block::suspension::{Awaited, Wait};
use crate::sched::no_preempt::critical;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use underpass_os::thread::Tid;

/// A plain kernel thread that uses the package.
pub(crate) struct KernelThread {
    pub(crate) control: &'static Control,
    pub(crate) tid: Tid,
    /// Set by the thread before it sleeps, and cleared afterwards. A holder of the lock may look at
    /// what the thread waits for.
    waiting: Mutex<Option<Waiting>>,
}

struct Waiting {
    /// Valid while this value is there.
    wait: *const dyn Wait,
    since_ns: u64,
    for_good: bool,
    mark: u32,
}

// SAFETY: `wait` is used only under the lock, by `describe`, which may be called from any place in
// the runtime.
unsafe impl Send for Waiting {}

/// What a kernel thread waits for.
pub(crate) struct KernelWait {
    pub(crate) awaited: Awaited,
    pub(crate) since_ns: u64,
    /// Neither a deadline nor a cancellation ends the wait.
    pub(crate) for_good: bool,
    /// The mark before, of the same wait.
    pub(crate) marked: u32,
}

static ALL: Mutex<Vec<Arc<KernelThread>>> = Mutex::new(Vec::new());

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All of them, at about this moment.
pub(crate) fn all() -> Vec<Arc<KernelThread>> {
    let _held = critical();
    lock(&ALL).clone()
}

impl KernelThread {
    /// Registers the calling kernel thread, which has the block `control`, until it
    /// [`leave`](Self::leave)s.
    pub(crate) fn enter(control: &'static Control) -> Arc<Self> {
        let tid = underpass_os::thread::current();
        let own = Arc::new(Self { control, tid, waiting: Mutex::new(None) });
        let _held = critical();
        lock(&ALL).push(own.clone());
        own
    }

    /// The thread ends.
    pub(crate) fn leave(&self) {
        let _held = critical();
        lock(&ALL).retain(|other| !std::ptr::eq(&**other, self));
    }

    /// Notes that the calling kernel thread waits for `wait`, as long as the returned value lives.
    pub(crate) fn waits<'a>(&'a self, wait: &'a dyn Wait, for_good: bool) -> impl Drop + 'a {
        struct Until<'a>(&'a KernelThread);
        impl Drop for Until<'_> {
            fn drop(&mut self) {
                *lock(&self.0.waiting) = None;
            }
        }
        coarse_clock::set();
        // SAFETY: only the lifetime changes. The returned value is dropped before the borrow ends,
        // since no caller leaks it.
        let wait =
            unsafe { std::mem::transmute::<*const (dyn Wait + '_), *const (dyn Wait + 'static)>(wait) };
        *lock(&self.waiting) = Some(Waiting { wait, since_ns: coarse_clock::now(), for_good, mark: 0 });
        Until(self)
    }

    /// What the thread waits for. Marks the wait, if `mark` is not zero.
    pub(crate) fn look(&self, mark: u32) -> Option<KernelWait> {
        let mut waiting = lock(&self.waiting);
        let waiting = waiting.as_mut()?;
        // SAFETY: the thread can't go on before the lock is free, so what it waits for is still
        // borrowed.
        let awaited = unsafe { &*waiting.wait }.describe();
        let marked = waiting.mark;
        if mark != 0 {
            waiting.mark = mark;
        }
        Some(KernelWait { awaited, since_ns: waiting.since_ns, for_good: waiting.for_good, marked })
    }
}
