//! The scheduler of one activation: which of its threads runs next.

use crate::block::control::{Control, flag};
use crate::block::served::ServedLine;
use crate::block::timers::Timers;
use crate::sched::activations::{self, Outside};
use crate::sched::listener_state::ListenerState;
use crate::sched::runner::{RunnerKind, Runners};
use crate::sched::stealing;
use crate::sched::switch_hooks::{self, Between};
use crate::sched::unused_blocks::UnusedBlocks;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use underpass_context::{Base, Context, Pause, Resume};
use underpass_processor::lines::View;
use underpass_processor::{Activation, AdaptiveSpin, Line, Pool, preempt};

/// How many times an activation switches threads before it runs maintenance: looks at the lines,
/// the timers and the unstarted threads although its threads keep it busy.
pub(crate) const SWITCHES: u32 = 32;

/// An activation's own list of lines. Its reference counts need no locked instructions, because
/// only this activation changes them.
pub(crate) type OwnLines = Rc<[Rc<Arc<dyn Line>>]>;

/// The private state of one activation. Only its own kernel thread uses it: while preemption is
/// disabled, or on behalf of a thread that asks for something of its own.
pub(crate) struct Scheduler {
    pub(crate) number: usize,
    pub(crate) outside: &'static Outside,
    pub(crate) base: Base,
    pub(crate) switches: Cell<u32>,
    /// The thread that serves incoming calls, unless it has paused in one.
    pub(crate) dispatcher: Cell<Option<&'static Control>>,
    /// The line whose call the dispatcher runs, if it runs one.
    pub(crate) serving: ServedLine,
    /// The dispatcher has spun in vain: sleep without spinning again.
    pub(crate) spun_in_vain: Cell<bool>,
    pub(crate) runners: Runners,
    /// A thread runner that is about to pause with nothing to do.
    pub(crate) done: Cell<Option<(RunnerKind, Box<Context>)>>,
    unused: UnusedBlocks,
    timers: RefCell<Timers>,
    pub(crate) view: RefCell<View>,
    pub(crate) lines: RefCell<OwnLines>,
    /// Adaptive-spin state: of idle polling, and of the polling of threads that wait for a reply.
    pub(crate) adaptive_spin: AdaptiveSpin,
    pub(crate) reply_adaptive_spin: AdaptiveSpin,
    /// How many waits its threads have begun without a pause since it last ran maintenance.
    pub(crate) waits: Cell<u32>,
    /// The number of the line to serve next.
    pub(crate) next_line_number: Cell<usize>,
    pub(crate) listener: ListenerState,
    /// What runs between two threads at this moment, other than the scheduler itself.
    pub(crate) between: Cell<Option<Between>>,
    /// When it last retried notifications to its peers, in ns of the clock.
    pub(crate) notified_again: Cell<u64>,
    /// The activation has ended.
    pub(crate) ended: Cell<bool>,
}

thread_local! {
    static OWN: Cell<Option<&'static Scheduler>> = const { Cell::new(None) };
}

/// Runs `ask` on the activation that runs this thread. `None` on a plain kernel thread.
#[inline(always)]
pub(crate) fn with<R>(ask: impl FnOnce(&'static Scheduler) -> R) -> Option<R> {
    OWN.get().map(ask)
}

/// The activation that runs this thread, and the thread. `None` on a plain kernel thread, and in a
/// blocking call.
#[inline(always)]
pub(crate) fn running() -> Option<(&'static Scheduler, &'static Control)> {
    let own = OWN.get()?;
    Some((own, own.current_if_any()?))
}

/// The activation that runs this thread now. For code that may have moved to another kernel thread
/// since it last asked: the compiler knows nothing of that, so this is not inlined.
///
/// # Panics
/// On a plain kernel thread.
#[inline(never)]
pub(crate) fn anew() -> &'static Scheduler {
    OWN.get().expect("a user-level thread runs on an activation")
}

/// The activation of this kernel thread, the thread that it runs or is in a blocking call for, and
/// the context of that thread. `None` on a plain kernel thread. A signal handler may call this, to
/// learn what it has interrupted.
pub(crate) fn here() -> Option<(&'static Scheduler, &'static Control, &'static Context)> {
    let own = OWN.get()?;
    let me = own.current_if_any().or_else(|| own.outside.in_blocking_call.get())?;
    // SAFETY: its home is this very kernel thread, which does nothing else meanwhile.
    let context = unsafe { me.context.get() }.as_deref()?;
    Some((own, me, context))
}

