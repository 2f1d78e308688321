//! Watching for deadlocks among locks, joins and whatever else names its holder.
//!
//! A thread that is about to wait for something that another thread holds notes whom it waits for,
//! and checks whether that thread waits too. If so, there *may* be a cycle. After a pause, in which
//! most such chains dissolve, a kernel thread of its own searches for one (`deadlock_search.rs`).
//!
//! That kernel thread also searches for guards of `std`'s locks (`std_guards.rs`) when the monitor
//! finds an activation blocked.
//!
//! After a search that took `d` comes a pause of about `50 d`. So locks that many threads wait for
//! in chains cost little.

use crate::block::control::{Control, flag};
use crate::block::suspension::Wait;
use crate::diagnose::deadlock_search::search;
use crate::diagnose::std_guards::{self, HeldUp};
use std::collections::HashSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};
use underpass_processor::MOST_ACTIVATIONS;

/// The time that a chain of waits has to dissolve by itself.
const SETTLE: Duration = Duration::from_millis(20);
/// How long a guard has to hold up an activation before it is reported.
const LASTS: Duration = Duration::from_millis(200);
/// The shortest and the longest pause between two searches.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// `me` is about to wait for something, and a cancellation does not end the wait: a lock, an
/// answer, a thread's end.
#[inline]
pub(crate) fn about_to_wait(me: &'static Control, wait: &dyn Wait) {
    if let Some(holder) = wait.holder() {
        // Relaxed, here and in `waited`: a hint, which is checked before anything is reported.
        // `may_close` has the fence.
        me.waits_for.store(holder.id(), Ordering::Relaxed);
        if may_close(me, holder) {
            want_search();
        }
    }
}

/// The wait of `me` is over.
#[inline]
pub(crate) fn waited(me: &Control) {
    me.waits_for.store(0, Ordering::Relaxed);
}

/// Whether `holder` waits too. In a cycle, at least the last thread to note its wait sees that.
#[inline]
fn may_close(me: &Control, holder: &Control) -> bool {
    match (me.home(), holder.home()) {
        // One kernel thread runs both, in one order.
        (Some(mine), Some(its)) if mine == its => {}
        // The holder has not started or has no home, so it doesn't wait. When it does, it will
        // check by itself, long after our note.
        (_, None) if !holder.has(flag::KERNEL) => return false,
        // The thread whose fence comes later sees the note of the other one.
        _ => fence(Ordering::SeqCst),
    }
    holder.waits_for.load(Ordering::Relaxed) != 0
}

static SEARCH_WANTED: AtomicBool = AtomicBool::new(false);
static SEARCHER: OnceLock<Option<thread::Thread>> = OnceLock::new();

/// Has the searcher search.
#[cold]
fn want_search() {
    // SYNC with `SEARCH_WANTED` swap in `run`: our note. A thread that finds it set has to publish
    // its note too, so a load is not enough.
    if !SEARCH_WANTED.swap(true, Ordering::AcqRel)
        && let Some(searcher) = searcher()
    {
        searcher.unpark();
    }
}

fn searcher() -> Option<&'static thread::Thread> {
    let start = || {
        let searcher = thread::Builder::new().name("underpass-deadlocks".into());
        // Without a kernel thread, dumps still search.
        Some(searcher.spawn(run).ok()?.thread().clone())
    };
    SEARCHER.get_or_init(start).as_ref()
}

/// Whether guards of `std`'s locks that hold up an activation are reported unasked. A dump reports
/// them in any case.
const GUARDS: bool = cfg!(debug_assertions);

/// Starts what [`note_blocked`] needs.
pub(crate) fn begin() {
    if GUARDS {
        searcher();
    }
}

/// The activations that were found blocked since the last search, by number.
static BLOCKED: [AtomicBool; MOST_ACTIVATIONS] = [const { AtomicBool::new(false) }; MOST_ACTIVATIONS];

/// The monitor found this activation blocked without a bracket. Takes neither locks nor memory.
pub(crate) fn note_blocked(activation: usize) {
    if GUARDS {
        // Relaxed: `SEARCH_WANTED` synchronizes.
        BLOCKED[activation].store(true, Ordering::Relaxed);
        if !SEARCH_WANTED.swap(true, Ordering::AcqRel)
            && let Some(Some(searcher)) = SEARCHER.get()
        {
            searcher.unpark();
        }
    }
}

/// The guards that have held up one of those activations for so long that the lock is not just
/// about to be released.
fn guards() -> Vec<HeldUp> {
    let blocked = BLOCKED.iter().enumerate().filter(|(_, blocked)| blocked.swap(false, Ordering::Relaxed));
    let mut found = std_guards::look_at(&blocked.map(|(number, _)| number).collect::<Vec<_>>());
    if !found.is_empty() {
        thread::sleep(LASTS);
        let numbers: Vec<_> = found.iter().map(|held_up| held_up.activation).collect();
        let again = std_guards::look_at(&numbers);
        found.retain(|held_up| again.contains(held_up));
    }
    found
}

fn run() {
    let mut reported = HashSet::new();
    let mut reported_guards = HashSet::new();
    loop {
        // SYNC with `SEARCH_WANTED` swap in `want_search`: the notes of the threads that want a
        // search.
        while !SEARCH_WANTED.swap(false, Ordering::AcqRel) {
            thread::park();
        }
        thread::sleep(SETTLE);
        SEARCH_WANTED.swap(false, Ordering::AcqRel);
        let begun = Instant::now();
        let (deadlocks, unsure) = search();
        for deadlock in deadlocks {
            if reported.insert(deadlock.key()) {
                eprintln!("underpass: {deadlock}");
            }
        }
        for held_up in guards() {
            if reported_guards.insert((held_up.waiter, held_up.holders.first().map(|holder| holder.0))) {
                eprintln!("underpass: {held_up}");
            }
        }
        if unsure {
            SEARCH_WANTED.store(true, Ordering::Release);
        }
        thread::sleep((begun.elapsed() * 50).clamp(PAUSE.0, PAUSE.1));
    }
}
