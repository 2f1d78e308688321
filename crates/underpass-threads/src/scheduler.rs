//! One activation from the inside: which of its threads runs next, and what it does when none can.

use crate::control::Control;
use crate::dispatcher;
use crate::handle::Info;
use crate::outside::{self, Outside, Start};
use crate::seats::Seats;
use crate::timers::Timers;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use underpass_context::{Context, Pause, Stack, Stacks, pause};
use underpass_os::clock::now_ns;
use underpass_processor::lines::View;
use underpass_processor::{Line, Role, Spin, sleep};

/// Usable bytes of a thread's stack. Only pages that were touched cost memory.
const STACK: usize = 256 * 1024;
/// Stacks that a domain keeps warm while nobody uses them.
const WARM: usize = 256;
/// Turns between two looks at the lines while threads keep an activation busy.
const TURNS: u32 = 32;

/// An activation's own list of lines: counted without locked instructions, since only this activation counts.
type Lines = Rc<[Rc<Arc<dyn Line>>]>;

/// The inside of one activation. Only its own kernel thread comes here.
pub(crate) struct Scheduler {
    number: usize,
    outside: &'static Outside,
    ready: RefCell<VecDeque<&'static Control>>,
    seats: RefCell<Seats>,
    timers: RefCell<Timers>,
    view: RefCell<View>,
    lines: RefCell<Lines>,
    current: Cell<Option<&'static Control>>,
    /// The thread that serves incoming calls, unless it has paused in one.
    dispatcher: Cell<Option<&'static Control>>,
    /// The dispatcher runs a procedure.
    serving: Cell<bool>,
    turns: Cell<u32>,
    /// A thread has spun in vain: sleep without spinning again.
    tired: Cell<bool>,
}

thread_local! {
    static OWN: Cell<Option<&'static Scheduler>> = const { Cell::new(None) };
}

/// Asks something of the activation that runs this thread; nothing on a plain kernel thread.
#[inline]
pub(crate) fn with<R>(ask: impl FnOnce(&'static Scheduler) -> R) -> Option<R> {
    OWN.get().map(ask)
}

fn stacks() -> &'static Stacks {
    static STACKS: OnceLock<Stacks> = OnceLock::new();
    STACKS.get_or_init(|| Stacks::new(STACK, WARM))
}

impl Scheduler {
    /// The inside of activation `number`, for this kernel thread.
    pub(crate) fn new(number: usize, outside: &'static Outside) -> &'static Self {
        let own = Box::leak(Box::new(Self {
            number,
            outside,
            ready: RefCell::default(),
            seats: RefCell::default(),
            timers: RefCell::default(),
            view: RefCell::default(),
            lines: RefCell::new(Rc::new([])),
            current: Cell::new(None),
            dispatcher: Cell::new(None),
            serving: Cell::new(false),
            turns: Cell::new(0),
            tired: Cell::new(false),
        }));
        OWN.set(Some(own));
        own
    }

    /// Runs threads for ever.
    pub(crate) fn run(&'static self) -> ! {
        loop {
            self.gather();
            let next = self.ready.borrow_mut().pop_front();
            if let Some(control) = next {
                self.step(control);
                self.turn();
            } else if let Some(start) = self.find_start() {
                self.begin(start);
            } else {
                self.idle();
            }
        }
    }

    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// The thread that runs.
    #[inline]
    pub(crate) fn current(&self) -> &'static Control {
        self.current.get().expect("threads run only in a scheduler's step")
    }

    /// Puts a thread of this activation at the end of the ready list.
    #[inline]
    pub(crate) fn push(&self, control: &'static Control) {
        self.ready.borrow_mut().push_back(control);
    }

    /// Pauses the current thread, `me`, until it is told to go on, or until `deadline_ns`.
    #[inline]
    pub(crate) fn block_until(&self, me: &'static Control, deadline_ns: Option<u64>) {
        let timer = deadline_ns.map(|deadline| self.timers.borrow_mut().add(deadline, me));
        pause(Pause::Block);
        if let Some(timer) = timer {
            self.timers.borrow_mut().remove(timer);
        }
    }

    /// Lets other ready threads go first.
    #[inline]
    pub(crate) fn yield_now(&self) {
        pause(Pause::Yield);
    }

    /// Whether other threads could run here: a hint where others leave them.
    #[inline]
    pub(crate) fn busy(&self) -> bool {
        !self.ready.borrow().is_empty() || self.outside.has_told() || self.outside.has_fresh()
    }