impl Scheduler {
    /// Makes this kernel thread the one of the activation of `outside`, and returns its scheduler.
    pub(crate) fn of(outside: &'static Outside) -> &'static Self {
        // SAFETY: only the activation's own kernel thread gets here. Its predecessor has ended its
        // part before, which the lock of starts orders.
        let inside = unsafe { outside.inside.get() };
        let own = inside.get_or_insert_with(|| Self::new(outside));
        own.ended.set(false);
        OWN.set(Some(own));
        own
    }

    /// This kernel thread runs no activation any more.
    pub(crate) fn leave() {
        OWN.set(None);
    }

    fn new(outside: &'static Outside) -> &'static Self {
        Box::leak(Box::new(Self {
            number: outside.activation.number(),
            outside,
            base: Base::default(),
            switches: Cell::new(0),
            dispatcher: Cell::new(None),
            serving: ServedLine::new(),
            spun_in_vain: Cell::new(false),
            runners: Runners::default(),
            done: Cell::new(None),
            unused: UnusedBlocks::default(),
            timers: RefCell::default(),
            view: RefCell::default(),
            lines: RefCell::new(Rc::new([])),
            adaptive_spin: AdaptiveSpin::of_leader(),
            reply_adaptive_spin: AdaptiveSpin::new(),
            waits: Cell::new(0),
            next_line_number: Cell::new(0),
            listener: ListenerState::default(),
            between: Cell::new(None),
            notified_again: Cell::new(0),
            ended: Cell::new(false),
        }))
    }

    /// Runs threads until the activation [`ends`](Self::ends).
    pub(crate) fn run(&'static self) {
        preempt::disable();
        while !self.ended.get() {
            if self.outside.has_remote_work() || self.outside.activation.summoned() {
                self.attend();
            }
            if let Some(control) = self.outside.ready.pop() {
                self.step(control);
                self.count_switch();
            } else if let Some(control) = self.find() {
                self.begin(control);
                self.count_switch();
            } else {
                self.idle();
            }
        }
    }

    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn base(&'static self) -> &'static Base {
        &self.base
    }

    pub(crate) fn outside(&self) -> &'static Outside {
        self.outside
    }

    pub(crate) fn activation(&self) -> &'static Activation {
        self.outside.activation
    }

    #[inline]
    pub(crate) fn unused(&self) -> &UnusedBlocks {
        &self.unused
    }

    #[inline]
    pub(crate) fn timers(&self) -> &RefCell<Timers> {
        &self.timers
    }

    /// The thread that runs.
    ///
    /// # Panics
    /// Between threads.
    #[inline]
    pub(crate) fn current(&self) -> &'static Control {
        self.outside.current.get().expect("threads run only in a scheduler's step")
    }

