//! A thread's control block.

use crate::block::body::Body;
use crate::block::coarse_clock;
use crate::block::locals::{self, Locals};
use crate::block::owned::Owned;
use crate::block::served::ServedLine;
use crate::block::suspension::Suspension;
use crate::block::thread_id;
use crate::diagnose::debugger_table::ControlOffsets;
use crate::lists::linked::Linked;
use crate::wait::section::CurrentSection;
use std::mem::offset_of;
use std::sync::{Mutex, PoisonError};
use underpass_context::Context;
use underpass_processor::Parker;
use underpass_seam::atomic::{AtomicU32, AtomicU64, Ordering};
use underpass_seam::{Gate, StaticSlot};

/// The `home` of a plain kernel thread, and of a thread that has not started.
const KERNEL: u32 = u32::MAX;
/// The `home` of a migrating thread that any activation may take.
const ANY: u32 = u32::MAX - 1;
/// The `home` of a thread that has ended.
const ENDED: u32 = u32::MAX - 2;

/// Bits of `flags`: what was asked of a thread at its start, and requests that come while it runs.
pub(crate) mod flag {
    /// The thread may move to another activation whenever it is suspended.
    pub(crate) const MIGRATES: u32 = 1;
    /// The thread wants an activation of its own.
    pub(crate) const DEDICATED: u32 = 2;
    /// The thread has a name.
    pub(crate) const NAMED: u32 = 4;
    /// The thread was cancelled.
    pub(crate) const CANCELLED: u32 = 8;
    /// The thread belongs to the runtime: it serves incoming calls.
    pub(crate) const SERVES: u32 = 32;
    /// The thread is a plain kernel thread.
    pub(crate) const KERNEL: u32 = 64;
    /// The caller of the call that the thread runs has given up.
    pub(crate) const UNWANTED: u32 = 128;
    /// Nothing ends the thread's own calls early: neither a cancellation nor `UNWANTED`.
    pub(crate) const FINISHES: u32 = 256;
    /// The thread's own calls are independent of the call that it runs: `UNWANTED` does not end
    /// them.
    pub(crate) const APART: u32 = 512;
    /// The thread has been in a section of an exclusive service (`wait/section.rs`). It stays set.
    pub(crate) const SECTIONS: u32 = 1024;
}

/// A thread's control block. A block outlives its thread: it is used again for another thread and
/// never freed. So a reader that looks at a block whose thread ends meanwhile reads, at worst, what
/// belongs to the next thread.
///
/// *Home* is the activation on which the thread runs and is suspended. A pinned thread has one home
/// for life. *Owner* is at first the maker of the thread. While the thread is in a list of
/// unstarted threads, its owner is the one that takes it out. From then on the owner is its home.
///
/// | field | its writer |
/// |---|---|
/// | `next` | the owner of the list that the block is in |
/// | `home`, `context`, `suspension`, `locals`, `served` | the owner; for a kernel thread, that thread itself |
/// | `section` | the thread itself |
/// | `body` | the owner, until `ended` opens; then the joiner, or the one that discards the result |
/// | `flags` | the owner, before the thread starts; later by atomic or: anybody `CANCELLED`, its home `UNWANTED`, the thread `SECTIONS` |
/// | `number` | the one that takes the block from the pool |
/// | `holders` | everybody that has a [`Thread`](crate::Thread) of it |
/// | `ended` | opened at the thread's end; the joiner registers there, or the block itself if nobody will join |
/// | `token` | `unpark` opens it; the thread waits there and shuts it |
/// | `since` | the thread, when it is suspended |
/// | `waits_for` | the thread, when it waits for something that another thread holds |
/// | `findings` | the monitor: how often the thread did not give way (`monitor_findings.rs`) |
/// | `woken`, `parker` | the waker of a plain kernel thread, and that thread when it sleeps |
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
    pub(crate) section: CurrentSection,
    pub(crate) name: Mutex<Option<Box<str>>>,
    pub(crate) woken: AtomicU32,
    pub(crate) parker: Parker,
}

impl Control {
    /// Offsets of fields, for debuggers. `wait` is the first word of what a suspended thread waits
    /// for.
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

    /// The offset of the name's address and length, for debuggers.
    pub(crate) fn place_of_name(&self) -> usize {
        let name = self.name.lock().unwrap_or_else(PoisonError::into_inner);
        std::ptr::from_ref(&*name).addr() - std::ptr::from_ref(self).addr()
    }

