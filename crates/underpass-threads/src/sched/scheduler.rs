//! One activation from the inside: which of its threads runs next.

use crate::block::control::{Control, flag};
use crate::block::served::ServedLine;
use crate::block::timers::Timers;
use crate::sched::activations::{self, Outside};
use crate::sched::listener_state::ListenerState;
use crate::sched::runner::{RunnerKind, Runners};
use crate::sched::stealing;
use crate::sched::switch_hooks;
use crate::sched::unused_blocks::UnusedBlocks;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use underpass_context::{Base, Context, Pause, Resume};
use underpass_processor::lines::View;
use underpass_processor::{Activation, Habit, Line, Pool, preempt};

/// Turns between two looks at the lines, the timers and the unstarted while threads keep an
/// activation busy.
pub(crate) const SWITCHES: u32 = 32;

/// An activation's own list of lines: counted without locked instructions, since only this
/// activation counts.
pub(crate) type OwnLines = Rc<[Rc<Arc<dyn Line>>]>;

/// The inside of one activation. Only its own kernel thread comes here, and only while preemption
/// is disabled or by a thread that asks for something of its own.
pub(crate) struct Scheduler {
    pub(crate) number: usize,
    pub(crate) outside: &'static Outside,
    pub(crate) base: Base,
    pub(crate) switches: Cell<u32>,
    /// The thread that serves incoming calls, unless it has paused in one.
    pub(crate) dispatcher: Cell<Option<&'static Control>>,
    /// The dispatcher runs a procedure, called over this line.
    pub(crate) serving: ServedLine,
    /// A thread has spun in vain: sleep without spinning again.
    pub(crate) spun_in_vain: Cell<bool>,
    pub(crate) runners: Runners,
    /// A context that is about to pause with nothing to do.
    pub(crate) done: Cell<Option<(RunnerKind, Box<Context>)>>,
    unused: UnusedBlocks,
    timers: RefCell<Timers>,
    pub(crate) view: RefCell<View>,
    pub(crate) lines: RefCell<OwnLines>,
    /// How soon calls and replies come when it is idle, and how soon the reply that a thread of it
    /// polls for.
    pub(crate) habit: Habit,
    pub(crate) reply_habit: Habit,
    /// How often threads of it have begun to wait without a pause since it last looked around.
    pub(crate) waits: Cell<u32>,
    /// The number of the line whose turn it is to be served.
    pub(crate) next_line_number: Cell<usize>,
    pub(crate) listener: ListenerState,
    /// A watcher of switches is being told.
    pub(crate) hook: Cell<bool>,
    /// When it last asked whether peers take its calls, in ns of the clock.
    pub(crate) insisted: Cell<u64>,
    /// Its activation has ended.
    pub(crate) ended: Cell<bool>,
}

thread_local! {
    static OWN: Cell<Option<&'static Scheduler>> = const { Cell::new(None) };
}

/// Asks something of the activation that runs this thread; nothing on a plain kernel thread.
#[inline(always)]
pub(crate) fn with<R>(ask: impl FnOnce(&'static Scheduler) -> R) -> Option<R> {
    OWN.get().map(ask)
}

/// The activation that runs this thread, and the thread; nothing on a plain kernel thread, and in a
/// blocking call.
#[inline(always)]
pub(crate) fn running() -> Option<(&'static Scheduler, &'static Control)> {
    let own = OWN.get()?;
    Some((own, own.current_if_any()?))
}

/// The activation that runs this thread now: for code that may have been moved to another kernel
/// thread since it last asked, of which the compiler knows nothing.
///
/// # Panics
/// On a plain kernel thread.
#[inline(never)]
pub(crate) fn anew() -> &'static Scheduler {
    OWN.get().expect("a user-level thread runs on an activation")
}

/// The activation of this kernel thread, the thread that it runs or is in a blocking call for, and
/// the context of that thread. Nothing on a plain kernel thread. A handler of signals may ask for
/// what it has interrupted.
pub(crate) fn here() -> Option<(&'static Scheduler, &'static Control, &'static Context)> {
    let own = OWN.get()?;
    let me = own.current_if_any().or_else(|| own.outside.in_blocking_call.get())?;
    // SAFETY: its home is this very kernel thread, which does nothing else meanwhile.
    let context = unsafe { me.context.get() }.as_deref()?;
    Some((own, me, context))
}

