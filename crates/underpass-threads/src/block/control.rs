//! What stands for a thread: its control block.

use crate::block::body::Body;
use crate::block::coarse_clock;
use crate::block::locals::{self, Locals};
use crate::block::owned::Owned;
use crate::block::served::ServedLine;
use crate::block::suspension::Suspension;
use crate::block::thread_id;
use crate::diagnose::debugger_table::ControlOffsets;
use crate::lists::linked::Linked;
use std::mem::offset_of;
use std::sync::{Mutex, PoisonError};
use underpass_context::Context;
use underpass_processor::Parker;
use underpass_seam::atomic::{AtomicU32, AtomicU64, Ordering};
use underpass_seam::{Gate, StaticSlot};

/// The home of plain kernel threads, and of threads that have not started.
const KERNEL: u32 = u32::MAX;
/// That of a migrating thread that any activation may take.
const ANY: u32 = u32::MAX - 1;
/// That of a thread that has ended.
const ENDED: u32 = u32::MAX - 2;

/// What is asked of a thread when it is made, and found out while it runs.
pub(crate) mod flag {
    /// It may move to another activation whenever it is suspended.
    pub(crate) const MIGRATES: u32 = 1;
    /// It wants an activation of its own.
    pub(crate) const DEDICATED: u32 = 2;
    /// It has a name.
    pub(crate) const NAMED: u32 = 4;
    /// It has been asked to end.
    pub(crate) const CANCELLED: u32 = 8;
    /// It belongs to the runtime: it takes calls.
    pub(crate) const SERVES: u32 = 32;
    /// It is a plain kernel thread.
    pub(crate) const KERNEL: u32 = 64;
    /// Nobody wants the call any more that it runs.
    pub(crate) const UNWANTED: u32 = 128;
    /// Its calls are to end whatever is asked of it.
    pub(crate) const FINISHES: u32 = 256;
    /// Its calls are not for the call that it runs.
    pub(crate) const APART: u32 = 512;
}

/// A thread's control block. It outlives the thread: blocks are used again and never freed, so that
/// whoever looks at one that ends meanwhile reads at worst what belongs to the next thread.
///
/// *Home* is the activation on which the thread runs and is suspended: pinned threads have one for
/// life. *Owner* is who makes the thread; then, while it is in a list of unstarted threads, who
/// takes it out; from then on its home.
///
/// | field | who writes it |
/// |---|---|
/// | `next` | who has the list that it is in |
/// | `home`, `context`, `suspension`, `locals`, `served` | the owner; a kernel thread's by itself |
/// | `body` | the owner, until `ended` opens; then who joins or discards |
/// | `flags` | the owner before it starts; later by atomic or; anybody `CANCELLED`, its home `UNWANTED` |
/// | `number` | who takes it from the pool |
/// | `holders` | everybody who has a [`Thread`](crate::Thread) of it |
/// | `ended` | opened at its end; registered at by who joins, or by `itself` if nobody will |
/// | `token` | opened by `unpark`, waited at and shut by the thread |
/// | `since` | the thread, when it is suspended |
/// | `waits_for` | the thread, when it waits for what another holds |
/// | `found` | the monitor: how often the thread did not give way (`findings.rs`) |
/// | `woken`, `parker` | a plain kernel thread's wake and sleep |
#[repr(C, align(128))]
pub struct Control {
    next: StaticSlot<Control>,
    home: AtomicU32,
    flags: AtomicU32,
    pub(crate) context: Owned<Option<Box<Context>>>,
    pub(crate) suspension: Owned<Option<Suspension>>,
    pub(crate) since: AtomicU64,
    pub(crate) ended: Gate<Control>,
    pub(crate) token: Gate<Control>,
    pub(crate) body: Body,
    number: AtomicU64,
    pub(crate) holders: AtomicU32,
    pub(crate) stack: AtomicU32,
    pub(crate) findings: AtomicU32,
    pub(crate) waits_for: AtomicU64,
    pub(crate) locals: Owned<Locals>,
    pub(crate) served: Owned<ServedLine>,
    pub(crate) name: Mutex<Option<Box<str>>>,
    pub(crate) woken: AtomicU32,
    pub(crate) parker: Parker,
}

impl Control {
    /// For debuggers. Of a suspension the first of the words that say what is waited for.
    pub(crate) const OFFSETS: ControlOffsets = ControlOffsets {
        next: offset_of!(Self, next) as u64,
        home: offset_of!(Self, home) as u64,
        flags: offset_of!(Self, flags) as u64,
        number: offset_of!(Self, number) as u64,
        holders: offset_of!(Self, holders) as u64,
        context: offset_of!(Self, context) as u64,
        wait: (offset_of!(Self, suspension) + Suspension::WAIT) as u64,
        since: offset_of!(Self, since) as u64,
        waits_for: offset_of!(Self, waits_for) as u64,
    };

    /// Where in it the name's address and length lie, for debuggers.
    pub(crate) fn place_of_name(&self) -> usize {
        let name = self.name.lock().unwrap_or_else(PoisonError::into_inner);
        std::ptr::from_ref(&*name).addr() - std::ptr::from_ref(self).addr()
    }

