//! The processors that a domain shares with others, by way of the activation server (OThreads,
//! section 3.3). This is what the server's client and the pool know of each other.

use crate::Pool;
use crate::permits::{fence_after_change, protocol};
use crate::pool::MONITOR;
use crate::pool::placing::with_taken_cpu;
use crate::preempt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The activation server's client, as processors see it. The crate of the server implements it.
///
/// Only [`review`](Self::review) may take locks and memory. The other methods run where the
/// interrupted thread may hold any lock.
pub trait ProcessorSharing: Send + Sync {
    /// The launcher calls this when the domain starts, and about once a second while there is more
    /// to do than processors. This is where a domain finds the server.
    fn review(&self, pool: &'static Pool);

    /// So many more processors could be used now. The monitor calls this at each tick, and as soon
    /// as it is woken.
    fn publish(&self, pool: &Pool, wanted: u32);

    /// There is work now, and no permit is free for it. The thread that has made the work calls
    /// this.
    fn want(&self, pool: &Pool);

    /// An activation has given up its permit, so that processors may be idle. Or it waits for a
    /// permit.
    fn idle(&self, pool: &Pool);

    /// Whether another domain wants a processor: a hint, for a few loads.
    fn is_wanted(&self) -> bool;

    /// Lends the processor of the permit that the caller has in hand. Returns `false` if nobody
    /// takes it; then the caller still has the permit.
    fn lend(&self, pool: &Pool) -> bool;
}

/// The client of a domain that shares with nobody.
struct Nobody;

impl ProcessorSharing for Nobody {
    fn review(&self, _: &'static Pool) {}

    fn publish(&self, _: &Pool, _: u32) {}

    fn want(&self, _: &Pool) {}

    fn idle(&self, _: &Pool) {}

    fn is_wanted(&self) -> bool {
        false
    }

    fn lend(&self, _: &Pool) -> bool {
        false
    }
}

static SHARING: OnceLock<&'static dyn ProcessorSharing> = OnceLock::new();
/// How many processors the program says that it wants in all.
static CLAIMED: AtomicU32 = AtomicU32::new(0);

/// The client, if one was set.
pub(crate) fn sharing() -> Option<&'static dyn ProcessorSharing> {
    SHARING.get().copied()
}

impl Pool {
    /// Sets the client of the activation server, before the [`start`](Self::start). A second call
    /// does nothing.
    pub fn share_by(client: &'static dyn ProcessorSharing) {
        let _ = SHARING.set(client);
    }

    /// This domain goes by its own maximum, and looks for no server. To be called before the
    /// [`start`](Self::start).
    pub fn share_with_nobody() {
        Self::share_by(&Nobody);
    }

    /// Says that the program wants so many processors in all, whatever its threads need at the
    /// moment. With 0 it wants what its threads need.
    pub fn claim(processors: u32) {
        // Relaxed: the barrier of `wake_monitor` makes it visible.
        CLAIMED.store(processors, Ordering::Relaxed);
        Self::wake_monitor();
        if let Some(pool) = Self::get().filter(|pool| pool.is_limited()) {
            pool.want_more();
        }
    }

    /// How many more processors this domain could use now.
    pub fn wanted(&self) -> u32 {
        let counts = self.counts();
        if !counts.limited {
            return 0;
        }
        // Relaxed: the monitor looks again at each tick, and `calls` is a hint.
        let calls = self.calls.load(Ordering::Relaxed) && counts.running == 0;
        let waiting = match counts.running < counts.maximum {
            true => 0,
            false => counts.waiting + self.upcall.unstarted_count() + u32::from(calls),
        };
        let most = counts.own_maximum.saturating_sub(counts.held);
        waiting.max(CLAIMED.load(Ordering::Relaxed).saturating_sub(counts.held)).min(most)
    }

    /// The processors that this domain holds by the server's count.
    pub fn held(&self) -> u32 {
        self.counts().held
    }

    /// Whether this domain goes by what it holds.
    pub fn is_limited(&self) -> bool {
        self.counts().limited
    }

    /// The domain's own maximum, whatever it holds.
    pub fn own_maximum(&self) -> usize {
        self.counts().own_maximum as usize
    }

    /// Activations that run beyond the permits, because processors were asked back.
    pub fn excess(&self) -> u32 {
        let counts = self.counts();
        counts.running.saturating_sub(counts.maximum)
    }

    /// Says whether the domain goes by what it holds from now on, and if `held` is given, what that
    /// is.
    pub fn set_limited(&self, limited: bool, held: Option<u32>) {
        let _held = preempt::critical();
        let owed = self.permits.set_limited(limited, held);
        self.use_more(owed);
        // The monitor asks activations beyond the maximum to give way.
        MONITOR.unpark();
    }

    /// T4: the domain has come to one more processor, of this CPU, if that is known.
    pub fn add_processor(&self, cpu: Option<usize>) {
        let _held = preempt::critical();
        let owed = self.permits.add_held();
        with_taken_cpu(cpu, || self.use_more(owed));
    }

    /// G1: takes an idle processor, to give it away. Returns `false` if none is idle.
    pub fn take_idle_processor(&self) -> bool {
        self.permits.take_idle()
    }

    /// Takes the processor of the permit in hand, to lend it. Returns `false` if it is needed here.
    pub fn take_processor_in_hand(&self) -> bool {
        self.permits.take_in_hand()
    }

    /// The permit in hand whose processor could not be lent after all: the domain has both again.
    pub fn put_processor_in_hand(&self) {
        self.permits.put_in_hand();
    }

    /// A processor is asked back: the domain runs on one less from now on. The caller notes what is
    /// owed, and then calls [`end_excess`](Self::end_excess). Returns `false` if the domain holds
    /// none.
    pub fn owe_processor(&self) -> bool {
        self.permits.owe_held()
    }

    /// If more activations run than there are permits, asks as many to give way at once: each at a
    /// safe point, to which a signal brings it.
    pub fn end_excess(&self) {
        let _held = preempt::critical();
        if !protocol::end_excess(self) {
            // At its ticks it takes the permits of blocked ones, and asks again.
            Self::wake_monitor();
        }
    }

    /// Permits have come: `owed` of them for waiters.
    fn use_more(&self, owed: u32) {
        (0..owed).for_each(|_| protocol::grant(self));
        // As in `free`: work may have come that saw no permit.
        fence_after_change();
        if self.upcall.unstarted() {
            protocol::request(self);
        } else if self.calls.load(Ordering::Relaxed) {
            protocol::invite(self);
        }
    }

    /// After an activation has given up its permit: idle processors may go to others.
    #[inline]
    pub(crate) fn share_idle(&self) {
        if self.counts().limited {
            self.share_idle_now();
        }
    }

    #[cold]
    fn share_idle_now(&self) {
        // SYNC with the fence of `end_excess`. The caller has changed the word of the permits.
        fence_after_change();
        if let Some(sharing) = sharing() {
            sharing.idle(self);
        }
    }

    /// There is work, and no permit is free for it. If the domain shares processors, it asks for
    /// one now, and not at the monitor's next tick.
    #[cold]
    pub(crate) fn want_more(&self) {
        if let Some(sharing) = sharing() {
            let _held = preempt::critical();
            sharing.want(self);
        }
    }

    /// Tells the server's client what this domain wants.
    pub(crate) fn publish_wanted(&self) {
        if let Some(sharing) = sharing() {
            sharing.publish(self, self.wanted());
        }
    }
}