    /// A block that stands for no thread yet, at place `index` of the registry.
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
            section: CurrentSection::none(),
            name: Mutex::new(None),
            woken: AtomicU32::new(0),
            parker: Parker::new(),
        }
    }

    /// Makes the block stand for a new thread that has one holder. Call it after
    /// `unused_blocks::take`.
    #[inline]
    pub(crate) fn renew(&'static self, flags: u32) {
        // Relaxed, all: another thread learns of this one through something that synchronizes. To a
        // dump the values are hints.
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

    /// Sets the number, as if the block had stood for many threads.
    #[cfg(test)]
    pub(crate) fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// The number of the thread that the block stands for. It is never used again. 0: the block has
    /// never stood for a thread.
    #[inline]
    pub fn id(&self) -> u64 {
        // Relaxed: the number is for people, and for guesses that are checked afterwards.
        self.number.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn home(&self) -> Option<usize> {
        // Relaxed: `home` changes only while nobody may wake the thread.
        let home = self.home.load(Ordering::Relaxed);
        (home < ENDED).then_some(home as usize)
    }

    /// Whether the thread is in a list of migrating threads that any activation may take.
    pub(crate) fn is_free(&self) -> bool {
        // Relaxed: for people.
        self.home.load(Ordering::Relaxed) == ANY
    }

    /// The owner runs the thread on activation `home` from now on.
    #[inline]
    pub(crate) fn set_home(&self, home: usize) {
        self.home.store(home as u32, Ordering::Relaxed);
    }

    /// Whether the thread has ended: a hint.
    pub(crate) fn has_ended(&self) -> bool {
        // Relaxed: for people.
        self.home.load(Ordering::Relaxed) == ENDED
    }

    /// The home releases the thread to any activation that takes it. `report.rs` says why that is
    /// noted.
    pub(crate) fn leave_home(&self) {
        self.home.store(ANY, Ordering::Relaxed);
    }

    /// The home releases the thread because the thread has ended.
    #[inline]
    pub(crate) fn mark_ended(&self) {
        self.home.store(ENDED, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has(&self, flag: u32) -> bool {
        // Relaxed: the flag was set before the thread started, or it is a request that is checked
        // again later.
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// The subset of `flags` that is set.
    #[inline]
    pub(crate) fn which(&self, flags: u32) -> u32 {
        // Relaxed: as in `has`.
        self.flags.load(Ordering::Relaxed) & flags
    }

    pub(crate) fn set(&self, flag: u32, on: bool) {
        // SYNC: none; see `has`. The home of a suspended thread tells it of `CANCELLED`.
        if on {
            self.flags.fetch_or(flag, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!flag, Ordering::Relaxed);
        }
    }

    /// Sets the thread's name, before it starts.
    pub(crate) fn set_name(&self, name: Box<str>) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
        self.flags.fetch_or(flag::NAMED, Ordering::Relaxed);
    }

    /// Runs `with` on the thread's name, if it has one.
    pub(crate) fn with_name<R>(&self, with: impl FnOnce(Option<&str>) -> R) -> R {
        if !self.has(flag::NAMED) {
            return with(None);
        }
        with(self.name.lock().unwrap_or_else(PoisonError::into_inner).as_deref())
    }

    /// The address of the field `context`, for a reader that goes through the kernel
    /// (`std_guards.rs`).
    pub(crate) fn place_of_context(&self) -> usize {
        (&raw const self.context).addr()
    }

    /// A copy of the thread's name, for a dump. Never waits: `None` while another reader holds the
    /// name's lock.
    pub(crate) fn try_name(&self) -> Option<Box<str>> {
        let named = self.has(flag::NAMED);
        named.then(|| self.name.try_lock().ok()?.clone()).flatten()
    }

    /// As [`with_name`](Self::with_name), but never waits: no name while another reader holds the
    /// name's lock.
    pub(crate) fn try_with_name<R>(&self, with: impl FnOnce(Option<&str>) -> R) -> R {
        with(self.name.try_lock().ok().as_ref().and_then(|name| name.as_deref()))
    }

    /// Notes when the thread is suspended: about now.
    #[inline]
    pub(crate) fn mark_suspended(&self) {
        // Relaxed: for people.
        self.since.store(coarse_clock::now(), Ordering::Relaxed);
    }

    /// When the thread was last suspended, in ns of the coarse clock.
    pub(crate) fn since(&self) -> u64 {
        // Relaxed: for people.
        self.since.load(Ordering::Relaxed)
    }

    /// For a plain kernel thread: whether it was woken since it last asked.
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
