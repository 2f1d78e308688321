//! Counters of what was done, without a shared counter on the path of a call.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use underpass_processor::{lines, metrics};
use underpass_seam::atomic::{AtomicU64, Ordering};

/// What a binding, or a whole domain, has done so far.
///
/// For a binding, calls and bytes are its own. Channels, and what concerns the kernel and
/// processors, are those of its connection, which serves all bindings between the two domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls made to other domains.
    pub calls: u64,
    /// Calls of other domains served.
    pub served: u64,
    /// Of the calls made and served: those over channels beside the first of their binding.
    pub calls_beside: u64,
    /// Channels beside the first of their binding. The client asks for one if several of its
    /// activations contend for a channel. For a domain, those of its exports count too.
    pub channels_beside: u64,
    /// System calls made for calls: sleeps, wake-ups, barriers, files passed.
    pub kernel_entries: u64,
    /// Wake-ups sent to peers and to this domain's own processors. Includes those sent for
    /// donations to listeners that slept.
    pub wakeups_sent: u64,
    /// Messages that needed no wake-up, because the peer was polling.
    pub wakeups_avoided: u64,
    /// Times that a processor of this domain went to sleep. For a binding: times that a caller went
    /// to sleep.
    pub sleeps: u64,
    /// Spins that ended because a message came: they took more than a batch of polls (about 2 µs)
    /// and less than a wake-up costs. For a binding: those that its own message ended.
    pub spins_paid: u64,
    /// Spins that ended in a sleep. For a binding: those of callers that waited for this binding
    /// alone.
    pub spins_in_vain: u64,
    /// Dormant bindings that a call made active again. Counted for the domain alone.
    pub revivals: u64,
    /// Processors donated to servers that had none.
    pub donations_given: u64,
    /// Processors that clients donated to this domain.
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

    /// Adds the counters that tell a further channel of a connection from its first.
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

/// What one slot has carried. Only the slot's present owner writes it, so it needs no atomic
/// read-modify-write instruction.
#[derive(Debug, Default)]
pub(crate) struct SlotCount {
    calls: AtomicU64,
    bytes_out: AtomicU64,
    bytes_in: AtomicU64,
}

