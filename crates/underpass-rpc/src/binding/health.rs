//! Whether a server serves, as its program says.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use underpass_sync::{Mutex, MutexGuard};

/// Says to clients whether a server serves. A clone says the same.
///
/// At first it serves. A server that can't take calls does not answer at all, so nothing needs to
/// be said for that. A server says *not serving* if its calls would fail though it takes them: a
/// disk is full, or another server that it needs is gone.
///
/// Calls are made and answered as before, whatever it says.
///
/// # Examples
/// ```
/// let health = underpass::Health::new();
/// assert_eq!(health.why_not(), None);
/// health.not_serving("the disk is full");
/// assert_eq!(health.why_not().as_deref(), Some("the disk is full"));
/// health.serving();
/// assert_eq!(health.why_not(), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<HealthState>>);

/// What a server says of its health, with the wakers of those who wait for a change.
#[derive(Debug, Default)]
struct HealthState {
    why_not: Option<String>,
    /// How often it has changed.
    changes: u64,
    /// The tasks that wait, by the numbers of their [`HealthChanges`].
    waiting: BTreeMap<u64, Waker>,
    /// The number of the next one.
    next: u64,
}

impl Health {
    /// It serves.
    pub fn new() -> Self {
        Self::default()
    }

    /// It serves from now on.
    pub fn serving(&self) {
        self.set(None);
    }

    /// It does not serve from now on, for this reason.
    pub fn not_serving(&self, why: impl Into<String>) {
        self.set(Some(why.into()));
    }

    /// Why it does not serve. `None`: it serves.
    pub fn why_not(&self) -> Option<String> {
        self.state().why_not.clone()
    }

    /// What it says now, and whatever it says later, for a task that reports it.
    ///
    /// # Examples
    /// ```
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    ///
    /// let health = underpass::Health::new();
    /// let mut changes = health.changes();
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert_eq!(pin!(changes.next()).poll(&mut cx), Poll::Ready(None));
    /// assert_eq!(pin!(changes.next()).poll(&mut cx), Poll::Pending, "nothing has changed");
    /// health.not_serving("the disk is full");
    /// let told = pin!(changes.next()).poll(&mut cx);
    /// assert_eq!(told, Poll::Ready(Some("the disk is full".to_owned())));
    /// ```
    pub fn changes(&self) -> HealthChanges {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        drop(state);
        HealthChanges { health: self.clone(), number, seen: None }
    }

    fn set(&self, why_not: Option<String>) {
        let mut state = self.state();
        if state.why_not == why_not {
            return;
        }
        state.why_not = why_not;
        state.changes += 1;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_values().for_each(Waker::wake);
    }

    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a [`Health`] says, one after the other. Made by [`Health::changes`].
///
/// # Examples
/// See [`Health::changes`].
pub struct HealthChanges {
    health: Health,
    number: u64,
    /// How often it had changed when it was told last.
    seen: Option<u64>,
}

impl HealthChanges {
    /// Why the server does not serve: at first what it says now, and then what it says after a
    /// change. Changes that follow each other closely are told as one. A future that is dropped has
    /// told nothing.
    pub async fn next(&mut self) -> Option<String> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`next`](Self::next), for a future that is written by hand.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<String>> {
        let mut state = self.health.state();
        if self.seen == Some(state.changes) {
            state.waiting.insert(self.number, cx.waker().clone());
            return Poll::Pending;
        }
        self.seen = Some(state.changes);
        Poll::Ready(state.why_not.clone())
    }
}

impl Drop for HealthChanges {
    fn drop(&mut self) {
        let waker = self.health.state().waiting.remove(&self.number);
        // Outside of the lock: it may run the program's code.
        drop(waker);
    }
}

impl fmt::Debug for HealthChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthChanges").field("health", &self.health).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn each_task_that_waits_hears_of_a_change() {
        let wakes = Arc::new(Wakes::default());
        let (waker, health) = (Waker::from(wakes.clone()), Health::new());
        let mut cx = Context::from_waker(&waker);
        let mut changes = [health.changes(), health.changes()];
        for change in &mut changes {
            assert_eq!(change.poll_next(&mut cx), Poll::Ready(None));
            // Twice, as a task may be polled for other reasons.
            assert_eq!(change.poll_next(&mut cx), Poll::Pending);
            assert_eq!(change.poll_next(&mut cx), Poll::Pending);
        }
        health.serving();
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0, "it says the same as before");
        health.not_serving("why");
        assert_eq!(wakes.0.load(Ordering::SeqCst), 2);
        for change in &mut changes {
            assert_eq!(change.poll_next(&mut cx), Poll::Ready(Some("why".to_owned())));
        }
        // It came and went between two looks.
        health.serving();
        health.not_serving("another");
        assert_eq!(changes[0].poll_next(&mut cx), Poll::Ready(Some("another".to_owned())));
        assert_eq!(changes[0].poll_next(&mut cx), Poll::Pending);
    }

    #[test]
    fn nothing_stays_of_a_task_that_waits_no_more() {
        let health = Health::new();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            let mut changes = health.changes();
            assert!(changes.poll_next(&mut cx).is_ready() && changes.poll_next(&mut cx).is_pending());
            assert_eq!(health.state().waiting.len(), 1);
        }
        assert!(health.state().waiting.is_empty());
    }
}
