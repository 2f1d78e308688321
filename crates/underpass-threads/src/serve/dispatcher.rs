//! The dispatcher: the thread of an activation that takes incoming calls and runs them. Each call
//! has a thread of its own, without a switch unless it pauses.
//!
//! A dispatcher runs a procedure on its own stack. If the procedure pauses, that thread belongs to
//! the call from then on, and the activation starts another dispatcher. The first one ends when its
//! call has ended. So the stack of a dispatcher is the E-stack of its call (LRPC). It is taken from
//! the pool only when a call has come. If waiting calls hold as many stacks as they may
//! (`estacks.rs`), no dispatcher begins, and calls wait in their slots. A listener's stack stays
//! from one loan to the next, if there is nothing else to run (`listener.rs`).
//!
//! Clients are served round-robin: at most [`SHARE`] calls of a line, then the next line. The next
//! dispatcher goes on where the last one stopped. So while one client floods, another's call waits
//! for at most `SHARE` of the flood's calls on each activation that serves, whatever else the flood
//! has waiting.
//!
//! Several activations that serve divide the lines.
//!
//! 1. One is the *leader*, and polls all lines that have no owner.
//! 2. Another one is woken when there is more to do than the leader can. While it owns fewer than
//!    its part of the lines on which calls wait, it becomes the *owner* of one on which they wait
//!    all the time.
//! 3. The others leave a line to its owner, or to the leader, as long as its calls are taken.
//! 4. An activation with nothing to do takes over a line on which calls wait and none is taken.
//! 5. An activation gives its lines back when it stops serving.
//!
//! So under load the activations serve different lines, and one that is alone serves all.

use crate::block::control::{Control, flag};
use crate::sched::activations;
use crate::sched::idle::is_loaded;
use crate::sched::runner;
use crate::sched::scheduler::Scheduler;
use crate::sched::stack_sizes;
use crate::sched::unused_blocks;
use crate::serve::estacks;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use underpass_os::clock::now_ns;
use underpass_processor::{Line, LineOwner, Spin};

/// The most calls of one client in a row that a processor serves while another client's may wait.
pub const SHARE: u32 = 8;
/// Passes over the lines between two checks of timers and other activations.
const PASSES: u32 = 64;
/// How often, in ns, an activation that has lines to serve checks whether the owners of other lines
/// take calls.
const ROUND: u64 = 100_000;
/// After this many passes in a row in which several lines had more than their share, another
/// activation is woken. The number doubles after each, up to the second value.
const LASTING: (u32, u32) = (16, 4096);

