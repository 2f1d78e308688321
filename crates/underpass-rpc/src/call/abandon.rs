//! Lets another thread free callers from a server that does not reply (LRPC: a client takes its
//! threads back from a server that has captured them).

use crate::call::slot_queue::Who;
use crate::call::task_wakeup::wake_task;
use crate::call::waiting::wake;
use crate::dispatch::section_numbers::SectionNumbers;
use crate::error::{CallError, Outcome};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use underpass_os::fork;
use underpass_threads::{Control, critical};

/// The right to free callers from a server that does not reply.
///
/// Calls over a stub that is `abandonable` by this return as soon as any thread abandons it. Each
/// fails with [`CallError::Abandoned`], which says what is known of the call. This is for good:
/// later calls over such a stub are not started.
///
/// The server learns of it. A handler that asks [`is_cancelled`](crate::is_cancelled) is told, and
/// a call that the server has not started yet is never started. The call's slot and A-stack are
/// quarantined until the server has replied. Make it before the calls; clone it and pass it on at
/// will.
///
/// # Examples
/// ```
/// use underpass::Abandon;
///
/// let abandon = Abandon::new();
/// // let fs = fs.abandonable(&abandon); then calls over `fs`, from any threads; and from another:
/// abandon.abandon();
/// assert!(abandon.is_abandoned());
/// ```
#[derive(Clone, Default)]
pub struct Abandon {
    calls: Arc<Mutex<Calls>>,
}

#[derive(Default)]
struct Calls {
    abandoned: bool,
    next: u64,
    /// The calls under way: the number of each, the end over which it waits, and its slot once it
    /// has one.
    under_way: Vec<(u64, Arc<dyn Frees>, Option<u16>)>,
}

/// A place where callers wait and can be freed.
pub(crate) trait Frees: Send + Sync {
    /// Frees the caller whose call has the slot `number`; if it is `None`, all callers that have no
    /// slot. Returns the callers that are to be woken. Takes little time, takes no lock of an
    /// [`Abandon`], and wakes nobody, because a wake-up runs the user's code.
    fn free(&self, number: Option<u16>) -> Vec<Freed>;
}

/// A caller that is to be woken, so that it checks whether it is freed.
#[must_use = "it sleeps until it is woken"]
pub(crate) enum Freed {
    /// It waits for a slot, for a late answer, or for the next binding.
    Waiter(Who),
    /// A thread that waits for its reply.
    Thread(&'static Control),
    /// A task that waits for its reply.
    Task(Waker),
}

impl Freed {
    /// Wakes it. The caller holds no lock: the executor may poll the task at once, or drop it.
    fn wake(self) {
        match self {
            Self::Waiter(who) => who.call(),
            Self::Thread(who) => wake(who),
            Self::Task(waker) => wake_task(waker),
        }
    }
}

impl Abandon {
    /// No call is abandonable by this one yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Frees the callers of all calls that are abandonable by this.
    pub fn abandon(&self) {
        let held = critical();
        let mut calls = self.calls();
        calls.abandoned = true;
        let under_way: Vec<_> = calls.under_way.iter().map(|(_, end, slot)| (end.clone(), *slot)).collect();
        // The callers of an end that have no slot are freed all at once.
        let mut places = HashSet::new();
        let each = under_way
            .iter()
            .filter(|(end, slot)| slot.is_some() || places.insert(Arc::as_ptr(end).cast::<()>()));
        // Under the lock: a call that leaves the list gives its slot to others.
        let freed: Vec<_> = each.flat_map(|(end, slot)| end.free(*slot)).collect();
        drop(calls);
        drop(held);
        freed.into_iter().for_each(Freed::wake);
    }

    /// Whether it was abandoned.
    pub fn is_abandoned(&self) -> bool {
        let _held = critical();
        self.calls().abandoned
    }