    /// Whether anything but the current thread wants this processor: as [`busy`](Self::busy), and timers, threads of
    /// other activations that have not started, and incoming calls.
    pub(crate) fn wanted(&self) -> bool {
        self.busy()
            || self.timer_due()
            || outside::all().iter().any(Outside::has_fresh)
            || (self.dispatcher.get().is_none() && self.lines().iter().any(|line| line.pending()))
    }

    /// Takes the replies that have come for others; says whether anything but the current thread wants this processor.
    pub(crate) fn glance(&self) -> bool {
        self.lines().iter().for_each(|line| {
            line.poll();
        });
        self.wanted()
    }

    /// Whether calls that have come are this activation's to serve: no other looks at the lines, or it is held up.
    pub(crate) fn may_dispatch(&self, lines: &Lines) -> bool {
        self.outside.lead(self.number) || lines.iter().any(|line| persists(&***line))
    }

    /// Whether a call on `line` is this activation's to serve.
    #[inline]
    pub(crate) fn may_serve(&self, line: &dyn Line) -> bool {
        self.outside.lead(self.number) || (line.pending() && persists(line))
    }

    /// Whether another activation looks at the lines, so that this one need not, unless threads of its own wait.
    fn led_by_another(&self) -> bool {
        self.seats.borrow().is_empty() && !self.outside.lead(self.number)
    }

    /// Whether the lines have changed since they were last asked for.
    #[inline]
    pub(crate) fn stale(&self) -> bool {
        self.view.borrow().stale()
    }

    /// The line of this number, for who serves it: a procedure that stays long holds on to no other.
    #[inline]
    pub(crate) fn line(&self, number: usize) -> Option<Rc<Arc<dyn Line>>> {
        self.lines.borrow().get(number).cloned()
    }

    /// The lines to look at.
    pub(crate) fn lines(&self) -> Lines {
        if self.stale() {
            let new: Lines = self.view.borrow_mut().get().iter().cloned().map(Rc::new).collect();
            let old: Vec<_> = self.lines.replace(new).iter().map(|line| Arc::clone(line)).collect();
            // Maybe the last of a line, and so of an implementation, whose destructor wants a thread to run on.
            let info = dispatcher::info();
            outside::submit(Start { info, run: Box::new(move || drop(old)) });
        }
        self.lines.borrow().clone()
    }

    pub(crate) fn is_dispatcher(&self, control: &'static Control) -> bool {
        self.dispatcher.get().is_some_and(|dispatcher| std::ptr::eq(dispatcher, control))
    }

    /// The dispatcher has a procedure run by `serve`; says whether it is the dispatcher still.
    #[inline]
    pub(crate) fn serving(&self, me: &'static Control, serve: impl FnOnce() -> bool) -> Option<bool> {
        self.serving.set(true);
        let served = serve();
        self.is_dispatcher(me).then(|| {
            self.serving.set(false);
            served
        })
    }

    /// The dispatcher ends, having spun in vain.
    pub(crate) fn retire_dispatcher(&self) {
        self.dispatcher.set(None);
        outside::follow(self.number);
        self.tired.set(true);
    }

    fn timer_due(&self) -> bool {
        self.timers.borrow().next().is_some_and(|deadline| deadline <= now_ns())
    }

    /// Moves to the ready list what others told to go on and what has slept long enough.
    #[inline]
    fn gather(&self) {
        if self.outside.has_told() {
            self.outside.collect(&mut self.ready.borrow_mut());
        }
        if self.timers.borrow().next().is_some() {
            let now = now_ns();
            loop {
                let due = self.timers.borrow_mut().due(now);
                match due {
                    Some(control) => control.go_on(),
                    None => break,
                }
            }
        }
    }

    fn find_start(&self) -> Option<Start> {
        self.outside.take_fresh().or_else(|| outside::all().iter().find_map(Outside::take_fresh))
    }

    /// Gives a thread that has not started a stack, here, for good.
    fn begin(&self, start: Start) {
        let stack = stacks().take().expect("no memory for a thread's stack; see `sysctl vm.max_map_count`");
        self.seat(stack, start.info, start.run);
    }

