//! Deadlock among locks, joins and whatever else says who holds it.
//!
//! Whoever is about to wait for what another holds notes whom it waits for, and looks whether that
//! one waits too: then there *may* be a circle, and a kernel thread of its own searches for one
//! (`cycles.rs`) when it has had time to dissolve.
//!
//! It also searches for guards of `std`'s locks (`guards.rs`) when the monitor finds an activation
//! blocked.
//!
//! A search that costs `d` is followed by a pause of some `50 d`, so that locks which many wait for
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
/// The time for which a guard has to hold up an activation before anybody is told.
const LASTS: Duration = Duration::from_millis(200);
/// The shortest and the longest pause between two searches.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// `me` is about to wait for something that is not ended by cancellation: a lock, an answer, a
/// thread's end.
#[inline]
pub(crate) fn about_to_wait(me: &'static Control, wait: &dyn Wait) {
    if let Some(holder) = wait.holder() {
        // Relaxed, here and in `waited`: a hint, checked before anybody is told; see `may_close`
        // for the fence.
        me.waits_for.store(holder.id(), Ordering::Relaxed);
        if may_close(me, holder) {
            want_search();
        }
    }
}

/// `me` has waited.
#[inline]
pub(crate) fn waited(me: &Control) {
    me.waits_for.store(0, Ordering::Relaxed);
}

/// Whether `holder` waits too. Of all in a circle at least one, the last to note its wait, finds
/// that.
#[inline]
fn may_close(me: &Control, holder: &Control) -> bool {
    match (me.home(), holder.home()) {
        // One kernel thread runs both, in one order.
        (Some(mine), Some(its)) if mine == its => {}
        // It has not started or is free to go, so it doesn't wait; when it does it will look
        // itself, long after our note.
        (_, None) if !holder.has(flag::KERNEL) => return false,
        // The one who comes later, in the order of these fences, sees the other's note.
        _ => fence(Ordering::SeqCst),
    }
    holder.waits_for.load(Ordering::Relaxed) != 0
}

static SEARCH_WANTED: AtomicBool = AtomicBool::new(false);
static SEARCHER: OnceLock<Option<thread::Thread>> = OnceLock::new();

/// Has the searcher search.
#[cold]
fn want_search() {
    // SYNC with `SEARCH_WANTED` swap in `run`: our note. Also by who finds it set, hence no mere load.
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

/// Whether guards of `std`'s locks that hold up an activation are told unasked. A dump tells them
/// in any case.
const GUARDS: bool = cfg!(debug_assertions);

/// Has everything there that [`note_blocked`] needs.
pub(crate) fn begin() {
    if GUARDS {
        searcher();
    }
}

/// Activations that were found blocked since the last search, by their numbers.
static BLOCKED: [AtomicBool; MOST_ACTIVATIONS] = [const { AtomicBool::new(false) }; MOST_ACTIVATIONS];

/// The monitor found this activation blocked without a bracket: takes neither lock nor memory.
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

/// The guards that hold up an activation of those, for so long that it is not just a lock that
/// somebody else is about to release.
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
        // SYNC with `SEARCH_WANTED` swap in `want_search`: the notes of those who have called.
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