    /// The holder of this lock keeps its processor.
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call over `end` begins. Nothing if this is abandoned already.
    fn enter(&self, end: Arc<dyn Frees>) -> Option<Entry> {
        let _held = critical();
        let mut calls = self.calls();
        if calls.abandoned {
            return None;
        }
        calls.next += 1;
        let number = calls.next;
        calls.under_way.push((number, end, None));
        Some(Entry { by: self.clone(), number })
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.calls, &other.calls)
    }
}

impl fmt::Debug for Abandon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Abandon").field("is_abandoned", &self.is_abandoned()).finish()
    }
}

/// A call that can be freed, until dropped: by the caller's own choice, or because it is made on
/// behalf of another call that nobody wants any more. Or a call that carries section numbers.
pub(crate) struct UnderWay {
    chosen: Option<Entry>,
    inherited: Option<Entry>,
    numbers: SectionNumbers,
}

impl UnderWay {
    /// A call over `end` begins, which can be freed by these, and carries `numbers`.
    pub(crate) fn new(
        end: Option<Arc<dyn Frees>>,
        chosen: Option<&Abandon>,
        inherited: Option<&Abandon>,
        numbers: SectionNumbers,
    ) -> Result<Option<Self>, Box<CallError>> {
        if chosen.is_none() && inherited.is_none() && numbers.is_empty() {
            return Ok(None);
        }
        let enter = |by: &Abandon| by.enter(end.clone()?);
        let error = |error: fn(Outcome) -> CallError| Box::new(error(Outcome::NotStarted));
        let chosen = chosen.map(|by| enter(by).ok_or_else(|| error(CallError::Abandoned))).transpose()?;
        let inherited =
            inherited.map(|by| enter(by).ok_or_else(|| error(CallError::Cancelled))).transpose()?;
        Ok(Some(Self { chosen, inherited, numbers }))
    }

    /// The section numbers that it carries.
    pub(crate) fn numbers(&self) -> SectionNumbers {
        self.numbers
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.chosen.iter().chain(&self.inherited)
    }

    /// The call is over, or given up: an `abandon` from now on does not find it. To be called
    /// before the slot belongs to another call, and without the lock of the client's end.
    pub(crate) fn leaves(&self) {
        self.entries().for_each(Entry::leaves);
    }

    /// The call has a slot now.
    pub(crate) fn has(&self, slot: u16) {
        self.entries().for_each(|entry| entry.has(Some(slot)));
    }

    /// The call waits without a slot. To be called before the slot that it had belongs to another
    /// call, and without the lock of the client's end.
    pub(crate) fn has_none(&self) {
        self.entries().for_each(|entry| entry.has(None));
    }

    pub(crate) fn is_freed(&self) -> bool {
        self.freed().is_some()
    }

    /// The error that its caller gets, if it is freed.
    pub(crate) fn freed(&self) -> Option<fn(Outcome) -> CallError> {
        let is_abandoned =
            |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| entry.by.is_abandoned());
        if is_abandoned(&self.chosen) {
            return Some(CallError::Abandoned);
        }
        is_abandoned(&self.inherited).then_some(CallError::Cancelled)
    }
}

/// A call in the list of an [`Abandon`], until it leaves or is dropped.
struct Entry {
    by: Abandon,
    number: u64,
}

impl Entry {
    fn leaves(&self) {
        // Another thread of the parent may hold the lock for ever.
        if fork::is_forked() {
            return;
        }
        let held = critical();
        let mut calls = self.by.calls();
        let place = calls.under_way.iter().position(|call| call.0 == self.number);
        let gone = place.map(|place| calls.under_way.swap_remove(place));
        drop(calls);
        drop(held);
        // Perhaps the last hold on the end.
        drop(gone);
    }

    fn has(&self, slot: Option<u16>) {
        let _held = critical();
        let mut calls = self.by.calls();
        calls.under_way.iter_mut().filter(|call| call.0 == self.number).for_each(|call| call.2 = slot);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.leaves();
    }
}
