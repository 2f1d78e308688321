//! Thread runners: contexts that run one thread after another. A thread that starts needs no new
//! stack, and often no switch.

use crate::block::control::{Control, flag};
use crate::block::locals;
use crate::sched::activations;
use crate::sched::no_preempt::critical;
use crate::sched::runner_pool::RunnerPool;
use crate::sched::scheduler::{self, Scheduler};
use crate::sched::stack_sizes::{self, STACK};
use crate::sched::switch_hooks;
use crate::sched::thread_end;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use underpass_context::{Base, Context, Pause, Resume, Stacks};
use underpass_os::clock::now_ns;
use underpass_processor::preempt;

/// How many idle runners of each kind an activation keeps for itself.
const WARM: usize = 64;
/// Bytes of a handler's stack that stay in memory when its call has ended. What lies beyond goes
/// back to the kernel.
const KEPT: usize = 256 * 1024;

/// What a runner's stack is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunnerKind {
    /// Threads that the program has started.
    Thread,
    /// Incoming calls: an E-stack.
    Handler,
}

impl RunnerKind {
    const ALL: [Self; 2] = [Self::Thread, Self::Handler];

    /// What the stack of this thread is for.
    #[inline]
    pub(crate) fn of(control: &Control) -> Self {
        if control.has(flag::SERVES) { Self::Handler } else { Self::Thread }
    }

    /// Whether a runner with this context can be used again.
    fn keeps(self, context: &Context) -> bool {
        match self {
            Self::Thread => context.size() == STACK,
            Self::Handler => context.size() >= stack_sizes::stack_size(),
        }
    }
}

/// The idle runners of one kind that all activations share.
struct SharedRunners {
    kept: Mutex<RunnerPool>,
    /// When to look for unused ones, in ns of the monotonic clock. 0: not at all.
    due: AtomicU64,
}

