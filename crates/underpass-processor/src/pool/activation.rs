//! One activation, as its threads and the rest of the domain see it.

use crate::permits::{ActivationState, protocol, state};
use crate::{Parker, Pool, metrics, preempt};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use underpass_os::thread::{Tid, TidCell};

/// Keeps what others write off the cache line that the owner writes at every switch.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

/// The permit of an activation that donates its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptPermit {
    /// The domain shares no processors by way of the activation server.
    Unneeded,
    /// The activation has it.
    Kept,
    /// The domain uses the processor otherwise, or has given it away: there is none to donate.
    Gone,
}

/// A kernel thread that runs user-level threads. An activation that is needed no more ends. Another
/// may begin in its place, with the same number.
///
/// Only its own kernel thread writes `steps`. The README of this crate says which threads change
/// `state`.
#[derive(Debug)]
pub struct Activation {
    state: Padded<ActivationState>,
    steps: Padded<AtomicU32>,
    parker: Parker,
    number: usize,
    /// The CPU, if it is a listener.
    cpu: Option<usize>,
    pool: &'static Pool,
    thread: TidCell,
    /// It has begun a blocking call before. Only its own kernel thread uses this.
    had_blocking_call: AtomicBool,
}

impl Activation {
    /// A new one, which has no kernel thread yet and is never freed.
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
            had_blocking_call: AtomicBool::new(false),
        }))
    }

    /// Its number, counted from 0 in the order in which activations were started.
    pub fn number(&self) -> usize {
        self.number
    }

    /// If it is a listener: its CPU. It never leaves that CPU, and serves calls when the CPU's
    /// processor is donated.
    #[inline]
    pub fn listens_on(&self) -> Option<usize> {
        self.cpu
    }

    /// Where it sleeps when it is idle.
    pub fn parker(&self) -> &Parker {
        &self.parker
    }

    /// The ID of its kernel thread, if that has begun and not ended.
    pub fn thread(&self) -> Option<Tid> {
        self.thread.get()
    }

    pub(crate) fn state(&self) -> &ActivationState {
        &self.state.0
    }

    /// The calling kernel thread becomes this activation, which has just been started. Returns when
    /// it has a permit.
    pub(crate) fn begin(&'static self) {
        // W2: an activation that waits for a permit is in the registry.
        self.pool.registry.wait(self.number);
        preempt::begin(self);
        // From now on the monitor can interrupt it.
        self.thread.set(Some(underpass_os::thread::current()));
        match self.cpu {
            // If this fails, it serves calls all the same, but perhaps not on the processor that
            // was donated.
            Some(cpu) => drop(underpass_os::cpu::confine(&[cpu])),
            None => {
                let _held = preempt::critical();
                // It takes the place of an activation that has ended, unless the launcher has
                // changed the state already.
                self.state().advance(state::ENDED, state::ASLEEP);
                self.pool.admit(self.state());
            }
        }
    }

    /// When it may end, in ns of the clock, if it sleeps then and there are enough other
    /// activations until then. Listeners don't end.
    #[inline]
    pub fn ends_at(&self) -> Option<u64> {
        if self.cpu.is_some() { None } else { self.pool.surplus_ends_at() }
    }

    /// The activation has ended in [`idle`](Self::idle). From now on the calling kernel thread is a
    /// plain one.
    pub fn leave(&self) {
        preempt::leave();
        self.thread.set(None);
    }

    /// Whether it has ended, and no other has taken its place yet.
    pub fn has_ended(&self) -> bool {
        self.state().hint() == state::ENDED
    }

    /// Notes that another thread runs. Its own kernel thread calls this at every switch.
    #[inline]
    pub fn stepped(&self) {
        // Relaxed, and no read-modify-write: only one kernel thread writes it, and the monitor only
        // compares it with an earlier value.
        let steps = self.steps.0.load(Ordering::Relaxed);
        self.steps.0.store(steps.wrapping_add(1), Ordering::Relaxed);
    }

    pub(crate) fn steps(&self) -> u32 {
        self.steps.0.load(Ordering::Relaxed)
    }

    /// Whether the monitor wants it to give its processor up, or has taken it away. The scheduler
    /// asks at each scheduling point, when no thread runs. If so, it calls
    /// [`answer`](Self::answer).
    #[inline]
    pub fn summoned(&self) -> bool {
        !state::runs(self.state().hint())
    }

    /// Gives the processor up if that was asked, and returns with one. Preemption is disabled, and
    /// no thread runs.
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

    /// Whether the monitor found that its thread has blocked unannounced, and the thread has not
    /// reached a scheduling point since. It is a hint.
    pub fn is_blocked(&self) -> bool {
        self.state().hint() == state::BLOCKED
    }

    /// Whether there is a reason to give way.
    pub(crate) fn asked(&self) -> bool {
        matches!(self.state().hint(), state::PREEMPTING | state::BLOCKED)
    }

    /// Gives way if asked to. The signal handler calls this as well.
    pub(crate) fn give_way(&self) {
        if self.asked() {
            metrics().preempted();
            protocol::give_way(self.pool, self.state());
        }
    }

    /// OThreads' `ActivationIdle`: it has no thread that can run. Gives its processor up, calls
    /// `sleep`, and returns with a processor. Its own kernel thread calls this, with preemption
    /// disabled.
    ///
    /// `sleep` is told whether this was the last activation that ran. It has to sleep as
    /// [`sleep`](crate::sleep()) does: prepare the parker, heavy barrier, look for work of this
    /// activation and for unstarted work that it would take, sleep only if there is none. It
    /// returns whether the activation may end, if there are still too many
    /// ([`ends_at`](Self::ends_at)): no thread lives on it, and nothing has come for it.
    ///
    /// Returns whether it has ended. Then the caller has to [`leave`](Self::leave), and to end the
    /// kernel thread.
    pub fn idle(&self, sleep: impl FnOnce(bool) -> bool) -> bool {
        let _held = preempt::critical();
        let last = protocol::retire(self.pool, self.state(), state::ASLEEP);
        self.pool.leave_work(self);
        self.pool.share_idle();
        if sleep(last) && self.pool.end(self) {
            return true;
        }
        protocol::resume(self.pool, self.state());
        false
    }

    /// For the sleep in [`idle`](Self::idle), in which this activation wants to donate its
    /// processor: keeps the permit, so that the domain does not use or give away a processor that
    /// another domain's listener runs on. Afterwards call [`use_kept`](Self::use_kept).
    pub fn keep_for_donation(&self) -> KeptPermit {
        match self.pool.is_limited() {
            false => KeptPermit::Unneeded,
            true if protocol::keep(self.pool) => KeptPermit::Kept,
            true => KeptPermit::Gone,
        }
    }

    /// The processor that was donated is back, or was not donated.
    pub fn use_kept(&self) {
        protocol::use_kept(self.pool, self.state());
    }

    /// A listener with nothing to do: from now on it has neither a permit nor a donated processor.
    /// Its own kernel thread calls this, with preemption disabled.
    pub fn listen(&self) {
        let _held = preempt::critical();
        if self.state().advance(state::LENT, state::LISTENING) {
            // SYNC with `lent` load in `is_alone`.
            self.pool.lent.fetch_sub(1, Ordering::SeqCst);
        } else if self.state().hint() != state::LISTENING
            && protocol::retire(self.pool, self.state(), state::LISTENING)
        {
            // This listener serves only calls of domains that donate, so another activation has to
            // look for the others.
            protocol::invite(self.pool);
        }
    }

    /// Whether no other activation runs, and this one has announced that it does not. Then a thread
    /// that would leave it work uses a full fence, since only activations that run use less.
    ///
    /// It is called after the permit was released (or on a donated processor), and before the
    /// sleep.
    pub fn is_alone(&self) -> bool {
        // SYNC with `lent` fetch_add in `lend`, and with the steps on the word of the permits: an
        // activation that comes to a processor after this check does so after our announcement, and
        // sees it.
        protocol::is_alone(self.pool) && self.pool.lent.load(Ordering::SeqCst) == u32::from(self.is_lent())
    }

    /// Another domain has donated a processor to this listener. Called as [`listen`](Self::listen)
    /// is.
    pub fn lend(&self) {
        self.pool.lent.fetch_add(1, Ordering::SeqCst);
        let lent = self.state().advance(state::LISTENING, state::LENT);
        debug_assert!(lent, "only the listener leaves LISTENING");
    }

    /// A listener on a donated processor has more to do than it was donated for. It goes on with a
    /// permit, when it is its turn. Called as [`listen`](Self::listen) is.
    pub fn stop_borrowing(&self) {
        let _held = preempt::critical();
        self.pool.lent.fetch_sub(1, Ordering::SeqCst);
        protocol::regain(self.pool, self.state(), state::LENT);
    }

    /// Whether it runs on a processor that another domain has donated.
    pub fn is_lent(&self) -> bool {
        self.state().hint() == state::LENT
    }

    /// A listener has work of its own: returns with a permit. Called as [`listen`](Self::listen)
    /// is.
    pub fn stop_listening(&self) {
        let _held = preempt::critical();
        protocol::regain(self.pool, self.state(), state::LISTENING);
    }

    /// OThreads' `Begin_BlockingCall`: the thread that this activation runs is about to block in
    /// the kernel. Others may have the processor meanwhile. This costs a few ns if no other
    /// activation wants the processor.
    ///
    /// Blocking calls don't nest: the first end ends all.
    #[inline]
    pub fn begin_blocking(&self) {
        // Relaxed, and below: only this kernel thread uses it.
        if !self.had_blocking_call.load(Ordering::Relaxed) {
            self.begin_first();
        }
        protocol::begin(self.pool, self.state());
    }

    /// B0 of the README, before the first blocking call.
    #[cold]
    fn begin_first(&self) {
        self.pool.announce_blocking_calls();
        // Whenever it is in a blocking call, another activation can listen in its place.
        self.pool.starts.request_substitute();
        self.had_blocking_call.store(true, Ordering::Relaxed);
    }

    /// OThreads' `End_BlockingCall`: returns with a processor. It is the same one if no other
    /// activation wanted it; otherwise it waits for its turn.
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
