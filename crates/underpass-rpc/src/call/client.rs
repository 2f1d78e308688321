//! The client's end of a channel.

mod bounded;
mod calling;
mod channel_owner;
mod closing;
mod contention;
mod further_channels;
mod late_answer;
mod late_calls;
mod late_future;
mod lease_future;
mod line;
mod overflow_sweep;
mod replies;
mod row;
mod rows;
mod sharing;
#[cfg(feature = "ends")]
mod steps;
mod task;
mod waker_table;

use self::channel_owner::ChannelOwner;
use self::closing::Ending;
use self::contention::Contention;
use self::further_channels::Further;
use self::late_calls::PendingLateCalls;
use self::line::Lag;
pub(crate) use self::row::{ClientRow, SHARE};
use self::rows::ClientRows;
use self::sharing::Sharing;
use self::waker_table::WakerTable;
use crate::binding::handshake::CpuPlacement;
use crate::call::abandon::Abandon;
use crate::call::leasing::Leasing;
use crate::call::linkage::Linkage;
use crate::call::notify_retries::NotifyRetries;
use crate::call::slot_queue::SlotQueue;
use crate::call::unnotified::Unnotified;
use crate::control::mailbox::ChannelMailbox;
use crate::counters::{CountedEnd, Counters, KernelCount, SlotCount, retire_end};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use underpass_channel::layout::SLOTS;
use underpass_channel::{Channel, Doorbell, Owed, Slot, Slots};
use underpass_os::failpoint;
use underpass_seam::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use underpass_sync::{SpinGuard, SpinLock};

/// The client's end of a channel: the first of its connection, or a further one.
///
/// | field | who writes it |
/// |---|---|
/// | `channel`'s rings, `slots` | under `lock` |
/// | `linkage` | callers, each its own slot; deliveries under `lock` |
/// | `queue` | callers that find all slots leased |
/// | `closed`, `why` | the clerk, or a thread that finds a violation; never reset |
/// | `sleepers` | plain kernel threads around a sleep on this line |
/// | `unpolled` | a thread that marks the line unpolled, because it can't sleep on its word |
/// | `dormant`, `seen` | under the lock of the lines |
/// | `unnotified` | callers |
/// | `quarantined`, `came_back` | under `lock` |
/// | `watches_quarantine` | callers that give up, and the clerk |
/// | `untold`, `tells_again` | callers that give up, and the clerk |
/// | `contention` | callers that are not alone |
/// | `watch` | see there |
/// | `waker_table` | see there |
/// | `further` | a caller that finds the first channel contended |
/// | `late` | see there |
/// | `sharing` | a caller that passes the binding on; the clerk |
/// | `rows` | see there |
pub(crate) struct ClientEnd {
    lock: SpinLock,
    channel: Channel,
    mailbox: ChannelMailbox,
    slots: Slots,
    linkage: Box<[Linkage]>,
    queue: SlotQueue,
    closed: AtomicBool,
    why: Mutex<Option<Ending>>,
    line: LineState,
    given_up: GivenUp,
    server: ServerWakeups,
    placement: CpuPlacement,
    kernel: KernelCount,
    contention: Contention,
    channel_owner: ChannelOwner,
    waker_table: WakerTable,
    shared: Siblings,
    late: Box<PendingLateCalls>,
    own: Weak<Self>,
}

/// How this domain's processors look at the channel.
struct LineState {
    /// No activation polls this line.
    dormant: AtomicBool,
    sleepers: AtomicU32,
    unpolled: AtomicBool,
    /// How many replies had come when `used` was last asked.
    seen: AtomicU32,
}

/// The calls that were given up, while the server holds their slots.
#[derive(Default)]
struct GivenUp {
    /// How many slots the server holds though nobody waits for their calls.
    quarantined: AtomicU32,
    /// How many slots have come back from quarantine.
    came_back: AtomicU32,
    /// A timer is set that looks whether the server still holds too many.
    watches_quarantine: AtomicBool,
    /// Bits of the given-up slots of which the server has still to be told.
    untold: AtomicU64,
    /// A timer is set that tells the server of them.
    tells_again: AtomicBool,
}

/// When the server was last woken, and whether it is to be.
#[derive(Default)]
struct ServerWakeups {
    unnotified: Unnotified,
    owed: Owed,
    /// A processor has been donated since the server was woken last: a procedure may stay on it.
    lent: AtomicBool,
    notify_retries: NotifyRetries,
    lag: Lag,
}

/// What the channels of one connection share.
struct Siblings {
    /// The connection's further channels, if it has asked for any. Of the first channel alone.
    further: OnceLock<Box<Further>>,
    /// Of a further channel: the first end of its connection.
    first: Option<Weak<ClientEnd>>,
    rows: Arc<ClientRows>,
    sharing: Box<Sharing>,
}