impl SharedRunners {
    const fn new() -> Self {
        Self { kept: Mutex::new(RunnerPool::new()), due: AtomicU64::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, RunnerPool> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When to look for unused runners.
    #[inline]
    fn due(&self) -> Option<u64> {
        // Relaxed: an activation that adds a runner looks later itself, or wakes another one that
        // does.
        Some(self.due.load(Ordering::Relaxed)).filter(|&due| due != 0)
    }
}

/// One for each [`RunnerKind`].
static COMMON: [SharedRunners; 2] = [const { SharedRunners::new() }; 2];
/// How many stacks were made for runners, and how many of those were given back.
static MADE: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// How many stacks were made for runners, and how many of them were given back.
pub(crate) fn made_and_ended() -> (u64, u64) {
    // Relaxed, as where they are written: statistics. Read in this order, so that no more stacks
    // seem to have ended than were made.
    let ended = ENDED.load(Ordering::Relaxed);
    (MADE.load(Ordering::Relaxed), ended)
}

/// When an activation has to be awake to [`reclaim`](Runners::reclaim), in ns of the monotonic
/// clock.
#[inline]
pub(crate) fn due() -> Option<u64> {
    COMMON.iter().filter_map(SharedRunners::due).min()
}

/// The idle runners of one activation, of each [`RunnerKind`].
#[derive(Default)]
pub(crate) struct Runners {
    #[allow(clippy::vec_box, reason = "what runs on a context knows its address")]
    idle: [RefCell<Vec<Box<Context>>>; 2],
}

impl Runners {
    /// A runner for `control`. `None` if there is no memory for a stack.
    #[inline]
    pub(crate) fn take(&self, control: &Control) -> Option<Box<Context>> {
        // Relaxed: it was set before the thread was made available to others.
        let size = control.stack.load(Ordering::Relaxed) as usize;
        if size != 0 && size != STACK {
            return fresh(size);
        }
        let kind = RunnerKind::of(control);
        let warm = self.idle[kind as usize].borrow_mut().pop_if(|context| kind.keeps(context));
        warm.or_else(|| take_common(kind))
    }

    /// Keeps a runner that is about to pause with nothing to do. Only this kernel thread, which
    /// runs it, may use it again.
    ///
    /// # Errors
    /// The context, if enough are kept or its size is unusual.
    fn keep_near(&self, kind: RunnerKind, context: Box<Context>) -> Result<(), Box<Context>> {
        let mut idle = self.idle[kind as usize].borrow_mut();
        if !kind.keeps(&context) || idle.len() >= WARM {
            return Err(context);
        }
        idle.push(context);
        Ok(())
    }

    /// Keeps a runner that has paused with nothing to do, for any activation. Frees it if enough
    /// are kept. Returns whether an activation has to look for unused ones from now on, where none
    /// had to before.
    pub(crate) fn keep(&self, kind: RunnerKind, context: Box<Context>) -> bool {
        if !kind.keeps(&context) {
            end(context);
            return false;
        }
        let shelf = &COMMON[kind as usize];
        let mut common = shelf.lock();
        let left = common.push(context);
        let anew = shelf.due.swap(common.due(), Ordering::Relaxed) == 0 && common.due() != 0;
        drop(common);
        if let Err(context) = left {
            end(context);
        }
        anew
    }

    /// Gives the memory of all idle runners back to the kernel. Called between two threads.
    pub(crate) fn trim(&self) {
        for kind in RunnerKind::ALL {
            let shelf = &COMMON[kind as usize];
            let mut kept = shelf.lock();
            let common = kept.take_all();
            shelf.due.store(kept.due(), Ordering::Relaxed);
            drop(kept);
            self.idle[kind as usize].take().into_iter().chain(common).for_each(end);
        }
    }

    /// Gives runners back to the kernel that have lain unused for long, as long as nothing else is
    /// `wanted`. Called between two threads.
    #[inline]
    pub(crate) fn reclaim(&self, wanted: impl Fn() -> bool) {
        if due().is_some() {
            reclaim(wanted);
        }
    }

    /// There is no memory for another stack: frees the idle runners here and on the other
    /// activations. Called between two threads.
    #[cold]
    pub(crate) fn spare_none(&self) {
        static ASKED: AtomicBool = AtomicBool::new(false);
        self.trim();
        // Relaxed, both: they only keep many attempts in a row from injecting a task each.
        if !ASKED.swap(true, Ordering::Relaxed) {
            activations::all().for_each(|outside| {
                outside.inject(Box::new(|own| {
                    own.runners.trim();
                    ASKED.store(false, Ordering::Relaxed);
                }));
            });
        }
    }
}

#[cold]
fn reclaim(wanted: impl Fn() -> bool) {
    let now = now_ns();
    for shelf in &COMMON {
        while shelf.due().is_some_and(|due| due <= now) && !wanted() {
            let mut kept = shelf.lock();
            let unused = kept.unused(now);
            shelf.due.store(kept.due(), Ordering::Relaxed);
            drop(kept);
            unused.into_iter().for_each(end);
        }
    }
}

#[cold]
fn take_common(kind: RunnerKind) -> Option<Box<Context>> {
    let _held = critical();
    let idle = COMMON[kind as usize].lock().pop_if(|context| kind.keeps(context));
    idle.or_else(|| {
        fresh(match kind {
            RunnerKind::Thread => STACK,
            RunnerKind::Handler => stack_sizes::stack_size(),
        })
    })
}

#[cold]
fn fresh(size: usize) -> Option<Box<Context>> {
    let stack = Stacks::new(size, 0).take().ok()?;
    MADE.fetch_add(1, Ordering::Relaxed);
    Some(Context::new(stack, carry))
}

/// Unmaps the stacks that are kept for later threads.
///
/// The stack of a thread or call is kept when that ends: of each kind up to 64 on each activation,
/// and 1024 besides. Of these 1024 the kernel may take the memory of most whenever it is short. All
/// but 64 of them are given back once they have lain unused for 1 to 2 s.
///
/// After a burst of threads a program that goes on with few for long may give all of it back at
/// once. Each activation does so when it next comes between two threads. Control blocks stay for
/// good: about 500 bytes for each thread of the largest number that ever lived at once.
///
/// # Examples
/// ```
/// use underpass::thread::{spawn, trim, yield_now};
/// let burst: Vec<_> = (0..500).map(|_| spawn(yield_now)).collect();
/// burst.into_iter().for_each(|thread| thread.join().unwrap());
/// trim();
/// ```
pub fn trim() {
    let living = activations::all().filter(|outside| !outside.activation.has_ended());
    living.for_each(|outside| outside.inject(Box::new(|own| own.runners.trim())));
}

/// Ends an idle runner.
fn end(context: Box<Context>) {
    ENDED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: nobody else has it, and its stack holds nothing but the loop of `carry`. Called
    // between two threads.
    let why = unsafe { scheduler::anew().base().enter(&context, Resume::End) };
    debug_assert_eq!(why, Pause::Ended);
}

/// What every runner does: runs the thread that it is given, then the next.
fn carry() -> &'static Base {
    loop {
        preempt_enable();
        let control = scheduler::anew().current();
        // SAFETY: this thread owns its body until it has ended.
        unsafe { control.body.run() };
        locals::end(control);
        let mut end = End::of(control);
        let finished = loop {
            if end == End::Unheeded {
                // SAFETY: nobody else will use its result.
                unsafe { control.body.discard() };
                // The destructor may have used the thread's variables again.
                locals::end(control);
            }
            match finish(control, end) {
                Finished::Unheeded => end = End::Unheeded,
                finished => break finished,
            }
        };
        let resumed = match finished {
            Finished::Next | Finished::Unheeded => Resume::GoOn,
            Finished::Pass { own, next } => {
                // SAFETY: it is this very context. It is idle by now, so its owner does not drop it
                // before it has ended.
                let own = unsafe { &*own };
                // SAFETY: the other thread lives here, and doesn't run.
                unsafe { own.pass(next) }
            }
            Finished::Leave { own } => {
                // SAFETY: as above.
                let own = unsafe { &*own };
                // SAFETY: it runs here, so this is the base from which it was entered.
                unsafe { own.leave(scheduler::anew().base(), Pause::Done) }
            }
        };
        if resumed == Resume::End {
            return scheduler::anew().base();
        }
    }
}

/// Whether anybody has the right to a thread's result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Heeded,
    Unheeded,
}