    fn seat(&self, stack: Stack, info: Arc<Info>, run: impl FnOnce() + 'static) -> &'static Control {
        let seat = self.seats.borrow_mut().add(Context::new(stack, run));
        let control = Control::at(self.number, seat, info);
        self.push(control);
        control
    }

    /// Has a thread serve the calls that have come, on an E-stack from the pool.
    fn begin_dispatcher(&'static self) {
        // Without memory for a stack the calls wait until a stack is given back.
        if let Ok(stack) = stacks().take() {
            let control = self.seat(stack, dispatcher::info(), move || dispatcher::run(self));
            self.dispatcher.set(Some(control));
        }
    }

    /// Runs a thread until it pauses or ends.
    #[inline]
    fn step(&self, control: &'static Control) {
        let seat = control.seat();
        let mut context = self.seats.borrow_mut().take(seat);
        control.resumed();
        self.current.set(Some(control));
        let why = context.resume();
        self.current.set(None);
        if self.serving.get() && self.is_dispatcher(control) {
            // Its procedure has paused: it is that call's thread now, and another dispatches.
            self.dispatcher.set(None);
            self.serving.set(false);
            outside::follow(self.number);
        }
        match why {
            Some(Pause::Yield) => {
                self.seats.borrow_mut().put(seat, context);
                self.push(control);
            }
            Some(Pause::Block) => {
                self.seats.borrow_mut().put(seat, context);
                if !control.blocked() {
                    self.push(control);
                }
            }
            None => {
                stacks().give_back(context.into_stack());
                self.seats.borrow_mut().leave(seat);
                control.retire();
            }
        }
    }

    /// Counts a turn, so that threads that keep the processor busy don't keep calls and replies waiting for ever.
    #[inline]
    fn turn(&'static self) {
        let turns = self.turns.get() + 1;
        self.turns.set(turns % TURNS);
        if turns == TURNS {
            self.poll();
            if let Some(start) = self.outside.take_fresh() {
                self.begin(start);
            }
        }
    }

    /// Takes the replies that have come, and sees to the calls that have come.
    fn poll(&'static self) {
        let lines = self.lines();
        lines.iter().for_each(|line| {
            line.poll();
        });
        if self.dispatcher.get().is_none()
            && lines.iter().any(|line| line.pending())
            && self.may_dispatch(&lines)
        {
            self.begin_dispatcher();
        }
    }

    /// Polls until there is something to do, then returns; or sleeps.
    fn idle(&'static self) {
        let mut spin = Spin::default();
        loop {
            let lines = self.lines();
            let tired = self.tired.take();
            let pays = lines.iter().any(|line| line.elsewhere()) && !tired && !self.led_by_another();
            let shares = lines.iter().any(|line| line.shares());
            loop {
                let replied = lines.iter().fold(false, |any, line| line.poll() | any);
                if self.busy() {
                    return;
                }
                if !replied && lines.iter().any(|line| line.pending()) && self.may_dispatch(&lines) {
                    return self.begin_dispatcher();
                }
                if self.stale() || !pays || !spin.again(shares) || spin.fresh_batch() {
                    break;
                }
            }
            if self.busy() || self.timer_due() || outside::all().iter().any(Outside::has_fresh) {
                return;
            }
            if !self.stale() && (!pays || spin.over()) {
                break;
            }
        }
        self.sleep();
        // More than one call has come: another processor may help. It looks in the same way whether there are more.
        let calls = |line: &Rc<Arc<dyn Line>>| usize::from(line.pending()) + usize::from(line.backlog());
        if self.lines().iter().map(calls).sum::<usize>() > 1 {
            outside::rouse();
        }
    }

    fn sleep(&self) {
        outside::follow(self.number);
        let pool = outside::start();
        let lines = self.lines();
        let role = match pool.retire() {
            true => Role::Last { others: pool.most() > 1 },
            false => Role::Spare,
        };
        let deadline = self.timers.borrow().next();
        let watched: Vec<&dyn Line> = lines.iter().map(|line| &***line).collect();
        sleep(&self.outside.parker, &watched, role, deadline, || {
            // What was added since must be watched too; calls that nobody takes are to be served.
            (role == Role::Spare && watched.iter().any(|line| line.pending() && persists(*line)))
                || self.busy()
                || self.timer_due()
                || outside::all().iter().any(Outside::has_fresh)
                || self.stale()
        });
        pool.resume();
    }
}

/// Whether a call waits on `line` for longer than an activation that looks would let it.
fn persists(line: &dyn Line) -> bool {
    /// Looks; some two microseconds.
    const LOOKS: u32 = 40;
    (0..LOOKS).all(|_| {
        std::hint::spin_loop();
        line.pending()
    })
}
