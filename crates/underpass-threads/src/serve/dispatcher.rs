//! The thread that takes incoming calls and runs them: each call on a thread of its own, without a
//! switch unless it pauses.
//!
//! A dispatcher runs a procedure on its own stack. If the procedure pauses, that thread is the
//! call's from then on, the activation starts another dispatcher, and the first ends when its call
//! has ended. So the stack of a dispatcher is the E-stack of its call (LRPC), taken from the pool
//! only when a call has come. Where as many are held by calls that wait as may be (`estacks.rs`),
//! no dispatcher begins: calls wait where they are. A listener's stays from one loan to the next,
//! if there is nothing else to run (`listener.rs`).
//!
//! Clients are served by turns: at most [`SHARE`] calls of a line, then the next line is looked at,
//! and whoever dispatches next goes on there. So while one client floods, another's call waits for
//! `SHARE` of the flood's calls on each activation that serves, and not for those that the flood
//! has waiting.
//!
//! Several activations that serve divide the lines. One leads, and looks at all that nobody keeps.
//! Another, which is called when there is more to do than one can, becomes the *keeper* of a line
//! on which a call waited for too long while it had nothing else to serve, and of more until it has
//! its part of those on which calls wait. They are left to it then, also by the one that leads, as
//! long as it takes calls of them; who has nothing to do takes over where a call waits all the
//! same. It gives its lines back when it serves no more. So those who serve are at different lines,
//! under load, and one that is alone serves them all.

use crate::block::control::{Control, flag};
use crate::sched::activations;
use crate::sched::idle::persists;
use crate::sched::runner;
use crate::sched::scheduler::Scheduler;
use crate::sched::stack_sizes;
use crate::sched::unused_blocks;
use crate::serve::estacks;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use underpass_os::clock::now_ns;
use underpass_processor::{Keeper, Line, Spin};

/// The most calls of one client in a row that a processor serves while another's may wait.
pub const SHARE: u32 = 8;
/// Passes over the lines between two looks at timers and other activations.
const GLANCE: u32 = 64;
/// An activation that has lines to serve looks so often, in ns, whether others take calls of
/// theirs.
const ROUND: u64 = 100_000;
/// So many passes in a row in which several lines had more than their share have another activation
/// called; after each call twice as many, up to the second number.
const LASTING: (u32, u32) = (16, 4096);

/// Serves calls until there are none for some time, or until another dispatches.
pub(crate) fn run(own: &'static Scheduler) {
    let me = own.current();
    let _guard = DispatcherGuard { own, me };
    let spin = Spin::new(&own.habit);
    let mut dispatcher = Dispatcher { own, me, number: me.id(), spin, interval: HelpInterval::default() };
    // Either way it has ended; the guard sees to the rest.
    let (Ok(()) | Err(Replaced)) = dispatcher.run();
}

/// Another thread dispatches from now on.
struct Replaced;

/// The dispatcher's own state.
struct Dispatcher {
    own: &'static Scheduler,
    me: &'static Control,
    /// The number of `me`.
    number: u64,
    spin: Spin<'static>,
    interval: HelpInterval,
}

/// What came of one pass over the lines.
#[derive(Default)]
struct Pass {
    /// Something was served, or a reply was taken.
    served: bool,
    /// Polling can pay for one of the lines.
    pays: bool,
    /// The peer of one of the lines shares this CPU.
    shares: bool,
    /// How many lines had more calls than their share.
    full: u32,
    /// The only line that there is, if it is to be served: without another pass, as soon as a call
    /// is seen there.
    sole: Option<Rc<Arc<dyn Line>>>,
}

impl Dispatcher {
    #[inline(always)]
    fn run(&mut self) -> Result<(), Replaced> {
        let (own, me) = (self.own, self.me);
        let mut passes = 0u32;
        let mut overload = Overload { passes: 0, lasting: LASTING.0 };
        loop {
            if own.stale() {
                own.lines();
                self.still_dispatches()?;
            }
            let lent = own.activation().is_lent();
            let pass = self.serve_all(lent)?;
            passes = passes.wrapping_add(1);
            self.interval.ends(pass.served);
            if !lent && overload.lasts(pass.full) {
                activations::invite();
            }
            if passes.is_multiple_of(GLANCE) {
                own.passed(GLANCE);
            }
            if own.wanted_soon() || (passes.is_multiple_of(GLANCE) && own.wanted()) {
                own.yield_now();
                self.still_dispatches()?;
                self.spin.reset();
            } else if pass.served {
                self.spin.reset();
            } else if !pass.pays {
                if !own.next_loan(me) {
                    return Ok(());
                }
                self.still_dispatches()?;
                self.spin.reset();
            } else if !self.poll(pass)? {
                return Ok(());
            }
        }
    }

    #[inline(always)]
    fn still_dispatches(&self) -> Result<(), Replaced> {
        if self.own.is_dispatcher(self.me) { Ok(()) } else { Err(Replaced) }
    }