impl Scheduler {
    /// The inside of the activation with this outside, for this kernel thread.
    pub(crate) fn of(outside: &'static Outside) -> &'static Self {
        // SAFETY: the activation's own kernel thread asks, and the one before it has ended its
        // part: the lock of births lies between.
        let inside = unsafe { outside.inside.get() };
        let own = inside.get_or_insert_with(|| Self::new(outside));
        own.ended.set(false);
        OWN.set(Some(own));
        own
    }

    /// This kernel thread is no activation's any more.
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
            habit: Habit::of_leader(),
            reply_habit: Habit::new(),
            waits: Cell::new(0),
            next_line_number: Cell::new(0),
            listener: ListenerState::default(),
            hook: Cell::new(false),
            insisted: Cell::new(0),
            ended: Cell::new(false),
        }))
    }

    /// Runs threads until it [`end`](Self::end)s.
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

    /// Threads that have started and live here.
    #[inline]
    pub(crate) fn live(&self) -> u32 {
        // Relaxed, here and in `add_live`: only this kernel thread writes it.
        self.outside.live.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn add_live(&self, threads: i32) {
        self.outside.live.store(self.live().wrapping_add_signed(threads), Ordering::Relaxed);
    }

    /// Puts a suspended thread of this activation, which can go on, at the end of the ready list.
    #[inline]
    pub(crate) fn push(&self, control: &'static Control) {
        if control.has(flag::MIGRATES) {
            return self.set_free(control);
        }
        if self.put(control) {
            Pool::heed();
        }
    }

    /// The same, of one that stays here; says whether [`Pool::heed`] is to come next.
    #[inline]
    pub(crate) fn put(&self, control: &'static Control) -> bool {
        let Outside { ready, current, .. } = self.outside;
        // What is pushed between two threads, and alone, runs next.
        let waits = !current.is_clear() || !ready.is_empty();
        ready.push(control);
        waits
    }

    /// Lets any activation take a migrating thread: it lives nowhere until one does.
    #[cold]
    fn set_free(&self, control: &'static Control) {
        // SAFETY: it lives here and doesn't run: either it is another that runs and wakes it, or
        // none does.
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

    /// Whether other threads could run here: a hint where others leave them.
    #[inline]
    pub(crate) fn busy(&self) -> bool {
        !self.outside.ready.is_empty()
            || self.outside.has_remote_work()
            || (!self.outside.free.is_empty() && !self.is_dedicated())
    }

    /// Sees to what others want of this activation.
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

    /// A thread that can start here, or go on here from now on.
    #[inline]
    fn find(&self) -> Option<&'static Control> {
        if self.is_dedicated() {
            return None;
        }
        if self.is_listener() {
            // Its own alone: it has a processor for a while only.
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

    /// A thread that lived here has ended, or is free to go elsewhere.
    #[inline]
    pub(crate) fn lost_one(&self) {
        self.add_live(-1);
        if self.is_dedicated() && self.live() == 0 {
            self.dedicate(false);
        }
    }

    #[cold]
    fn dedicate(&self, to_one: bool) {
        // Relaxed, here and in `is_dedicated`: only this kernel thread writes it; to others it is a
        // hint.
        self.outside.dedicated.store(to_one, Ordering::Relaxed);
    }

    /// Runs a thread, and those that it passes to, until one pauses with nobody to pass to.
    fn step(&'static self, control: &'static Control) {
        let Some(context) = self.context_of(control) else {
            // Memory is short: what is kept for later is needed now; else the thread waits until
            // another gives its stack back.
            self.runners.spare_none();
            // So that timers end meanwhile: who waits for one may hold a stack.
            self.switches.set(self.switches.get() + 1);
            return self.outside.ready.push(control);
        };
        self.take_over(control);
        switch_hooks::resumes(self, control);
        // SAFETY: only its home resumes it, and pinned threads have but one; migrating ones have
        // vouched for themselves.
        let why = unsafe { self.base.enter(context, Resume::GoOn) };
        // Others may have gone on in its place.
        let Some(control) = self.current_if_any() else {
            if let Some((kind, context)) = self.done.take()
                && self.runners.keep(kind, context)
                && self.is_listener()
            {
                // It looks for unused ones when it comes to a processor, which may be never.
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

    /// Counts a turn, so that threads that keep the processor busy don't keep calls, replies,
    /// timers and the unstarted waiting.
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
        // SAFETY: it lives here, and no thread runs now.
        if unsafe { control.give_up(why) } {
            self.push(control);
        }
    }
}