    /// A block in the pool, of the place `index` in the registry.
    pub(crate) fn unused(index: u32) -> Self {
        Self {
            next: StaticSlot::new(),
            home: AtomicU32::new(KERNEL),
            flags: AtomicU32::new(0),
            context: Owned::new(None),
            suspension: Owned::new(None),
            since: AtomicU64::new(0),
            ended: Gate::new(),
            token: Gate::new(),
            body: Body::empty(),
            number: AtomicU64::new(thread_id::first_number(index)),
            holders: AtomicU32::new(0),
            stack: AtomicU32::new(0),
            findings: AtomicU32::new(0),
            waits_for: AtomicU64::new(0),
            locals: Owned::new(Locals::new()),
            served: Owned::new(ServedLine::new()),
            name: Mutex::new(None),
            woken: AtomicU32::new(0),
            parker: Parker::new(),
        }
    }

    /// Makes it stand for a new thread that somebody holds, after `registry::take`.
    #[inline]
    pub(crate) fn renew(&'static self, flags: u32) {
        // Relaxed, all: others learn of it by something that synchronizes; to who looks around they
        // are hints.
        let number = self.number.load(Ordering::Relaxed);
        self.number.store(thread_id::next_number(number), Ordering::Relaxed);
        self.home.store(KERNEL, Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
        self.holders.store(1, Ordering::Relaxed);
        self.stack.store(0, Ordering::Relaxed);
        self.findings.store(0, Ordering::Relaxed);
        locals::begin(self);
        self.ended.shut();
        self.token.shut();
    }

    /// As if it had stood for many threads.
    #[cfg(test)]
    pub(crate) fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// The number of the thread that it stands for, never used again; 0 if it has never stood for
    /// any.
    #[inline]
    pub fn id(&self) -> u64 {
        // Relaxed: for people, and for guesses that are checked.
        self.number.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn home(&self) -> Option<usize> {
        // Relaxed: it changes only while nobody may wake the thread.
        let home = self.home.load(Ordering::Relaxed);
        (home < ENDED).then_some(home as usize)
    }

    /// Whether it is in a list of migrating threads, for any activation to take.
    pub(crate) fn is_free(&self) -> bool {
        // Relaxed: for people.
        self.home.load(Ordering::Relaxed) == ANY
    }

    /// The owner runs it on activation `home`.
    #[inline]
    pub(crate) fn set_home(&self, home: usize) {
        self.home.store(home as u32, Ordering::Relaxed);
    }

    /// Whether it has ended: a hint.
    pub(crate) fn has_ended(&self) -> bool {
        // Relaxed: for people.
        self.home.load(Ordering::Relaxed) == ENDED
    }

    /// Its home lets it go, to any activation that takes it. See `report.rs` for why this is said.
    pub(crate) fn leave_home(&self) {
        self.home.store(ANY, Ordering::Relaxed);
    }

    /// Its home lets it go, since it has ended.
    #[inline]
    pub(crate) fn mark_ended(&self) {
        self.home.store(ENDED, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has(&self, flag: u32) -> bool {
        // Relaxed: set before the thread starts, or a request that is looked at again later.
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// Those of `flags` that are set.
    #[inline]
    pub(crate) fn which(&self, flags: u32) -> u32 {
        // Relaxed: as in `has`.
        self.flags.load(Ordering::Relaxed) & flags
    }

    pub(crate) fn set(&self, flag: u32, on: bool) {
        // SYNC: none; see `has`. `CANCELLED` is made known to a suspended thread by its home.
        if on {
            self.flags.fetch_or(flag, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!flag, Ordering::Relaxed);
        }
    }

    /// Names it, before it starts.
    pub(crate) fn set_name(&self, name: Box<str>) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
        self.flags.fetch_or(flag::NAMED, Ordering::Relaxed);
    }

    /// Its name, if it has one.
    pub(crate) fn with_name<R>(&self, with: impl FnOnce(Option<&str>) -> R) -> R {
        if !self.has(flag::NAMED) {
            return with(None);
        }
        with(self.name.lock().unwrap_or_else(PoisonError::into_inner).as_deref())
    }

    /// Where it is said which context it runs on, for who reads that from afar.
    pub(crate) fn place_of_context(&self) -> usize {
        (&raw const self.context).addr()
    }

    /// A copy of its name, for who looks around: without a wait, so nothing while somebody else
    /// looks at it.
    pub(crate) fn try_name(&self) -> Option<Box<str>> {
        let named = self.has(flag::NAMED);
        named.then(|| self.name.try_lock().ok()?.clone()).flatten()
    }

    /// As [`with_name`](Self::with_name), without a wait: nameless while somebody else looks at the
    /// name.
    pub(crate) fn try_with_name<R>(&self, with: impl FnOnce(Option<&str>) -> R) -> R {
        with(self.name.try_lock().ok().as_ref().and_then(|name| name.as_deref()))
    }

    /// The thread is about to be suspended.
    #[inline]
    pub(crate) fn stamp(&self) {
        // Relaxed: for people.
        self.since.store(coarse_clock::now(), Ordering::Relaxed);
    }

    /// When it was last suspended, in coarse ns.
    pub(crate) fn since(&self) -> u64 {
        // Relaxed: for people.
        self.since.load(Ordering::Relaxed)
    }

    /// A plain kernel thread: whether it was woken since it last asked.
    pub(crate) fn take_woken(&self) -> bool {
        // SYNC with `woken` store in `wake`.
        self.woken.load(Ordering::Relaxed) == 1 && self.woken.swap(0, Ordering::Acquire) == 1
    }

    pub(crate) fn parker(&self) -> &Parker {
        &self.parker
    }
}

impl Linked for Control {
    #[inline]
    fn link(&self) -> &StaticSlot<Self> {
        &self.next
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("id", &self.id()).field("home", &self.home()).finish_non_exhaustive()
    }
}
