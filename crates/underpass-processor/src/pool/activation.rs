//! One activation, as its threads and the rest of the domain see it.

use crate::permits::{ActivationState, protocol, state};
use crate::{Parker, Pool, metrics, preempt};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use underpass_os::thread::{Tid, TidCell};

/// Keeps what others write off the line of what the owner writes at every switch.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

/// A kernel thread that runs user-level threads. One that is needed no more ends; another may begin
/// in its place, with the same number.
///
/// `steps` is written by its own kernel thread alone; who moves the state says the README of this
/// crate.
#[derive(Debug)]
pub struct Activation {
    state: Padded<ActivationState>,
    steps: Padded<AtomicU32>,
    parker: Parker,
    number: usize,
    /// The CPU of a listener.
    cpu: Option<usize>,
    pool: &'static Pool,
    thread: TidCell,
    /// It has begun a blocking call before. Its own.
    bracketed: AtomicBool,
}

impl Activation {
    /// One without a kernel thread yet, for ever.
    pub(crate) fn leak(number: usize, cpu: Option<usize>, pool: &'static Pool) -> &'static Self {
        let state = if cpu.is_some() { state::LISTENING } else { state::ASLEEP };
        Box::leak(Box::new(Self {
            state: Padded(ActivationState::new(number, state)),
            steps: Padded(AtomicU32::new(0)),
            parker: Parker::new(),
            number,
            cpu,
            pool,
            thread: TidCell::new(),
            bracketed: AtomicBool::new(false),
        }))
    }

    /// Its number, counted from 0 in the order in which activations were started.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The CPU to whose processor it listens, and which it never leaves, if it is a listener: it
    /// serves calls when that is donated.
    #[inline]
    pub fn listens_on(&self) -> Option<usize> {
        self.cpu
    }

    /// Where it sleeps when it is idle.
    pub fn parker(&self) -> &Parker {
        &self.parker
    }

    /// The number of its kernel thread, if that has begun and not ended.
    pub fn thread(&self) -> Option<Tid> {
        self.thread.get()
    }

    pub(crate) fn state(&self) -> &ActivationState {
        &self.state.0
    }

    /// The calling kernel thread is this activation, which has just been started; it goes on when
    /// it has a permit.
    pub(crate) fn begin(&'static self) {
        // W2: who waits for a permit is in the registry.
        self.pool.registry.wait(self.number);
        preempt::begin(self);
        // From now on it can be interrupted.
        self.thread.set(Some(underpass_os::thread::current()));
        match self.cpu {
            // Should that fail, it serves as well, but a processor that is donated may be another.
            Some(cpu) => drop(underpass_os::cpu::confine(&[cpu])),
            None => {
                let _held = preempt::critical();
                // One that takes the place of another, if the steward has not been here first.
                self.state().advance(state::ENDED, state::ASLEEP);
                self.pool.admit(self.state());
            }
        }
    }

    /// When it may end, in ns of the clock, if it sleeps then and the others are enough for as
    /// long. Listeners don't.
    #[inline]
    pub fn ends_at(&self) -> Option<u64> {
        if self.cpu.is_some() { None } else { self.pool.surplus_ends_at() }
    }

    /// The calling kernel thread, whose activation has ended in [`idle`](Self::idle), is a plain
    /// one from now on.
    pub fn leave(&self) {
        preempt::leave();
        self.thread.set(None);
    }

    /// Whether it has ended, and nobody takes its place yet.
    pub fn has_ended(&self) -> bool {
        self.state().hint() == state::ENDED
    }

    /// At every switch, by its own kernel thread: another thread runs.
    #[inline]
    pub fn stepped(&self) {
        // Relaxed, and no read-modify-write: one kernel thread writes it, and the monitor asks
        // whether it has changed.
        let steps = self.steps.0.load(Ordering::Relaxed);
        self.steps.0.store(steps.wrapping_add(1), Ordering::Relaxed);
    }

    pub(crate) fn steps(&self) -> u32 {
        self.steps.0.load(Ordering::Relaxed)
    }

    /// Whether the monitor wants it to give its processor up, or has taken it away. The scheduler
    /// asks at each scheduling point, with no thread running, and calls [`answer`](Self::answer).
    #[inline]
    pub fn summoned(&self) -> bool {
        !state::runs(self.state().hint())
    }

    /// Gives the processor up where that was asked, and comes back with one. With preemption
    /// disabled, and no thread running.
    #[cold]
    pub fn answer(&self) {
        let _held = preempt::critical();
        loop {
            preempt::unmark();
            match self.state().hint() {
                state::PREEMPTING => self.give_way(),
                state::BLOCKED => protocol::regain(self.pool, self.state(), state::BLOCKED),
                _ => return,
            }
        }
    }

    /// Whether the monitor found that its thread blocks without having said so, and the thread has
    /// not come to a scheduling point since: a hint.
    pub fn is_blocked(&self) -> bool {
        self.state().hint() == state::BLOCKED
    }

    /// Whether there is something to give way for.
    pub(crate) fn asked(&self) -> bool {
        matches!(self.state().hint(), state::PREEMPTING | state::BLOCKED)
    }

    /// Gives way if asked to. Also in the handler.
    pub(crate) fn give_way(&self) {
        if self.asked() {
            metrics().preempted();
            protocol::give_way(self.pool, self.state());
        }
    }

    /// OThreads' `ActivationIdle`: it has no thread that can run. Gives its processor up, calls
    /// `sleep`, and comes back with one.
    ///
    /// `sleep` is told whether this was the last that ran, and is to sleep as
    /// [`sleep`](crate::sleep()) does: prepare the parker, heavy barrier, look for work of this
    /// activation and for unstarted work that it would take, sleep only if there is none. Then it
    /// says whether the activation is to end if it is still too many ([`ends_at`](Self::ends_at)):
    /// nobody lives on it, and nothing has come. By its own kernel thread, with preemption
    /// disabled.
    ///
    /// Whether it has ended: then it is to [`leave`](Self::leave), and its kernel thread to end.
    pub fn idle(&self, sleep: impl FnOnce(bool) -> bool) -> bool {
        let _held = preempt::critical();
        let last = protocol::retire(self.pool, self.state(), state::ASLEEP);
        self.pool.leave_work(self);
        if sleep(last) && self.pool.end(self) {
            return true;
        }
        protocol::resume(self.pool, self.state());
        false
    }

    /// A listener with nothing to do: has neither a permit nor a donated processor from now on. By
    /// its own kernel thread, with preemption disabled.
    pub fn listen(&self) {
        let _held = preempt::critical();
        if self.state().advance(state::LENT, state::LISTENING) {
            // SYNC with `lent` load in `is_alone`.
            self.pool.lent.fetch_sub(1, Ordering::SeqCst);
        } else if self.state().hint() != state::LISTENING
            && protocol::retire(self.pool, self.state(), state::LISTENING)
        {
            // It listens to those alone who donate.
            protocol::invite(self.pool);
        }
    }

    /// Whether no other activation runs, and this one has announced to the others that it does not:
    /// who would leave it work does so with a full fence then, since only activations that run use
    /// less. Between its permit's release, or on a donated processor, and its sleep.
    pub fn is_alone(&self) -> bool {
        // SYNC with `lent` fetch_add in `lend`, and the steps on the word of the permits: who comes
        // to a processor after this look does so after our announcement, and sees it.
        protocol::is_alone(self.pool) && self.pool.lent.load(Ordering::SeqCst) == u32::from(self.is_lent())
    }

    /// A listener was given a processor by another domain. As [`listen`](Self::listen).
    pub fn lend(&self) {
        self.pool.lent.fetch_add(1, Ordering::SeqCst);
        let lent = self.state().advance(state::LISTENING, state::LENT);
        debug_assert!(lent, "only the listener leaves LISTENING");
    }

    /// A listener has more to do than it was lent a processor for: goes on with a permit, when it is
    /// its turn. As [`listen`](Self::listen).
    pub fn stop_borrowing(&self) {
        let _held = preempt::critical();
        self.pool.lent.fetch_sub(1, Ordering::SeqCst);
        protocol::regain(self.pool, self.state(), state::LENT);
    }

    /// Whether it runs on a processor that another domain has donated.
    pub fn is_lent(&self) -> bool {
        self.state().hint() == state::LENT
    }

    /// A listener has work of its own: comes back with a permit. As [`listen`](Self::listen).
    pub fn stop_listening(&self) {
        let _held = preempt::critical();
        protocol::regain(self.pool, self.state(), state::LISTENING);
    }

    /// OThreads' `Begin_BlockingCall`: the calling thread, which this activation runs, is about to
    /// block in the kernel. Others may have the processor meanwhile. A few ns if nobody wants it.
    ///
    /// Brackets don't nest: the first end ends all.
    #[inline]
    pub fn begin_blocking(&self) {
        // Relaxed, and below: only this kernel thread has it.
        if !self.bracketed.load(Ordering::Relaxed) {
            self.begin_first();
        }
        protocol::begin(self.pool, self.state());
    }

    /// B0.
    #[cold]
    fn begin_first(&self) {
        self.pool.announce_brackets();
        // Whenever it is out, another can listen in its place.
        self.pool.starts.request_substitute();
        self.bracketed.store(true, Ordering::Relaxed);
    }

    /// OThreads' `End_BlockingCall`: comes back with a processor, the one it had if nobody wanted
    /// it, else when it is its turn.
    #[inline]
    pub fn end_blocking(&self) {
        if !protocol::end(self.state()) {
            self.come_back();
        }
    }

    #[cold]
    fn come_back(&self) {
        let _held = preempt::critical();
        protocol::regain(self.pool, self.state(), state::DETACHED);
    }
}
