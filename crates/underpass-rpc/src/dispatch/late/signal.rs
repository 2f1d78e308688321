//! Tells tasks that nobody wants the result of a call any more.

use crate::call::task_wakeup::TaskWakeup;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use underpass_seam::atomic::{AtomicBool, Ordering};
use underpass_threads::critical;

/// Whether a call was given up, and the tasks that are to learn of it.
///
/// No wake-up is lost. A task enters its waker under the lock, and then asks whether the call is
/// wanted. A thread that finds the call unwanted says so, and then takes the wakers out under the
/// lock. So the task's question or the thread's look comes second, and finds the other.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    given_up: AtomicBool,
    watchers: Mutex<Vec<Arc<TaskWakeup>>>,
}

impl Signal {
    /// The holder of this lock keeps its processor.
    fn watchers(&self) -> MutexGuard<'_, Vec<Arc<TaskWakeup>>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the client has said that nobody waits any more.
    pub(crate) fn is_given_up(&self) -> bool {
        // SYNC with the store in `give_up`.
        self.given_up.load(Ordering::Acquire)
    }

    /// Nobody waits for the call any more.
    pub(crate) fn give_up(&self) {
        // SYNC with the load in `is_given_up`.
        self.given_up.store(true, Ordering::Release);
        self.wake();
    }

    /// Wakes the tasks, so that they ask again whether the call is wanted. The caller holds no
    /// lock.
    pub(crate) fn wake(&self) {
        let held = critical();
        let watchers = mem::take(&mut *self.watchers());
        drop(held);
        watchers.iter().for_each(|watcher| watcher.call());
    }

    fn enter(&self, watcher: Arc<TaskWakeup>) {
        let _held = critical();
        self.watchers().push(watcher);
    }

    fn leave(&self, watcher: &Arc<TaskWakeup>) {
        let held = critical();
        let mut watchers = self.watchers();
        let place = watchers.iter().position(|one| Arc::ptr_eq(one, watcher));
        let gone = place.map(|place| watchers.swap_remove(place));
        drop(watchers);
        drop(held);
        drop(gone);
    }
}

/// One task's place among those that a [`Signal`] wakes.
#[derive(Debug, Default)]
pub(crate) struct SignalWatch(Option<Arc<TaskWakeup>>);

impl SignalWatch {
    /// From now on `signal` wakes the task of `waker`. The task asks afterwards whether the call is
    /// wanted.
    pub(crate) fn wakes(&mut self, signal: &Signal, waker: &Waker) {
        if self.0.as_ref().is_some_and(|place| place.waits(waker)) {
            return;
        }
        let place = Arc::new(TaskWakeup::new(waker.clone()));
        signal.enter(place.clone());
        self.0 = Some(place);
    }

    /// The task need not be woken any more.
    pub(crate) fn ends(&mut self, signal: &Signal) {
        if let Some(place) = self.0.take() {
            signal.leave(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_is_woken_once_for_each_time_that_it_watches() {
        let (signal, count, mut watch) =
            (Signal::default(), Arc::new(Count::default()), SignalWatch::default());
        let waker = Waker::from(count.clone());
        watch.wakes(&signal, &waker);
        watch.wakes(&signal, &waker);
        assert!(!signal.is_given_up());
        signal.give_up();
        signal.wake();
        assert_eq!((count.0.load(Ordering::Relaxed), signal.is_given_up()), (1, true));
        watch.wakes(&signal, &waker);
        watch.ends(&signal);
        signal.wake();
        drop(waker);
        assert_eq!((count.0.load(Ordering::Relaxed), Arc::strong_count(&count)), (1, 1), "no waker is left");
    }
}
