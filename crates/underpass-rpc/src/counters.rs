//! What was done, counted without a shared counter on the path of a call.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use underpass_processor::{lines, metrics};
use underpass_seam::atomic::{AtomicU64, Ordering};

/// What a binding, or a whole domain, has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls made to other domains.
    pub calls: u64,
    /// Calls of other domains served.
    pub served: u64,
    /// Of the calls made and served, those over channels beside the first of their binding.
    pub calls_beside: u64,
    /// Channels beside the first of their binding, which the client asks for where several of its
    /// activations contend for one. Those of this domain's exports too.
    pub channels_beside: u64,
    /// System calls made on the way of calls: sleeps, wake-ups, barriers, files passed.
    pub kernel_entries: u64,
    /// Wake-ups sent to peers, for donations too where their listeners slept, and to own
    /// processors.
    pub wakeups_sent: u64,
    /// Messages that needed no wake-up, because the peer was looking.
    pub wakeups_avoided: u64,
    /// Times that a processor of this domain went to sleep. For a binding: that a caller did.
    pub sleeps: u64,
    /// Spins that ended because something came: more than a batch of polls (some 2 µs), and less
    /// than a wake-up costs. For a binding: those that its own message ended.
    pub spins_paid: u64,
    /// Spins that ended in a sleep. For a binding: those of callers, who waited for it alone.
    pub spins_in_vain: u64,
    /// Bindings that nobody looked at any more, made active by a call. For the domain alone.
    pub revivals: u64,
    /// Processors given to servers that had none.
    pub donations_given: u64,
    /// Processors that clients gave.
    pub donations_taken: u64,
    /// Of these, returned.
    pub donations_returned: u64,
    /// Bytes of arguments and results sent.
    pub bytes_out: u64,
    /// Bytes of arguments and results received.
    pub bytes_in: u64,
}

impl Counters {
    /// What was done since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    /// The same, of one channel: of a further one of its binding, or of the first.
    pub(crate) fn of_channel(self, further: bool) -> Self {
        match further {
            true => Self { calls_beside: self.calls + self.served, channels_beside: 1, ..self },
            false => self,
        }
    }

    fn with(&self, other: &Self, op: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            calls: op(self.calls, other.calls),
            served: op(self.served, other.served),
            calls_beside: op(self.calls_beside, other.calls_beside),
            channels_beside: op(self.channels_beside, other.channels_beside),
            kernel_entries: op(self.kernel_entries, other.kernel_entries),
            wakeups_sent: op(self.wakeups_sent, other.wakeups_sent),
            wakeups_avoided: op(self.wakeups_avoided, other.wakeups_avoided),
            sleeps: op(self.sleeps, other.sleeps),
            spins_paid: op(self.spins_paid, other.spins_paid),
            spins_in_vain: op(self.spins_in_vain, other.spins_in_vain),
            revivals: op(self.revivals, other.revivals),
            donations_given: op(self.donations_given, other.donations_given),
            donations_taken: op(self.donations_taken, other.donations_taken),
            donations_returned: op(self.donations_returned, other.donations_returned),
            bytes_out: op(self.bytes_out, other.bytes_out),
            bytes_in: op(self.bytes_in, other.bytes_in),
        }
    }
}

/// What one slot has carried. Written by whoever has the slot at the moment, and so without a
/// locked instruction.
#[derive(Debug, Default)]
pub(crate) struct SlotCount {
    calls: AtomicU64,
    bytes_out: AtomicU64,
    bytes_in: AtomicU64,
}