    pub(crate) fn current_if_any(&self) -> Option<&'static Control> {
        self.outside.current.get()
    }

    /// The number of threads that have started and live here.
    #[inline]
    pub(crate) fn live(&self) -> u32 {
        // Relaxed, here and in `add_live`: only this kernel thread writes it.
        self.outside.live.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn add_live(&self, threads: i32) {
        self.outside.live.store(self.live().wrapping_add_signed(threads), Ordering::Relaxed);
    }

    /// Appends a suspended thread of this activation, which can go on, to the ready list.
    #[inline]
    pub(crate) fn push(&self, control: &'static Control) {
        if control.has(flag::MIGRATES) {
            return self.set_free(control);
        }
        if self.put(control) {
            Pool::wake_monitor();
        }
    }

    /// As [`push`](Self::push), of a thread that stays here. Returns whether the caller is to wake
    /// the monitor ([`Pool::wake_monitor`]).
    #[inline]
    pub(crate) fn put(&self, control: &'static Control) -> bool {
        let Outside { ready, current, .. } = self.outside;
        // Between two threads, a thread that is alone on the list runs next: it does not wait.
        let waits = !current.is_clear() || !ready.is_empty();
        ready.push(control);
        waits
    }

    /// Lets any activation take a migrating thread. It has no home until one does.
    #[cold]
    fn set_free(&self, control: &'static Control) {
        // SAFETY: the thread lives here, and doesn't run: either another thread runs and wakes it,
        // or none runs.
        if let Some(timer) = unsafe { control.take_timer() } {
            self.timers.borrow_mut().remove(timer);
        }
        self.lost_one();
        control.leave_home();
        stealing::submit(control);
    }

    /// Lets other ready threads go first.
    #[inline(always)]
    pub(crate) fn yield_now(&'static self) {
        self.pause(self.current(), Pause::Yield);
    }

    /// Whether other threads could run here: a hint where other activations put them.
    #[inline]
    pub(crate) fn busy(&self) -> bool {
        !self.outside.ready.is_empty()
            || self.outside.has_remote_work()
            || (!self.outside.free.is_empty() && !self.is_dedicated())
    }

    /// Takes remote wake-ups, runs injected tasks, and gives way if the monitor asks for this
    /// processor.
    #[cold]
    fn attend(&'static self) {
        self.outside.take_inbox(|control| self.push(control));
        for task in self.outside.take_injected() {
            task(self);
        }
        if self.outside.activation.summoned() {
            self.outside.activation.answer();
        }
    }

    /// Finds a thread that can start here, or a migrating one that goes on here.
    #[inline]
    fn find(&self) -> Option<&'static Control> {
        if self.is_dedicated() {
            return None;
        }
        if self.is_listener() {
            // A listener takes its own threads alone: it has a processor only for the time of a
            // loan.
            return self.take_near();
        }
        self.take_dedicated().or_else(|| self.take_near()).or_else(|| self.steal())
    }

    /// Starts a thread, or takes over a migrating one.
    pub(crate) fn begin(&'static self, control: &'static Control) {
        control.set_home(self.number);
        self.add_live(1);
        if control.has(flag::DEDICATED) {
            self.dedicate(true);
        }
        self.step(control);
    }

    pub(crate) fn is_dedicated(&self) -> bool {
        self.outside.dedicated.load(Ordering::Relaxed)
    }

    /// A thread that lived here has ended, or has become free to go elsewhere.
    #[inline]
    pub(crate) fn lost_one(&self) {
        self.add_live(-1);
        if self.is_dedicated() && self.live() == 0 {
            self.dedicate(false);
        }
    }

    #[cold]
    fn dedicate(&self, to_one: bool) {
        // Relaxed, here and in `is_dedicated`: only this kernel thread writes it. To others it is a
        // hint.
        self.outside.dedicated.store(to_one, Ordering::Relaxed);
    }

    /// Runs a thread, and the threads that it passes to, until one pauses without a successor.
    fn step(&'static self, control: &'static Control) {
        let Some(context) = self.context_of(control) else {
            // There is no memory for a stack. Free the stacks that are kept for later; if that is
            // not enough, the thread waits until another one gives its stack back.
            self.runners.spare_none();
            // Counted as a switch, so that timers fire meanwhile: a thread that waits for one may
            // hold a stack.
            self.switches.set(self.switches.get() + 1);
            return self.outside.ready.push(control);
        };
        self.take_over(control);
        switch_hooks::resumes(self, control);
        // SAFETY: only its home resumes the thread, and a pinned thread has one home. The caller of
        // `Builder::migrating` has vouched for migrating ones.
        let why = unsafe { self.base.enter(context, Resume::GoOn) };
        // Another thread may have gone on in its place, and that one has ended.
        let Some(control) = self.current_if_any() else {
            if let Some((kind, context)) = self.done.take()
                && self.runners.keep(kind, context)
                && self.is_listener()
            {
                // A listener frees unused stacks only when it comes to a processor, which may be
                // never.
                activations::invite();
            }
            return;
        };
        self.outside.current.clear();
        switch_hooks::pauses(self, control);
        if self.serving.is_some() {
            self.dispatcher_paused(control);
        }
        if why == Pause::Yield {
            self.push(control);
        }
    }

    /// After a certain number of switches, polls the lines, fires timers and starts unstarted
    /// threads, so that they do not wait for threads that keep the processor busy.
    #[inline]
    fn count_switch(&'static self) {
        if self.switches.get() >= SWITCHES {
            self.switches.set(0);
            self.fire();
            self.poll();
            if !self.is_dedicated()
                && let Some(control) = self.take_near().or_else(|| self.steal_from_others())
            {
                self.begin(control);
            }
        }
    }

    /// Ends the waits whose deadlines have passed.
    pub(crate) fn fire(&self) {
        if self.timers.borrow().next().is_none() {
            return;
        }
        let now = underpass_os::clock::now_ns();
        loop {
            let due = self.timers.borrow_mut().due(now);
            let Some(control) = due else { return };
            self.give_up(control, crate::block::suspension::Woken::Late);
        }
    }

    /// Ends the suspension of a thread that lives here, for `why`, if nobody else has.
    pub(crate) fn give_up(&self, control: &'static Control, why: crate::block::suspension::Woken) {
        // SAFETY: the thread lives here, and no thread runs now.
        if unsafe { control.give_up(why) } {
            self.push(control);
        }
    }
}