/// How many slots of a channel a server may hold at first though nobody waits for their calls:
/// three quarters.
pub(crate) const QUARANTINE: u32 = SLOTS - SLOTS / 4;

/// How a call is to be made.
#[derive(Clone, Debug)]
pub(crate) struct CallTerms {
    pub(crate) within: Option<Duration>,
    /// Forces a donation.
    pub(crate) urgent: bool,
    /// What can free the caller.
    pub(crate) abandon: Option<Abandon>,
    pub(crate) leasing: Leasing,
}

impl ClientEnd {
    /// The first end of a connection.
    pub(crate) fn new(channel: Channel, mailbox: ChannelMailbox, placement: CpuPlacement) -> Arc<Self> {
        Self::beside(None, Arc::default(), channel, mailbox, placement)
    }

    fn beside(
        first: Option<Weak<Self>>,
        rows: Arc<ClientRows>,
        channel: Channel,
        mailbox: ChannelMailbox,
        placement: CpuPlacement,
    ) -> Arc<Self> {
        Arc::new_cyclic(|own: &Weak<Self>| {
            mailbox.heard_by(own.clone());
            Self {
                lock: SpinLock::new(),
                channel,
                mailbox,
                slots: Slots::default(),
                linkage: (0..SLOTS).map(|_| Linkage::default()).collect(),
                queue: SlotQueue::default(),
                closed: AtomicBool::new(false),
                why: Mutex::new(None),
                line: LineState {
                    dormant: AtomicBool::new(false),
                    sleepers: AtomicU32::new(0),
                    unpolled: AtomicBool::new(false),
                    seen: AtomicU32::new(u32::MAX),
                },
                given_up: GivenUp::default(),
                server: ServerWakeups::default(),
                placement,
                kernel: KernelCount::default(),
                contention: Contention::default(),
                channel_owner: ChannelOwner::default(),
                waker_table: WakerTable::default(),
                shared: Siblings { further: OnceLock::new(), first, rows, sharing: Box::default() },
                late: Box::default(),
                own: own.clone(),
            }
        })
    }

    pub(crate) fn mailbox(&self) -> &ChannelMailbox {
        &self.mailbox
    }

    /// Whether this is the end of a further channel.
    pub(crate) fn is_further(&self) -> bool {
        self.shared.first.is_some()
    }

    /// The number of the channel: 0 for the first.
    #[inline(always)]
    pub(crate) fn number(&self) -> u8 {
        self.mailbox.number()
    }

    /// On which CPUs the two sides may run.
    pub(crate) fn placement(&self) -> CpuPlacement {
        self.placement
    }

    /// Of a further channel: the first end of its connection.
    fn first_end(&self) -> Option<Arc<Self>> {
        self.shared.first.as_ref().and_then(Weak::upgrade)
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

    /// The lock of rings, slots and linkage records. It is held for a few instructions, and no code
    /// of the user's runs under it.
    #[inline(always)]
    pub(crate) fn lock(&self) -> SpinGuard<'_> {
        self.lock.enter()
    }

    /// Gives a slot back, after a result of `len` bytes has come, which `count` counts.
    #[inline(always)]
    pub(crate) fn give_back(&self, slot: Slot, count: &SlotCount, len: u64) {
        let inside = self.lock();
        count.come_in(len);
        self.slots.give_back(slot);
        drop(inside);
        failpoint!("client-given-back");
        self.slot_is_free();
    }

    /// Gives a slot back over which no result of its own call has come.
    #[cold]
    pub(crate) fn give_back_unused(&self, slot: Slot) {
        let inside = self.lock();
        self.slots.give_back(slot);
        drop(inside);
        failpoint!("client-given-back");
        self.slot_is_free();
    }

    /// A slot was given back: wakes the next caller that waits for one.
    #[inline(always)]
    fn slot_is_free(&self) {
        self.queue.next(|wish| {
            let _inside = self.lock();
            self.has_room(wish)
        });
    }

    #[cold]
    fn ring(&self, doorbell: Doorbell) {
        match doorbell {
            Doorbell::Wake => self.channel.wake_peer(),
            Doorbell::Socket => self.mailbox.ring(),
            Doorbell::None => return,
        }
        failpoint!("client-rung");
        self.kernel.woke();
    }
}

impl CountedEnd for ClientEnd {
    fn counters(&self) -> Counters {
        let mut sum = self.shared.rows.carried(self.number());
        self.kernel.add_to(&mut sum);
        sum.of_channel(self.is_further())
    }

    fn cut_off(&self) {
        // Relaxed: after a fork this is the only kernel thread.
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