    /// Serves each line once: at most [`SHARE`] calls of it.
    #[inline(always)]
    fn serve_all(&mut self, lent: bool) -> Result<Pass, Replaced> {
        let (own, me, number) = (self.own, self.me, self.number);
        let mut pass = Pass::default();
        let count = own.count_lines();
        for _ in 0..count {
            let Some(line) = own.next_line() else { break };
            pass.served |= line.poll();
            // A listener does not wait: who has donated its processor does.
            pass.pays |= !own.is_listener() && line.elsewhere();
            pass.shares |= line.shares();
            if !lent && !own.may_serve(&**line, &mut self.interval) {
                continue;
            }
            for n in 1..=SHARE {
                if lent && own.overstay() {
                    break;
                }
                if !own.serving(me, &line, || line.serve(number))? {
                    break;
                }
                pass.served = true;
                pass.full += u32::from(n == SHARE);
                if self.spin.has_begun() {
                    line.spun(true);
                    self.spin.reset();
                }
                if own.wanted_soon() {
                    break;
                }
            }
            if count == 1 && !lent {
                pass.sole = Some(line);
            }
        }
        Ok(pass)
    }

    /// Spins for a moment after a pass that found nothing. Says whether to make another pass.
    #[inline(always)]
    fn poll(&mut self, pass: Pass) -> Result<bool, Replaced> {
        let (own, me, number) = (self.own, self.me, self.number);
        let Pass { shares, sole, .. } = pass;
        let spin = &mut self.spin;
        let watched = match &sole {
            Some(line) => own.serving(me, line, || line.serve_soon(number))?,
            None => None,
        };
        let mut served = watched == Some(true);
        if !served {
            let goes_on = match watched {
                Some(_) => spin.after(Spin::ROW, shares),
                None => spin.again(shares, || own.stirs(&own.lines.borrow())),
            };
            if !goes_on {
                return Ok(false);
            }
            if spin.fresh_batch() {
                own.passed(Spin::BATCH);
                if own.wanted() {
                    own.yield_now();
                    if !own.is_dispatcher(me) {
                        return Err(Replaced);
                    }
                    spin.reset();
                }
            } else if let (None, Some(line)) = (watched, &sole) {
                // At once after the look that saw something.
                served = own.serving(me, line, || line.serve(number))?;
            }
        }
        if served {
            if let Some(line) = sole.filter(|_| spin.has_begun()) {
                line.spun(true);
            }
            spin.reset();
        }
        Ok(true)
    }
}

/// When to look at the lines of others.
#[derive(Default)]
struct HelpInterval {
    /// Something was served in the last pass.
    busy: bool,
    /// The clock, if it is time in this pass, once that was asked.
    due: HelpTime,
    /// The clock when it was the last time.
    last: u64,
}

impl HelpInterval {
    /// A pass has ended, in which something was served or nothing.
    fn ends(&mut self, served: bool) {
        (self.busy, self.due) = (served, HelpTime::NotAsked);
    }

    /// Who has lines to serve looks at others' now and then.
    fn due(&mut self) -> Option<u64> {
        if let HelpTime::NotAsked = self.due {
            let now = now_ns();
            self.due = HelpTime::NotYet;
            if now - self.last > ROUND {
                (self.last, self.due) = (now, HelpTime::Now(now));
            }
        }
        match self.due {
            HelpTime::Now(now) => Some(now),
            HelpTime::NotYet | HelpTime::NotAsked => None,
        }
    }
}

/// Whether it is time in this pass to look at others' lines.
#[derive(Clone, Copy, Default)]
enum HelpTime {
    #[default]
    NotAsked,
    NotYet,
    /// With the clock of that moment.
    Now(u64),
}

/// More to serve than one activation can.
struct Overload {
    passes: u32,
    lasting: u32,
}

impl Overload {
    /// A pass has ended, in which so many lines had more calls than their share. Whether that has
    /// lasted.
    fn lasts(&mut self, full: u32) -> bool {
        self.passes = if full > 1 { self.passes + 1 } else { 0 };
        let lasts = self.passes >= self.lasting;
        if lasts {
            self.passes = 0;
            self.lasting = (2 * self.lasting).min(LASTING.1);
        }
        lasts
    }
}

/// What the dispatcher leaves when it ends, also if a line has panicked.
struct DispatcherGuard {
    own: &'static Scheduler,
    me: &'static Control,
}

impl Drop for DispatcherGuard {
    fn drop(&mut self) {
        if self.own.is_dispatcher(self.me) {
            self.own.serving.ends();
            self.own.retire_dispatcher();
        } else {
            // It has paused in a call, or its stack has become too small: another dispatches, or
            // none.
            estacks::released();
        }
    }
}

impl Scheduler {
    /// Has a thread serve the calls that have come, on an E-stack from the pool.
    pub(crate) fn begin_dispatcher(&'static self) {
        let control = unused_blocks::take(flag::SERVES);
        // Relaxed: nobody else knows of it yet.
        control.holders.store(1, Ordering::Relaxed);
        // SAFETY: a block from the registry is empty and ours, and this activation is never freed.
        unsafe { control.body.fill(move || run(self)) };
        // Nobody joins it.
        control.ended.register(control);
        self.dispatcher.set(Some(control));
        self.begin(control);
    }

