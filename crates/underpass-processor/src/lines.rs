//! The active lines of this domain, which idle processors poll. `line.rs` says what a line is,
//! `owner.rs` which activation serves it.
//!
//! A line becomes *dormant* if it has carried nothing for as long as its return would cost. Then no
//! processor polls it, nor watches it during its sleep. The peer's next post on it goes over the
//! socket, which makes it active again. A call of this domain also makes it active. The steps A1 to
//! A4 and their proof are in `underpass-channel/src/README.md`.

pub(crate) mod line;
pub(crate) mod owner;

use crate::{CallProgress, Line, metrics, preempt};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use underpass_os::barrier;
use underpass_os::futex::MOST_WORDS;

/// A list of lines.
pub type List = Arc<[Arc<dyn Line>]>;

/// The most lines that are active from the start: as many as a sleep can watch, besides the
/// sleeper's own word. Calls activate more.
pub const MOST_ACTIVE: usize = MOST_WORDS - 1;

/// Passes over the lines between two sweeps. To poll a line once takes 3 to 4 ns. The first call on
/// a dormant line costs about 60 µs more than others. So a line becomes dormant once polling it has
/// cost that much.
const SWEEP: u32 = 16 * 1024;

/// A sleep costs as much for each line as polling the line this many times. This covers the
/// announcement and the kernel's part.
pub const SLEEP: u32 = 128;

/// A sweep does not pay for this many lines or fewer.
const FEW: usize = 4;

static LINES: Mutex<Option<List>> = Mutex::new(None);
/// Counts the changes of `LINES`.
static VERSION: AtomicU64 = AtomicU64::new(0);
/// Passes since the last sweep.
static PASSES: AtomicU32 = AtomicU32::new(0);

fn locked() -> MutexGuard<'static, Option<List>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn vec_of(lines: &Option<List>) -> Vec<Arc<dyn Line>> {
    lines.as_deref().map(<[_]>::to_vec).unwrap_or_default()
}

fn publish(lines: &mut Option<List>, list: Vec<Arc<dyn Line>>) {
    *lines = Some(list.into());
    // SYNC with `VERSION` load in `View::get`: a hint. The list itself is under the lock.
    VERSION.fetch_add(1, Ordering::Release);
}

fn is_in(lines: &Option<List>, line: &Arc<dyn Line>) -> bool {
    lines.iter().flat_map(|list| list.iter()).any(|other| Arc::ptr_eq(other, line))
}

/// Keeps the list unchanged while the value lives. The calling kernel thread must not be preempted
/// meanwhile.
pub struct LockedLines(MutexGuard<'static, Option<List>>);

impl std::fmt::Debug for LockedLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockedLines").finish_non_exhaustive()
    }
}

/// Keeps the list unchanged.
pub fn hold() -> LockedLines {
    LockedLines(locked())
}

impl LockedLines {
    /// This process was forked off: it polls none of its parent's lines.
    pub fn cut_off(mut self) {
        // Not dropped: the child must not end what ends with a line.
        std::mem::forget(self.0.take());
        VERSION.fetch_add(1, Ordering::Release);
    }
}

/// Adds a line. The line is active, unless as many are as a sleep can watch.
///
/// Returns whether the caller has to wake the processors that sleep: they don't watch the line
/// until they are woken.
pub fn add(line: Arc<dyn Line>) -> bool {
    // Every scheduler takes the lock, so its holder must not be preempted.
    let _held = preempt::critical();
    let mut lines = locked();
    let mut list = vec_of(&lines);
    if list.len() >= MOST_ACTIVE && put_away(std::slice::from_ref(&line)).is_empty() {
        return false;
    }
    list.push(line);
    publish(&mut lines, list);
    true
}

