//! The spans that the running thread has entered, and those of each suspended thread.

use crate::follow::Link;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tracing::Dispatch;
use tracing::span::Id;
use underpass_threads::{Switches, ThreadId, watch_switches};

/// One span that is entered.
pub(crate) struct Entered {
    pub(crate) link: &'static Link,
    pub(crate) id: Id,
}

impl Entered {
    fn dispatch(&self) -> Option<Dispatch> {
        self.link.get()?.upgrade()
    }
}

thread_local! {
    /// The spans of the thread that runs on this kernel thread, outermost first.
    static HERE: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
    /// Set while a thread's spans are being moved. Moving does not change which spans are the
    /// thread's own.
    static MOVES: Cell<bool> = const { Cell::new(false) };
}

type Shelf = Mutex<HashMap<u64, Vec<Entered>>>;

const SHELVES: usize = 16;
/// The spans of suspended threads, by thread number. Only threads with spans are in it.
static AWAY: [OnceLock<Shelf>; SHELVES] = [const { OnceLock::new() }; SHELVES];
/// The number of such threads.
static THREADS: AtomicUsize = AtomicUsize::new(0);

fn shelf(number: u64) -> MutexGuard<'static, HashMap<u64, Vec<Entered>>> {
    let shelf = AWAY[number as usize % SHELVES].get_or_init(Shelf::default);
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The running thread has entered a span.
pub(crate) fn push(entered: Entered) {
    if !MOVES.get() {
        HERE.with_borrow_mut(|here| here.push(entered));
    }
}

/// The running thread has exited a span, mostly the one that it entered last.
pub(crate) fn remove(link: &'static Link, id: &Id) {
    if !MOVES.get() {
        HERE.with_borrow_mut(|here| {
            let place =
                here.iter().rposition(|entered| std::ptr::eq(entered.link, link) && entered.id == *id);
            place.map(|place| here.remove(place))
        });
    }
}

fn exit(spans: &[Entered]) {
    MOVES.set(true);
    for entered in spans.iter().rev() {
        if let Some(dispatch) = entered.dispatch() {
            dispatch.exit(&entered.id);
        }
    }
    MOVES.set(false);
}

fn enter(spans: &[Entered]) {
    MOVES.set(true);
    for entered in spans {
        if let Some(dispatch) = entered.dispatch() {
            dispatch.enter(&entered.id);
        }
    }
    MOVES.set(false);
}

/// Moves the spans at each switch.
struct Moves;

impl Switches for Moves {
    fn resumes(&self, thread: ThreadId) {
        // The spans of a thread that has ended and forgot its guards.
        let left = HERE.take();
        exit(&left);
        // Relaxed: a thread's spans are stored long before it continues. The synchronization
        // between the two makes them visible.
        if THREADS.load(Ordering::Relaxed) == 0 {
            return;
        }
        let spans = shelf(thread.as_u64()).remove(&thread.as_u64());
        if let Some(spans) = spans {
            THREADS.fetch_sub(1, Ordering::Relaxed);
            enter(&spans);
            HERE.set(spans);
        }
    }

    fn pauses(&self, thread: ThreadId) {
        let spans = HERE.take();
        if !spans.is_empty() {
            exit(&spans);
            shelf(thread.as_u64()).insert(thread.as_u64(), spans);
            THREADS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Moves the spans at each switch from now on.
///
/// # Panics
/// If the program watches switches in another way already.
pub(crate) fn watch() {
    static WATCHES: OnceLock<bool> = OnceLock::new();
    let watches = *WATCHES.get_or_init(|| watch_switches(&Moves));
    assert!(watches, "the program watches switches in another way already");
}
