//! One wake-up of a task that waits in a queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use underpass_threads::critical;

/// Wakes one task, once.
#[derive(Debug)]
pub(crate) struct TaskWakeup {
    /// The task's waker, until it is woken.
    waker: Mutex<Option<Waker>>,
}

impl TaskWakeup {
    /// The task has not been woken yet.
    pub(crate) fn new(waker: Waker) -> Self {
        Self { waker: Mutex::new(Some(waker)) }
    }

    /// The holder of this lock keeps its processor, and does nothing else meanwhile.
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the waker that is to be woken. Returns `false` if the wake-up has happened already.
    pub(crate) fn waits(&self, waker: &Waker) -> bool {
        let mut waker = Some(waker.clone());
        let held = critical();
        let mut kept = self.waker();
        let waits = kept.is_some();
        if waits {
            std::mem::swap(&mut *kept, &mut waker);
        }
        drop(kept);
        drop(held);
        waits
    }

    /// Wakes the task.
    pub(crate) fn call(&self) {
        let held = critical();
        let waker = self.waker().take();
        drop(held);
        if let Some(waker) = waker {
            wake_task(waker);
        }
    }
}

/// Wakes a task. The caller holds no lock.
#[cold]
pub(crate) fn wake_task(waker: Waker) {
    // A panic in the executor's waker stops here: the clerk, or the thread that polls for others,
    // must go on.
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_last_waker_is_woken_once() {
        let [first, last] = [0, 0].map(|n| Arc::new(Count(AtomicU32::new(n))));
        let wakeup = TaskWakeup::new(first.clone().into());
        assert!(wakeup.waits(&last.clone().into()));
        wakeup.call();
        assert!(!wakeup.waits(&first.clone().into()));
        wakeup.call();
        assert_eq!([&first, &last].map(|count| count.0.load(Ordering::Relaxed)), [0, 1]);
        assert_eq!([first, last].map(|count| Arc::strong_count(&count)), [1, 1], "no waker is left");
    }

    #[test]
    fn a_panic_of_a_waker_goes_no_further() {
        struct Rude;
        impl Wake for Rude {
            fn wake(self: Arc<Self>) {
                panic!("no");
            }
        }
        wake_task(Arc::new(Rude).into());
    }
}
