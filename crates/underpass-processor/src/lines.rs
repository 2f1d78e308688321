//! The active lines of this domain, for idle processors to poll.
//!
//! A line that has carried nothing for as long as its return would cost becomes *dormant*: no
//! processor looks at it, nor watches it in its sleep. Its peer's next post rings over the socket,
//! or a call of this domain's own finds it so; then it is active again. The steps A1 to A4 and
//! their proof are in `underpass-channel/src/README.md`.

pub(crate) mod line;
pub(crate) mod owner;

use crate::{Line, metrics, preempt};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use underpass_os::barrier;
use underpass_os::futex::MOST_WORDS;

/// Lines.
pub type List = Arc<[Arc<dyn Line>]>;

/// The most lines that are active from the start: as many as a sleep can watch, besides the
/// sleeper's own word. Calls make more of them so.
pub const MOST_ACTIVE: usize = MOST_WORDS - 1;

/// Passes over the lines between two sweeps. A look takes 3 to 4 ns, and what a dormant line's
/// first call costs more than another's some 60 µs: it is put away when it has cost as much.
const SWEEP: u32 = 16 * 1024;

/// A sleep over a line, with its announcement and the kernel's part, costs as much as this many
/// looks.
pub const SLEEP: u32 = 128;

/// So few lines are not worth a sweep.
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
    // SYNC with `VERSION` load in `View::get`: a hint; the list itself is under the lock.
    VERSION.fetch_add(1, Ordering::Release);
}

fn is_in(lines: &Option<List>, line: &Arc<dyn Line>) -> bool {
    lines.iter().flat_map(|list| list.iter()).any(|other| Arc::ptr_eq(other, line))
}

/// Keeps the list as it is, while the value lives. Its kernel thread is not to be preempted
/// meanwhile.
pub struct Held(MutexGuard<'static, Option<List>>);

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// Keeps the list as it is.
pub fn hold() -> Held {
    Held(locked())
}

impl Held {
    /// This process was forked off: nobody looks at any line of its parent's.
    pub fn cut_off(mut self) {
        // Not dropped: none of what ends with a line is the child's to end.
        std::mem::forget(self.0.take());
        VERSION.fetch_add(1, Ordering::Release);
    }
}

/// Adds a line: an active one, unless as many are as a sleep can watch. Processors that sleep don't
/// watch it until they are woken; says whether that is to be done.
pub fn add(line: Arc<dyn Line>) -> bool {
    // Every scheduler takes the lock: who holds it keeps its processor.
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

/// Removes a line; says whether it was active, so that processors that sleep may hold on to it.
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

/// Makes a line active; says whether it wasn't. Then processors that sleep are to be woken, so that
/// their sleep covers it.
pub fn activate(line: &Arc<dyn Line>) -> bool {
    let _held = preempt::critical();
    let mut lines = locked();
    // One that was removed is closed.
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
        // A domain of plain kernel threads has no processors that pass over the lines.
        sweep();
    }
    true
}

/// Whether calls wait on any active line; if so, whether on one of them none was taken since this
/// was asked last. For the monitor, which waits for no lock and holds no line: where the list is
/// being changed, calls count as waiting, and the next tick tells more.
pub(crate) fn stalls() -> Option<bool> {
    let lines = match LINES.try_lock() {
        Ok(lines) => lines,
        Err(TryLockError::Poisoned(lines)) => lines.into_inner(),
        Err(TryLockError::WouldBlock) => return Some(false),
    };
    // Each line is asked, as each remembers what it had taken.
    let stalls = lines.iter().flat_map(|list| list.iter()).filter_map(|line| line.stalls());
    stalls.reduce(|any, stalls| any | stalls)
}

/// How many lines are active.
pub fn active() -> usize {
    let _held = preempt::critical();
    locked().as_ref().map_or(0, |list| list.len())
}

/// A processor has passed over the lines so many times. Says whether some became dormant: then
/// processors that sleep are to be woken, since they hold on to those.
#[inline]
pub fn passed(times: u32) -> bool {
    // Relaxed: nothing depends on when the next sweep comes.
    if PASSES.fetch_add(times, Ordering::Relaxed).saturating_add(times) < SWEEP {
        return false;
    }
    sweep()
}

/// Puts the lines away that have carried nothing since the last sweep.
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
    // A1 comes last: nobody sees the list before the lock is let go of.
    used.extend(put_away(&idle));
    publish(&mut lines, used);
    true
}

/// *A2 to A4.* Gives back those for which something has come.
fn put_away(idle: &[Arc<dyn Line>]) -> Vec<Arc<dyn Line>> {
    idle.iter().for_each(|line| line.retire());
    barrier::heavy();
    metrics().entered_kernel(1);
    idle.iter().filter(|line| !line.rests() && line.revive()).cloned().collect()
}

/// How recent one processor's copy of the list is.
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