/// Removes a line. Returns whether it was active: then processors that sleep may still hold on to
/// it.
pub fn remove(line: &Arc<dyn Line>) -> bool {
    let _held = preempt::critical();
    let mut lines = locked();
    let active = is_in(&lines, line);
    if active {
        let mut list = vec_of(&lines);
        list.retain(|other| !Arc::ptr_eq(other, line));
        publish(&mut lines, list);
    }
    active
}

/// Makes a line active. Returns `false` if it was so already, or is closed. If `true`, the caller
/// has to wake the processors that sleep, so that their sleep covers the line.
pub fn activate(line: &Arc<dyn Line>) -> bool {
    let _held = preempt::critical();
    let mut lines = locked();
    // A line that was removed is closed.
    if is_in(&lines, line) || !line.revive() {
        return false;
    }
    let mut list = vec_of(&lines);
    list.push(line.clone());
    let many = list.len().is_multiple_of(MOST_ACTIVE);
    publish(&mut lines, list);
    metrics().activated();
    drop(lines);
    if many {
        // In a domain of plain kernel threads no processor passes over the lines.
        sweep();
    }
    true
}

/// The worst progress of calls on any active line.
///
/// The monitor asks. It waits for no lock and holds no line. So if another thread is changing the
/// list, calls count as waiting, and the next tick asks again.
pub(crate) fn call_progress() -> CallProgress {
    let lines = match LINES.try_lock() {
        Ok(lines) => lines,
        Err(TryLockError::Poisoned(lines)) => lines.into_inner(),
        Err(TryLockError::WouldBlock) => return CallProgress::Taken,
    };
    // Each line is asked, since each remembers how many calls it had taken.
    let progress = lines.iter().flat_map(|list| list.iter()).map(|line| line.call_progress());
    progress.max().unwrap_or(CallProgress::NoneWait)
}

/// How many lines are active.
pub fn active() -> usize {
    let _held = preempt::critical();
    locked().as_ref().map_or(0, |list| list.len())
}

/// A processor has passed over the lines `times` times. Returns whether lines became dormant. Then
/// the caller has to wake the processors that sleep, since these hold on to those lines.
#[inline]
pub fn passed(times: u32) -> bool {
    // Relaxed: nothing depends on when the next sweep comes.
    if PASSES.fetch_add(times, Ordering::Relaxed).saturating_add(times) < SWEEP {
        return false;
    }
    sweep()
}

/// Makes those lines dormant that have carried nothing since the last sweep.
#[cold]
fn sweep() -> bool {
    PASSES.store(0, Ordering::Relaxed);
    let _held = preempt::critical();
    let mut lines = locked();
    if lines.as_ref().is_none_or(|list| list.len() <= FEW) {
        return false;
    }
    let (mut used, idle): (Vec<_>, Vec<_>) =
        vec_of(&lines).into_iter().partition(|line| line.used() || !line.rests());
    if idle.is_empty() {
        return false;
    }
    // A1 comes last: nobody sees the list before the lock is released.
    used.extend(put_away(&idle));
    publish(&mut lines, used);
    true
}

/// *A2 to A4.* Makes lines dormant. Returns those for which something has come, which stay active.
fn put_away(idle: &[Arc<dyn Line>]) -> Vec<Arc<dyn Line>> {
    idle.iter().for_each(|line| line.retire());
    barrier::heavy();
    metrics().entered_kernel(1);
    idle.iter().filter(|line| !line.rests() && line.revive()).cloned().collect()
}

/// One processor's view of the list: which version it has seen.
#[derive(Debug, Default)]
pub struct View {
    version: u64,
}

impl View {
    /// The lines at this moment.
    pub fn get(&mut self) -> List {
        let lines = locked();
        // SYNC with `VERSION` fetch_add in `publish`.
        self.version = VERSION.load(Ordering::Acquire);
        lines.clone().unwrap_or_default()
    }

    /// Whether the list has changed since the last [`get`](Self::get).
    #[inline]
    pub fn stale(&self) -> bool {
        self.version != VERSION.load(Ordering::Relaxed)
    }
}