impl End {
    fn of(control: &'static Control) -> Self {
        if thread_end::is_detached(control) { Self::Unheeded } else { Self::Heeded }
    }
}

/// What a runner does after a thread.
enum Finished {
    /// It runs another thread.
    Next,
    /// It is idle, and another context goes on.
    Pass { own: *const Context, next: &'static Context },
    /// It is idle, and the scheduler goes on.
    Leave { own: *const Context },
    /// The last handle was dropped just now. Discard the result, and call `finish` again.
    Unheeded,
}

/// Usable bytes of the stack of a thread that lives on the calling activation. `None` if it has no
/// stack yet.
pub(crate) fn size_of(control: &Control) -> Option<usize> {
    // SAFETY: this very kernel thread is its home, which owns the field.
    unsafe { control.context.get() }.as_deref().map(Context::size)
}

/// The calling thread, `dispatcher`, has served all calls that came. What a deep call has used of
/// its stack goes back to the kernel.
pub(crate) fn give_back_deep(dispatcher: &Control) {
    // SAFETY: it runs, so its home is this very kernel thread.
    if let Some(context) = unsafe { dispatcher.context.get() } {
        shed(context);
    }
}

/// Gives back what a deep call has used of the caller's stack. The caller has nothing but frames of
/// the runtime on it.
fn shed(context: &Context) {
    // SAFETY: the caller runs on this stack. Its frames take far fewer bytes than are kept, and
    // nothing else is on the stack.
    unsafe { underpass_os::give_back_deep(context.bounds(), KEPT) };
}

/// Not inlined: another kernel thread may run this by now, and the compiler doesn't know.
#[inline(never)]
fn preempt_enable() {
    preempt::enable();
}

/// The thread of this context has ended: wakes its joiner, and chooses what the context does next.
/// Disables preemption, unless it is to be called again.
#[inline(never)]
fn finish(control: &'static Control, end: End) -> Finished {
    // Not `disable`: critical sections that the thread has leaked end with it.
    preempt::suspend();
    let (own, kind) = (scheduler::anew(), RunnerKind::of(control));
    // SAFETY: the thread runs, so its home is this very kernel thread.
    let place = unsafe { control.context.get() };
    let context = place.take().expect("a thread that runs has a context");
    switch_hooks::pauses(own, control);
    control.mark_ended();
    if end == End::Unheeded {
        thread_end::release(control);
    } else if !thread_end::tell_end(control) {
        *place = Some(context);
        control.set_home(own.number());
        switch_hooks::resumes(own, control);
        preempt::enable();
        return Finished::Unheeded;
    }
    own.lost_one();
    // From here on `control` may stand for another thread.
    if let Some(next) = own.next_here(&context) {
        // SAFETY: the thread was taken from a list, so nobody else has it, and it has not started.
        unsafe { *next.context.get() = Some(context) };
        return Finished::Next;
    }
    let here = std::ptr::from_ref(&*context);
    if kind == RunnerKind::Handler {
        shed(&context);
    }
    match own.runners.keep_near(kind, context) {
        Err(context) => own.done(kind, context),
        Ok(()) => {
            own.outside().current.clear();
            if let Some(next) = own.next_after_end() {
                // It may have taken this very context, which was idle.
                return if std::ptr::eq(here, next) {
                    Finished::Next
                } else {
                    Finished::Pass { own: here, next }
                };
            }
        }
    }
    Finished::Leave { own: here }
}

impl Scheduler {
    /// The next thread, if it has not started and can do so on `context`.
    fn next_here(&self, context: &Context) -> Option<&'static Control> {
        let outside = self.outside();
        // Unstarted threads go before the ready ones, up to the next maintenance: so a thread that
        // starts many others is not switched to after each of them.
        let others = (outside.free.is_empty() && !outside.ready.is_empty())
            || self.is_dedicated()
            || self.needs_maintenance();
        if others || context.size() != STACK {
            return None;
        }
        let next = self.take_near()?;
        next.set_home(self.number());
        self.add_live(1);
        if next.stack.load(Ordering::Relaxed) != 0 || next.has(flag::MIGRATES) {
            // The thread has another stack, or wants one.
            self.outside().ready.push(next);
            return None;
        }
        self.take_over(next);
        Some(next)
    }
}
