//! The switch from one thread to the next: directly if the next one is at hand, otherwise through
//! the scheduler.

use crate::block::control::{Control, flag};
use crate::sched::panic_count;
use crate::sched::runner::RunnerKind;
use crate::sched::scheduler::{SWITCHES, Scheduler};
use crate::sched::switch_hooks;
use crate::wait::section::{OutOfSection, leaves_at_waits};
use underpass_context::{Context, Pause, Resume};
use underpass_processor::preempt;

/// As `preempt::suspend`, for a thread that may have moved to another kernel thread since it was
/// last suspended in the same function. The compiler knows nothing of that, so this is not inlined.
#[inline(never)]
fn suspend_anew() -> u32 {
    preempt::suspend()
}

/// As `preempt::resume`, for a thread that may have moved to another kernel thread. Not inlined, as
/// above.
#[inline(never)]
fn resume_anew(held: u32) {
    preempt::resume(held);
}

impl Scheduler {
    /// Pauses the calling thread, `me`. The next thread goes on in its place, or the scheduler
    /// does.
    #[inline(always)]
    pub(crate) fn pause(&'static self, me: &'static Control, why: Pause) {
        // One test for both. Most threads have neither flag.
        let odd = me.has(flag::MIGRATES | flag::SECTIONS);
        if odd && why == Pause::Yield && self.yields_outside_section(me) {
            return;
        }
        let panics = panic_count::leave();
        let held = if odd { suspend_anew() } else { preempt::suspend() };
        // SAFETY: this kernel thread is its home, which owns the field.
        let context = unsafe { me.context.get() }.as_deref().expect("a thread that runs has a context");
        let mut resumed = match self.next_after(me, why) {
            // The wake-up of `me` came first.
            Some(next) if std::ptr::eq(next, context) => Resume::GoOn,
            // SAFETY: the caller is the thread of `context`. The other thread can go on, and lives
            // here.
            Some(next) => unsafe { context.pass(next) },
            // SAFETY: as above.
            None => unsafe { context.leave(&self.base, why) },
        };
        while resumed == Resume::Report {
            crate::sched::self_report::report_own(me);
            // SAFETY: as above. Only its home makes it report.
            resumed = unsafe { context.leave(&self.base, why) };
        }
        if me.has(flag::MIGRATES) {
            resume_anew(held);
        } else {
            preempt::resume(held);
        }
        panic_count::enter(panics);
    }

    /// Lets other threads go first, outside of the current section of `me`, the calling thread.
    /// `false` if it has no section to leave.
    #[cold]
    #[inline(never)]
    fn yields_outside_section(&'static self, me: &'static Control) -> bool {
        let leaves = leaves_at_waits(me);
        if leaves {
            let _out = OutOfSection::of(me);
            self.pause(me, Pause::Yield);
        }
        leaves
    }

    /// The context of the thread that runs after `me`, which pauses. That thread is the current one
    /// from now on. `None` if the scheduler has maintenance to do first.
    #[inline(always)]
    fn next_after(&'static self, me: &'static Control, why: Pause) -> Option<&'static Context> {
        if self.needs_maintenance() || me.has(flag::MIGRATES) {
            return None;
        }
        let context = match self.outside.ready.pop() {
            None => self.next_unstarted()?,
            // SAFETY: the thread lives here, and doesn't run.
            Some(next) => match unsafe { next.context.get() }.as_deref() {
                None => self.first_context_of(next)?,
                Some(context) => {
                    self.take_over(next);
                    context
                }
            },
        };
        if why == Pause::Yield {
            self.outside.ready.push(me);
        }
        Some(context)
    }

    /// As `next_after`, for a thread that has not started.
    #[inline(never)]
    fn next_unstarted(&'static self) -> Option<&'static Context> {
        let next = if self.is_dedicated() { None } else { self.take_near() }?;
        next.set_home(self.number);
        self.add_live(1);
        self.first_context_of(next)
    }

    #[inline(never)]
    fn first_context_of(&'static self, next: &'static Control) -> Option<&'static Context> {
        let Some(context) = self.context_of(next) else {
            // There is no memory for a stack: the thread waits until one is given back.
            self.outside.ready.push(next);
            return None;
        };
        self.take_over(next);
        Some(context)
    }

    /// The next thread after one that has ended. The context of that one is idle by now.
    pub(crate) fn next_after_end(&'static self) -> Option<&'static Context> {
        if self.needs_maintenance() {
            return None;
        }
        match self.outside.ready.pop() {
            Some(next) => self.first_context_of(next),
            None => self.next_unstarted(),
        }
    }

    /// The context of a thread that is about to run here. `None` if there is no memory for a stack.
    #[inline]
    pub(crate) fn context_of(&self, control: &'static Control) -> Option<&'static Context> {
        // SAFETY: the thread lives here, and doesn't run.
        let context = unsafe { control.context.get() };
        if context.is_none() {
            *context = self.runners.take(control);
        }
        context.as_deref()
    }

    /// A thread runner found no further thread, and is about to pause.
    pub(crate) fn done(&self, kind: RunnerKind, context: Box<Context>) {
        self.outside.current.clear();
        self.done.set(Some((kind, context)));
    }

    /// `control` is the thread that runs from now on.
    #[inline(always)]
    pub(crate) fn take_over(&self, control: &'static Control) {
        self.outside.current.set(control);
        self.outside.activation.stepped();
        self.switches.set(self.switches.get() + 1);
    }

    /// Whether the scheduler has something else to do before the next thread runs.
    #[inline(always)]
    pub(crate) fn needs_maintenance(&self) -> bool {
        self.outside.has_remote_work()
            || self.outside.activation.summoned()
            || self.switches.get() + 1 >= SWITCHES
            || self.serving.is_some()
            || switch_hooks::set()
    }
}