impl SlotCount {
    #[inline]
    pub(crate) fn out(&self, bytes: u64) {
        // Relaxed load and store, here and below: the slot has one owner, and readers want
        // statistics.
        self.calls.store(self.calls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.bytes_out.store(self.bytes_out.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }

    /// How many messages the slot has sent.
    pub(crate) fn sent(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn come_in(&self, bytes: u64) {
        self.bytes_in.store(self.bytes_in.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }

    /// Adds this slot to `sum`. Messages sent count as `calls`.
    pub(crate) fn add_to(&self, sum: &mut Counters) {
        // Wrapping, because the lengths of a hostile peer are counted too.
        sum.calls = sum.calls.wrapping_add(self.calls.load(Ordering::Relaxed));
        sum.bytes_out = sum.bytes_out.wrapping_add(self.bytes_out.load(Ordering::Relaxed));
        sum.bytes_in = sum.bytes_in.wrapping_add(self.bytes_in.load(Ordering::Relaxed));
    }
}

/// The system calls that an end of a channel made, and its donations and spins.
#[derive(Debug, Default)]
pub(crate) struct KernelCount {
    wakeups: AtomicU64,
    sleeps: AtomicU64,
    given: AtomicU64,
    /// Of `given`: those whose owner slept.
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

    /// A processor was donated to the peer, and its owner sleeps. `woken` says whether the peer's
    /// listener had to be woken.
    pub(crate) fn donated(&self, woken: bool) {
        self.slept_for.fetch_add(1, Ordering::Relaxed);
        self.gave_way(woken);
    }

    /// The same as [`donated`](Self::donated), but the owner yields instead of sleeping.
    pub(crate) fn gave_way(&self, woken: bool) {
        self.given.fetch_add(1, Ordering::Relaxed);
        metrics().donated();
        if woken {
            self.woke();
        }
    }

    /// The peer donated a processor. The domain's metrics have counted it already.
    pub(crate) fn borrowed(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// The peer has its processor back.
    pub(crate) fn returned(&self) {
        self.returned.fetch_add(1, Ordering::Relaxed);
    }

    /// The domain's metrics have counted the spin already.
    pub(crate) fn spun(&self, paid: bool) {
        self.spins[usize::from(paid)].fetch_add(1, Ordering::Relaxed);
    }

    /// The domain's metrics have counted the sleep already.
    pub(crate) fn slept(&self) {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn entered(&self, n: u64) {
        self.other.fetch_add(n, Ordering::Relaxed);
        metrics().entered_kernel(n);
    }

    /// Adds this end to `sum`. The calls of `sum` must be complete already.
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
        // A sleep takes two system calls, the barrier and the wait. A sleep for which a processor
        // is donated needs no barrier.
        let slept_for = self.slept_for.load(Ordering::Relaxed);
        let slept = (2 * sleeps).saturating_sub(slept_for).max(slept_for);
        sum.kernel_entries += wakeups + slept + self.other.load(Ordering::Relaxed);
        sum.wakeups_avoided += (sum.calls + sum.served).saturating_sub(wakeups);
    }
}

/// An end of a channel whose counters are part of the domain's.
pub(crate) trait CountedEnd: Send + Sync {
    fn counters(&self) -> Counters;

    /// This process is a forked child: the end must not be used any more. Takes no lock and
    /// allocates no memory.
    fn cut_off(&self) {}
}

/// All ends of this domain.
#[derive(Default)]
pub(crate) struct CountedEnds {
    living: Vec<Weak<dyn CountedEnd>>,
    /// The length of the list at which ends that are gone are removed from it.
    full: usize,
    gone: Counters,
}

static ENDS: Mutex<Option<CountedEnds>> = Mutex::new(None);

impl CountedEnds {
    /// This process is a forked child: cuts off all ends.
    pub(crate) fn cut_off(&self) {
        self.living.iter().filter_map(Weak::upgrade).for_each(|end| end.cut_off());
    }
}

/// Locks the list of ends.
pub(crate) fn hold() -> MutexGuard<'static, Option<CountedEnds>> {
    ENDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a channel's end. Its counters are part of the domain's from now on.
pub(crate) fn add_end(end: Weak<dyn CountedEnd>) {
    let mut ends = hold();
    let ends = ends.get_or_insert_default();
    if ends.living.len() >= ends.full {
        ends.living.retain(|end| end.strong_count() > 0);
        ends.full = 2 * ends.living.len() + 16;
    }
    ends.living.push(end);
}

/// A channel's end is gone. Its counters stay part of the domain's.
pub(crate) fn retire_end(counted: &Counters) {
    let mut ends = hold();
    let ends = ends.get_or_insert_default();
    ends.gone = ends.gone.plus(counted);
}

/// What this domain has done so far, all bindings and processors together.
///
/// # Examples
/// ```
/// let before = underpass::counters();
/// let done = underpass::counters().since(&before);
/// assert_eq!(done.calls, 0);
/// ```
pub fn counters() -> Counters {
    let living: Vec<_> = {
        let mut ends = hold();
        let ends = ends.get_or_insert_default();
        ends.living.iter().filter_map(Weak::upgrade).map(Ok).chain([Err(ends.gone)]).collect()
    };
    let sum = living.iter().fold(Counters::default(), |sum, end| match end {
        Ok(end) => sum.plus(&end.counters()),
        Err(gone) => sum.plus(gone),
    });
    // The ends tell of calls and bytes alone. What concerns the kernel and processors is counted
    // for the domain as well, and there each event counts once: also those that belong to no end,
    // or to several, as a sleep on many lines does.
    let metrics = metrics();
    Counters {
        kernel_entries: metrics.kernel_entries(),
        wakeups_sent: metrics.wakeups(),
        sleeps: metrics.sleeps(),
        spins_paid: metrics.spins_paid(),
        spins_in_vain: metrics.spins_in_vain(),
        revivals: metrics.revivals(),
        donations_given: metrics.donations(),
        donations_taken: metrics.loans(),
        donations_returned: metrics.returns(),
        ..sum
    }
}

/// How many ends of bindings the processors of this domain poll: those that have carried calls
/// lately, or are new. All others are dormant, and cost no time until their next call, which rings
/// over the socket.
///
/// # Examples
/// ```
/// assert_eq!(underpass::active_bindings(), 0);
/// ```
pub fn active_bindings() -> usize {
    lines::active()
}