    /// Whether a call on `line` is this activation's to serve. Others' lines are looked at when it
    /// is time.
    #[inline]
    fn may_serve(&self, line: &dyn Line, round: &mut HelpInterval) -> bool {
        let (me, keeper) = (self.number(), line.keeper());
        let (leads, kept) = (activations::lead(me), keeper.and_then(Keeper::get));
        if leads && kept == Some(me) {
            // It leads since who led serves no more: who comes next finds lines that nobody keeps.
            keeper.inspect(|keeper| keeper.set(None));
        }
        kept.map_or(leads, |keeper| keeper == me) || self.may_help(line, kept, round)
    }

    /// Whether a call on a line that is another's, or the leader's, is to be served by this
    /// activation: with nothing else to do, it does not let a call wait. It looks after that line
    /// from then on: whoever let the call wait may have lost its processor for a slice of the
    /// kernel's, and each call of that time would wait until it is helped.
    fn may_help(&self, line: &dyn Line, kept: Option<usize>, round: &mut HelpInterval) -> bool {
        let takes = if round.busy {
            let Some(now) = round.due().filter(|_| line.pending()) else { return false };
            let Some(keeper) = line.keeper() else { return true };
            let more = kept.is_none() && self.has_less_than_its_part() && persists(line);
            more || keeper.stands_still(line.taken(), now, ROUND)
        } else {
            line.pending() && persists(line)
        };
        if let Some(keeper) = line.keeper().filter(|_| takes) {
            let me = self.number();
            keeper.set((!activations::lead(me)).then_some(me));
        }
        takes
    }

    /// Whether this activation keeps less than its part of the lines on which calls wait, if the
    /// leader and all that keep a line have the same.
    fn has_less_than_its_part(&self) -> bool {
        let (mut keepers, mut own, mut all) = (1u64 << (self.number() % 64), 0, 0);
        for keeper in
            self.lines.borrow().iter().filter(|line| line.pending()).filter_map(|line| line.keeper())
        {
            let kept = keeper.get();
            keepers |= kept.map_or(0, |number| 1 << (number % 64));
            own += u32::from(kept == Some(self.number()));
            all += 1;
        }
        own < all / (keepers.count_ones() + 1)
    }

    /// This activation serves no more: it leaves what it looked at to others.
    pub(crate) fn stop_serving(&self) {
        activations::follow(self.number());
        self.lines
            .borrow()
            .iter()
            .filter_map(|line| line.keeper())
            .for_each(|keeper| keeper.leave(self.number()));
    }

    /// How many lines the dispatcher serves by turns.
    fn count_lines(&self) -> usize {
        if self.activation().is_lent() { self.count_lent() } else { self.lines.borrow().len() }
    }

    /// The line whose turn it is, of those on loan or of all.
    #[inline]
    fn next_line(&self) -> Option<Rc<Arc<dyn Line>>> {
        let line = |number| if self.activation().is_lent() { self.lent(number) } else { self.line(number) };
        let turn = self.next_line_number.get();
        let found = line(turn).map(|line| (line, turn)).or_else(|| Some((line(0)?, 0)));
        // Now, since a procedure that pauses has another dispatcher go on.
        found.map(|(line, number)| {
            self.next_line_number.set(number + 1);
            line
        })
    }

    pub(crate) fn is_dispatcher(&self, control: &'static Control) -> bool {
        self.dispatcher.get().is_some_and(|dispatcher| std::ptr::eq(dispatcher, control))
    }

    /// The dispatcher is about to `serve` the next call of `line`, if one has come; what came of
    /// it, if it is the dispatcher still.
    #[inline]
    fn serving<T>(
        &self,
        me: &'static Control,
        line: &Arc<dyn Line>,
        serve: impl FnOnce() -> T,
    ) -> Result<T, Replaced> {
        let call = self.begins_call(line, me);
        let served = serve();
        if call.ends() { Ok(served) } else { Err(Replaced) }
    }

    /// The lines have changed. If there is an interface among them that asks for larger stacks than
    /// the dispatcher has, another dispatches from now on: this one ends as if it had paused.
    pub(crate) fn leave_small_stack(&self) {
        let Some(dispatcher) = self.dispatcher.get() else { return };
        if runner::size_of(dispatcher).is_some_and(|size| size < stack_sizes::stack_size()) {
            self.dispatcher_paused(dispatcher);
        }
    }

    /// The dispatcher ends, having spun in vain or panicked.
    fn retire_dispatcher(&self) {
        self.dispatcher.set(None);
        self.stop_serving();
        self.spun_in_vain.set(true);
    }

    /// A thread has paused while a procedure runs: if it is the dispatcher, it is that call's
    /// thread now, and another dispatches.
    #[cold]
    pub(crate) fn dispatcher_paused(&self, control: &'static Control) {
        if self.is_dispatcher(control) {
            self.dispatcher.set(None);
            estacks::associated();
            self.serving.goes_on_in(control);
            self.stop_serving();
        }
    }
}