impl SlotCount {
    #[inline]
    pub(crate) fn out(&self, bytes: u64) {
        // Relaxed load and store, here and below: the slot has one owner; readers want statistics.
        self.calls.store(self.calls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.bytes_out.store(self.bytes_out.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }

    /// How many messages it has sent.
    pub(crate) fn sent(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn come_in(&self, bytes: u64) {
        self.bytes_in.store(self.bytes_in.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }

    /// Adds it to `sum`; messages sent count as `calls`.
    pub(crate) fn add_to(&self, sum: &mut Counters) {
        // Wrapping: a hostile peer's lengths are counted too.
        sum.calls = sum.calls.wrapping_add(self.calls.load(Ordering::Relaxed));
        sum.bytes_out = sum.bytes_out.wrapping_add(self.bytes_out.load(Ordering::Relaxed));
        sum.bytes_in = sum.bytes_in.wrapping_add(self.bytes_in.load(Ordering::Relaxed));
    }
}

/// What an end of a channel did in the kernel.
#[derive(Debug, Default)]
pub(crate) struct KernelCount {
    wakeups: AtomicU64,
    sleeps: AtomicU64,
    given: AtomicU64,
    /// Of those, the ones whose owner slept.
    slept_for: AtomicU64,
    taken: AtomicU64,
    returned: AtomicU64,
    spins: [AtomicU64; 2],
    other: AtomicU64,
}

// Relaxed throughout: statistics, on slow paths.
impl KernelCount {
    pub(crate) fn woke(&self) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        metrics().woke();
    }

    /// A processor was given to the peer, whose listener had to be woken or not, and its owner
    /// sleeps.
    pub(crate) fn donated(&self, woken: bool) {
        self.slept_for.fetch_add(1, Ordering::Relaxed);
        self.gave_way(woken);
    }

    /// As [`donated`](Self::donated), but its owner gives way.
    pub(crate) fn gave_way(&self, woken: bool) {
        self.given.fetch_add(1, Ordering::Relaxed);
        metrics().donated();
        if woken {
            self.woke();
        }
    }

    /// The peer gave a processor; the domain's metrics have it already.
    pub(crate) fn borrowed(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// The peer has it back.
    pub(crate) fn returned(&self) {
        self.returned.fetch_add(1, Ordering::Relaxed);
    }

    /// The domain's metrics have it already.
    pub(crate) fn spun(&self, paid: bool) {
        self.spins[usize::from(paid)].fetch_add(1, Ordering::Relaxed);
    }

    /// The sleep itself is in the domain's metrics already.
    pub(crate) fn slept(&self) {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn entered(&self, n: u64) {
        self.other.fetch_add(n, Ordering::Relaxed);
        metrics().entered_kernel(n);
    }

    /// Adds it to `sum`, whose calls are complete.
    pub(crate) fn add_to(&self, sum: &mut Counters) {
        let (wakeups, sleeps) = (self.wakeups.load(Ordering::Relaxed), self.sleeps.load(Ordering::Relaxed));
        sum.wakeups_sent += wakeups;
        sum.sleeps += sleeps;
        let given = self.given.load(Ordering::Relaxed);
        sum.donations_given += given;
        sum.donations_taken += self.taken.load(Ordering::Relaxed);
        sum.donations_returned += self.returned.load(Ordering::Relaxed);
        sum.spins_in_vain += self.spins[0].load(Ordering::Relaxed);
        sum.spins_paid += self.spins[1].load(Ordering::Relaxed);
        // A sleep is two system calls, the barrier and the sleep; one for which a processor is
        // donated needs no barrier.
        let slept_for = self.slept_for.load(Ordering::Relaxed);
        let slept = (2 * sleeps).saturating_sub(slept_for).max(slept_for);
        sum.kernel_entries += wakeups + slept + self.other.load(Ordering::Relaxed);
        sum.wakeups_avoided += (sum.calls + sum.served).saturating_sub(wakeups);
    }
}

/// Something whose counters are part of the domain's.
pub(crate) trait Counted: Send + Sync {
    fn counters(&self) -> Counters;

    /// This process was forked off: it is to do nothing with it. Takes neither lock nor memory.
    fn cut_off(&self) {}
}

/// All ends of this domain.
#[derive(Default)]
pub(crate) struct Ends {
    living: Vec<Weak<dyn Counted>>,
    /// As many in the list are worth a look for those that live no more.
    full: usize,
    gone: Counters,
}

static ENDS: Mutex<Option<Ends>> = Mutex::new(None);

impl Ends {
    /// This process was forked off.
    pub(crate) fn cut_off(&self) {
        self.living.iter().filter_map(Weak::upgrade).for_each(|end| end.cut_off());
    }
}

/// Keeps the ends as they are.
pub(crate) fn hold() -> MutexGuard<'static, Option<Ends>> {
    ENDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A channel's end whose counters are part of the domain's from now on.
pub(crate) fn enlist(end: Weak<dyn Counted>) {
    let mut ends = hold();
    let ends = ends.get_or_insert_default();
    if ends.living.len() >= ends.full {
        ends.living.retain(|end| end.strong_count() > 0);
        ends.full = 2 * ends.living.len() + 16;
    }
    ends.living.push(end);
}

/// A channel's end is gone; what it counted stays part of the domain's.
pub(crate) fn bequeath(counted: &Counters) {
    let mut ends = hold();
    let ends = ends.get_or_insert_default();
    ends.gone = ends.gone.plus(counted);
}

/// What this domain has done so far, all bindings and processors together.
///
/// # Examples
/// ```
/// let before = underpass_rpc::counters();
/// let done = underpass_rpc::counters().since(&before);
/// assert_eq!(done.calls, 0);
/// ```
pub fn counters() -> Counters {
    let living: Vec<_> = {
        let mut ends = hold();
        let ends = ends.get_or_insert_default();
        ends.living.iter().filter_map(Weak::upgrade).map(Ok).chain([Err(ends.gone)]).collect()
    };
    let mut sum = living.iter().fold(Counters::default(), |sum, end| match end {
        Ok(end) => sum.plus(&end.counters()),
        Err(gone) => sum.plus(gone),
    });
    let metrics = metrics();
    sum.kernel_entries = metrics.kernel_entries();
    sum.wakeups_sent = metrics.wakeups();
    sum.sleeps = metrics.sleeps();
    sum.spins_paid = metrics.spins_paid();
    sum.spins_in_vain = metrics.spins_in_vain();
    sum.revivals = metrics.revivals();
    sum.donations_given = metrics.donations();
    sum.donations_taken = metrics.loans();
    sum.donations_returned = metrics.returns();
    sum
}

/// How many ends of bindings the processors of this domain look at: those that have carried calls
/// lately, or are new. All others cost no time until their next call, which rings over the socket.
///
/// # Examples
/// ```
/// assert_eq!(underpass_rpc::active_bindings(), 0);
/// ```
pub fn active_bindings() -> usize {
    lines::active()
}
