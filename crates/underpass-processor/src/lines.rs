//! The lines of this domain, for idle processors to poll.

use crate::{Line, preempt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Lines.
pub type List = Arc<[Arc<dyn Line>]>;

static LINES: Mutex<Option<List>> = Mutex::new(None);
/// Counts the changes of `LINES`.
static VERSION: AtomicU64 = AtomicU64::new(0);

fn change(with: impl FnOnce(&mut Vec<Arc<dyn Line>>)) {
    // Every scheduler takes the lock: who holds it keeps its processor.
    let _held = preempt::critical();
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut list = lines.as_deref().map(<[_]>::to_vec).unwrap_or_default();
    with(&mut list);
    *lines = Some(list.into());
    // SYNC with `VERSION` load in `View::get`: a hint; the list itself is under the lock.
    VERSION.fetch_add(1, Ordering::Release);
}

/// Adds a line. Processors that sleep don't watch it until they are woken.
pub fn add(line: Arc<dyn Line>) {
    change(|lines| lines.push(line));
}

/// Removes a line.
pub fn remove(line: &Arc<dyn Line>) {
    change(|lines| lines.retain(|other| !Arc::ptr_eq(other, line)));
}

/// How recent one processor's copy of the list is.
#[derive(Debug, Default)]
pub struct View {
    version: u64,
}

impl View {
    /// The lines at this moment.
    pub fn get(&mut self) -> List {
        let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        // SYNC with `VERSION` fetch_add in `change`.
        self.version = VERSION.load(Ordering::Acquire);
        lines.clone().unwrap_or_default()
    }

    /// Whether the list has changed since the last [`get`](Self::get).
    #[inline]
    pub fn stale(&self) -> bool {
        self.version != VERSION.load(Ordering::Relaxed)
    }
}
