//! The client's end of a binding.

mod bounded;
mod calling;
mod closing;
mod crowd;
mod further;
mod large;
mod line;
mod replies;
mod sharing;
mod task;
mod turn;
mod vigil;
mod watch;

use self::closing::Ending;
use self::crowd::Crowd;
use self::further::Further;
use self::line::Lag;
use self::sharing::Sharing;
use self::vigil::Vigil;
use self::watch::Watch;
use crate::binding::handshake::CpuPlacement;
use crate::call::abandon::Abandon;
use crate::call::insisted::Insisted;
use crate::call::leasing::Leasing;
use crate::call::linkage::Linkage;
use crate::call::queue::Queue;
use crate::call::unrung::Unrung;
use crate::control::mailbox::ChannelMailbox;
use crate::counters::{CountedEnd, Counters, KernelCount, retire_end};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use underpass_channel::layout::SLOTS;
use underpass_channel::{Bell, Channel, Owed, Slot, Slots};
use underpass_os::failpoint;
use underpass_seam::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use underpass_sync::{Inside, Spin};

/// The client's end of a channel: the first of its binding, or a further one.
///
/// | field | who writes it |
/// |---|---|
/// | `channel`'s rings, `slots` | under `lock` |
/// | `linkage` | callers, each its own slot; deliveries under `lock` |
/// | `queue` | callers that find all slots leased |
/// | `closed`, `why` | the clerk, or who finds a violation; never reset |
/// | `sleepers` | plain kernel threads around a sleep on this line |
/// | `aside` | who puts the line aside, because it can't sleep on its word |
/// | `dormant`, `seen` | under the lock of the lines |
/// | `unrung` | callers |
/// | `turns_away` | callers that the server turns away; never reset |
/// | `quarantined` | under `lock` |
/// | `quarantine` | the user |
/// | `untold`, `tells_again` | callers that give up, and the clerk |
/// | `crowd` | callers that are not alone |
/// | `watch` | see there |
/// | `vigil` | see there |
/// | `further` | who finds the first channel crowded |
/// | `sharing` | who passes the binding on; the clerk |
pub(crate) struct ClientEnd {
    lock: Spin,
    channel: Channel,
    mailbox: ChannelMailbox,
    slots: Slots,
    linkage: Box<[Linkage]>,
    queue: Queue,
    closed: AtomicBool,
    /// No activation looks at this line.
    dormant: AtomicBool,
    why: Mutex<Option<Ending>>,
    /// The server has turned a call away, because it drains.
    turns_away: AtomicBool,
    sleepers: AtomicU32,
    aside: AtomicBool,
    unrung: Unrung,
    /// Slots that the server holds though nobody waits for their calls, and how many it may.
    quarantined: AtomicU32,
    quarantine: AtomicU32,
    /// Given-up slots, as bits, of which the server has still to be told.
    untold: AtomicU64,
    /// A timer is set for that.
    tells_again: AtomicBool,
    owed: Owed,
    /// A processor has been donated since the server was called last: a procedure may stay on it.
    lent: AtomicBool,
    insisted: Insisted,
    lag: Lag,
    placement: CpuPlacement,
    kernel: KernelCount,
    /// How many replies had come when `used` was last asked.
    seen: AtomicU32,
    crowd: Crowd,
    watch: Watch,
    vigil: Vigil,
    /// The binding's further channels, once there were to be some: of the first channel alone.
    further: OnceLock<Box<Further>>,
    /// Of a further channel, the first of its binding.
    first: Option<Weak<Self>>,
    sharing: Box<Sharing>,
    own: Weak<Self>,
}

/// The most slots of a channel that a server may hold, at first, though nobody waits for their
/// calls: three quarters.
pub(crate) const QUARANTINE: u32 = SLOTS - SLOTS / 4;

/// How a call is to be made.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) within: Option<Duration>,
    /// Forces a donation.
    pub(crate) urgent: bool,
    /// By what the caller can be freed.
    pub(crate) abandon: Option<Abandon>,
    pub(crate) leasing: Leasing,
}

impl ClientEnd {
    /// The first end of a binding.
    pub(crate) fn new(channel: Channel, mailbox: ChannelMailbox, placement: CpuPlacement) -> Arc<Self> {
        Self::beside(None, channel, mailbox, placement)
    }

    fn beside(
        first: Option<Weak<Self>>,
        channel: Channel,
        mailbox: ChannelMailbox,
        placement: CpuPlacement,
    ) -> Arc<Self> {
        Arc::new_cyclic(|own: &Weak<Self>| {
            mailbox.heard_by(own.clone());
            Self {
                lock: Spin::new(),
                channel,
                mailbox,
                slots: Slots::default(),
                linkage: (0..SLOTS).map(|_| Linkage::default()).collect(),
                queue: Queue::default(),
                closed: AtomicBool::new(false),
                dormant: AtomicBool::new(false),
                why: Mutex::new(None),
                turns_away: AtomicBool::new(false),
                sleepers: AtomicU32::new(0),
                aside: AtomicBool::new(false),
                unrung: Unrung::default(),
                quarantined: AtomicU32::new(0),
                quarantine: AtomicU32::new(QUARANTINE),
                untold: AtomicU64::new(0),
                tells_again: AtomicBool::new(false),
                owed: Owed::default(),
                lent: AtomicBool::new(false),
                insisted: Insisted::default(),
                lag: Lag::default(),
                placement,
                kernel: KernelCount::default(),
                seen: AtomicU32::new(u32::MAX),
                crowd: Crowd::default(),
                watch: Watch::default(),
                vigil: Vigil::default(),
                further: OnceLock::new(),
                first,
                sharing: Box::default(),
                own: own.clone(),
            }
        })
    }

    pub(crate) fn mailbox(&self) -> &ChannelMailbox {
        &self.mailbox
    }

    /// Whether it is that of a channel beside the first.
    pub(crate) fn is_further(&self) -> bool {
        self.first.is_some()
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    #[inline(always)]
    pub(crate) fn linkage(&self, slot: u16) -> &Linkage {
        &self.linkage[usize::from(slot)]
    }

    pub(crate) fn count_entries(&self, entries: u64) {
        self.kernel.entered(entries);
    }

    /// The lock: of rings, slots and linkage records. Held for some instructions, in which nothing
    /// of a user's runs; or, by who alone uses it, for some looks in a row.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Inside<'_> {
        self.lock.enter()
    }

    #[inline(always)]
    pub(crate) fn give_back(&self, slot: Slot) {
        let inside = self.lock();
        self.slots.give_back(slot);
        drop(inside);
        failpoint!("client-given-back");
        self.queue.next(|| self.slots.leased());
    }

    #[cold]
    fn ring(&self, bell: Bell) {
        match bell {
            Bell::Wake => self.channel.wake_peer(),
            Bell::Socket => self.mailbox.ring(),
            Bell::Silent => return,
        }
        failpoint!("client-rung");
        self.kernel.woke();
    }
}

impl CountedEnd for ClientEnd {
    fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.linkage.iter().for_each(|linkage| linkage.count.add_to(&mut sum));
        self.kernel.add_to(&mut sum);
        sum.of_channel(self.is_further())
    }

    fn cut_off(&self) {
        // Relaxed: the only kernel thread that there is.
        self.closed.store(true, Ordering::Relaxed);
    }
}

impl Drop for ClientEnd {
    fn drop(&mut self) {
        retire_end(&self.counters());
    }
}

impl std::fmt::Debug for ClientEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientEnd").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