/// Serves calls until there are none for some time, or until another thread dispatches.
pub(crate) fn run(own: &'static Scheduler) {
    let me = own.current();
    let _guard = DispatcherGuard { own, me };
    let spin = Spin::new(&own.adaptive_spin);
    let mut dispatcher = Dispatcher { own, me, number: me.id(), spin, interval: HelpInterval::default() };
    // In both cases it has ended. The guard cleans up.
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
    /// A call was served, or a reply was delivered.
    served: bool,
    /// Polling can pay for one of the lines.
    pays: bool,
    /// The peer of one of the lines shares this CPU.
    shares: bool,
    /// How many lines had more calls than their share.
    full: u32,
    /// A processor on loan is to be returned.
    due: bool,
    /// The only line, if there is one and this activation serves it. A call that is seen there is
    /// served without another pass.
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
            if pass.due {
                own.look_at_loans_soon();
            }
            passes = passes.wrapping_add(1);
            self.interval.ends(pass.served);
            if !lent && overload.lasts(pass.full) {
                activations::invite();
            }
            if passes.is_multiple_of(PASSES) {
                own.passed(PASSES);
            }
            if own.wanted_soon() || (passes.is_multiple_of(PASSES) && own.wanted()) {
                own.yield_now();
                self.still_dispatches()?;
                self.spin.reset();
            } else if pass.served && !pass.due {
                self.spin.reset();
            } else if pass.due || !pass.pays {
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
            // A listener does not wait: the client that has donated its processor does.
            pass.pays |= !own.is_listener() && line.elsewhere();
            pass.shares |= line.shares();
            if !lent && !own.may_serve(&**line, &mut self.interval) {
                continue;
            }
            for n in 1..=SHARE {
                if lent && own.loan_is_due(&**line) {
                    pass.due = true;
                    break;
                }
                if !own.serving(me, number, &line)? {
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

    /// Spins for a moment after a pass that found nothing. Returns whether to make another pass.
    #[inline(always)]
    fn poll(&mut self, pass: Pass) -> Result<bool, Replaced> {
        let (own, me, number) = (self.own, self.me, self.number);
        let spin = &mut self.spin;
        if !spin.again(pass.shares, || own.stirs(&own.lines.borrow())) {
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
        } else if let Some(line) = pass.sole {
            // At once after the look that saw something.
            if own.serving(me, number, &line)? {
                if spin.has_begun() {
                    line.spun(true);
                }
                spin.reset();
            }
        }
        Ok(true)
    }
}

/// When to look at lines of other owners.
#[derive(Default)]
struct HelpInterval {
    /// Something was served in the last pass.
    busy: bool,
    /// Whether it is time in this pass.
    due: HelpTime,
    /// The clock when it was time last.
    last: u64,
}

impl HelpInterval {
    /// A pass has ended. `served`: something was served in it.
    fn ends(&mut self, served: bool) {
        (self.busy, self.due) = (served, HelpTime::NotAsked);
    }

    /// The clock, if it is time to look at lines of other owners.
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

/// Whether it is time in this pass to look at lines of other owners.
#[derive(Clone, Copy, Default)]
enum HelpTime {
    #[default]
    NotAsked,
    NotYet,
    /// With the clock of that moment.
    Now(u64),
}

/// Detects more load than one activation can serve.
struct Overload {
    passes: u32,
    lasting: u32,
}

impl Overload {
    /// A pass has ended, in which `full` lines had more calls than their share. Returns whether
    /// that has lasted.
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

/// Cleans up when the dispatcher ends, also if a line has panicked.
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
            // It has paused in a call, or its stack has become too small. Another thread
            // dispatches, or none.
            estacks::released();
        }
    }
}

impl Scheduler {
    /// Starts a dispatcher for the calls that have come, on an E-stack from the pool.
    pub(crate) fn begin_dispatcher(&'static self) {
        let control = unused_blocks::take(flag::SERVES);
        // Relaxed: nobody else knows of the thread yet.
        control.holders.store(1, Ordering::Relaxed);
        // SAFETY: a block from the registry is empty, and nobody else uses it. This activation is
        // never freed.
        unsafe { control.body.fill(move || run(self)) };
        // Nobody joins the thread.
        control.ended.register(control);
        self.dispatcher.set(Some(control));
        self.begin(control);
    }

    /// Whether this activation is to serve a call on `line`. Lines of other owners are checked when
    /// it is time.
    #[inline]
    fn may_serve(&self, line: &dyn Line, round: &mut HelpInterval) -> bool {
        let (me, owner) = (self.number(), line.owner());
        let (leads, kept) = (activations::lead(me), owner.and_then(LineOwner::get));
        if leads && kept == Some(me) {
            // This activation is the leader because the leader before it has stopped serving. The
            // next activation that helps shall find lines without an owner.
            owner.inspect(|owner| owner.set(None));
        }
        kept.map_or(leads, |owner| owner == me) || self.may_help(line, round)
    }

    /// Whether this activation is to serve a call on a line that belongs to another owner, or to
    /// the leader. It owns that line from then on: the activation that let the call wait may have
    /// lost its processor for a time slice of the kernel. Each further call would wait until it is
    /// helped.
    fn may_help(&self, line: &dyn Line, round: &mut HelpInterval) -> bool {
        let takes = if round.busy {
            let Some(now) = round.due().filter(|_| line.pending()) else { return false };
            let Some(owner) = line.owner() else { return true };
            self.takes_more(line) || owner.stands_still(line.taken(), now, ROUND)
        } else {
            self.takes_over(line)
        };
        if let Some(owner) = line.owner().filter(|_| takes) {
            let me = self.number();
            owner.set((!activations::lead(me)).then_some(me));
        }
        takes
    }

    /// Whether this activation is to become the owner of a line that has none: it owns fewer than
    /// its part, and calls wait there all the time.
    pub(crate) fn takes_more(&self, line: &dyn Line) -> bool {
        let open = line.owner().is_some_and(|owner| owner.get().is_none());
        open && self.has_less_than_its_part() && is_loaded(line)
    }

    /// Whether this activation owns fewer than its part of the lines on which calls wait. The parts
    /// of the leader and of each owner are equal.
    fn has_less_than_its_part(&self) -> bool {
        let (mut owners, mut own, mut all) = (1u64 << (self.number() % 64), 0, 0);
        for owner in self.lines.borrow().iter().filter(|line| line.pending()).filter_map(|line| line.owner())
        {
            let kept = owner.get();
            owners |= kept.map_or(0, |number| 1 << (number % 64));
            own += u32::from(kept == Some(self.number()));
            all += 1;
        }
        own < all / (owners.count_ones() + 1)
    }

    /// This activation stops serving: it gives its lines back.
    pub(crate) fn stop_serving(&self) {
        activations::follow(self.number());
        self.lines
            .borrow()
            .iter()
            .filter_map(|line| line.owner())
            .for_each(|owner| owner.release(self.number()));
    }

    /// How many lines the dispatcher serves in turn.
    fn count_lines(&self) -> usize {
        if self.activation().is_lent() { self.count_lent() } else { self.lines.borrow().len() }
    }

    /// The next line in turn, of those on loan or of all.
    #[inline]
    fn next_line(&self) -> Option<Rc<Arc<dyn Line>>> {
        let line = |number| if self.activation().is_lent() { self.lent(number) } else { self.line(number) };
        let next = self.next_line_number.get();
        let found = line(next).map(|line| (line, next)).or_else(|| Some((line(0)?, 0)));
        // Counted now, since a procedure that pauses makes another dispatcher go on.
        found.map(|(line, number)| {
            self.next_line_number.set(number + 1);
            line
        })
    }

    pub(crate) fn is_dispatcher(&self, control: &'static Control) -> bool {
        self.dispatcher.get().is_some_and(|dispatcher| std::ptr::eq(dispatcher, control))
    }

    /// The dispatcher `me`, of this number, runs the next call of `line`, if one has come. Returns
    /// whether one had, if the thread is still the dispatcher.
    #[inline]
    fn serving(&self, me: &'static Control, number: u64, line: &Arc<dyn Line>) -> Result<bool, Replaced> {
        let call = self.begins_call(line, me);
        let served = line.serve(number);
        if call.ends() { Ok(served) } else { Err(Replaced) }
    }

    /// The lines have changed. If an interface among them asks for larger stacks than the
    /// dispatcher's, another one dispatches from now on. This one ends as if it had paused.
    pub(crate) fn leave_small_stack(&self) {
        let Some(dispatcher) = self.dispatcher.get() else { return };
        if runner::size_of(dispatcher).is_some_and(|size| size < stack_sizes::stack_size()) {
            self.dispatcher_paused(dispatcher);
        }
    }

    /// The dispatcher ends: it has spun in vain, or panicked.
    fn retire_dispatcher(&self) {
        self.dispatcher.set(None);
        self.stop_serving();
        self.spun_in_vain.set(true);
    }

    /// A thread has paused while a procedure runs. If it is the dispatcher, it belongs to that call
    /// now, and another one dispatches.
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
