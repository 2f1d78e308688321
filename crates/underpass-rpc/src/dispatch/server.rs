//! The server's end of a channel: takes calls, runs them, replies.

mod admission;
mod bounded;
mod events;
mod held_replies;
mod late;
mod line;
mod overflow_count;
mod unwanted;

use self::admission::gate;
use self::late::LateCalls;
use self::unwanted::Unwanted;
pub(crate) use self::unwanted::{Told, served};
use crate::binding::family::Family;
use crate::binding::handshake::CpuPlacement;
use crate::binding::limits::ChannelQuota;
use crate::binding::row::{BindingRow, ServedRow};
use crate::call::unnotified::Unnotified;
use crate::control::clerk::clerk;
use crate::control::mailbox::ChannelMailbox;
use crate::counters::{CountedEnd, Counters, KernelCount, SlotCount, retire_end};
use crate::dispatch::incoming::{IncomingCall, REVOKED, Refused, Replied, Status};
use crate::payload::interfaces::WITH_INTERFACES;
use crate::payload::message::{Bytes, IN_REPLY, IN_REQUEST, LATE, NO_FILE, Unread, fill};
use std::any::Any;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Weak};
use underpass_channel::layout::SLOTS;
use underpass_channel::{Cell, Channel, Doorbell, INLINE, NoRow, PayloadPlace, RowUse, Rows, Tag};
use underpass_os::failpoint;
use underpass_processor::{Line, LineOwner, PolledLine, lines};
use underpass_seam::atomic::{AtomicU32, AtomicU64, Ordering};
use underpass_sync::SpinLock;
use underpass_threads::{
    defers_wake_up, invite, invite_or_check, on_user_thread, panic_message, wake_all_idle,
};

/// A position that no ring reaches at once, so that a new line counts as used.
const FRESH: u32 = u32::MAX;

/// One slot, as the server knows it. What the region says of it is untrusted.
#[derive(Debug, Default)]
struct Served {
    /// Which thread runs the slot's call: its number, or one of the values in [`by`]. Written under
    /// the lock where it changes from or to [`by::NOBODY`].
    by: AtomicU64,
    count: SlotCount,
    /// The row that the call uses. Under the lock.
    row: RowUse,
}

impl Served {
    /// Thread `who` runs the next call. Under the lock, while no call is under way.
    #[inline(always)]
    fn begins(&self, who: u64) {
        self.by.store(who, Ordering::Relaxed);
    }

    /// The call has ended. Under the lock.
    #[inline(always)]
    fn ends(&self) {
        // Relaxed: the lock is held, so no thread can take the slot's next call yet.
        self.by.store(by::NOBODY, Ordering::Relaxed);
        self.row.end();
    }

    /// Whether a call is under way.
    fn is_busy(&self) -> bool {
        !matches!(self.by.load(Ordering::Relaxed), by::NOBODY | by::WARY)
    }

    /// Whether thread `who` runs the call before which `calls` had ended.
    fn is_at(&self, calls: u64, who: u64) -> bool {
        self.by.load(Ordering::Relaxed) == who && self.count.sent() == calls
    }
}

/// Values that are no thread's number.
mod by {
    /// No call is under way.
    pub(crate) const NOBODY: u64 = 0;
    /// No call is under way. The next may be one for which nobody waits any more.
    pub(crate) const WARY: u64 = u64::MAX;
    /// An executor runs the call.
    pub(crate) const LATER: u64 = u64::MAX - 1;
    /// The client collects late answers with it.
    pub(crate) const COLLECT: u64 = u64::MAX - 2;
}

/// Why a server stub has made no reply.
enum Failure {
    Refused(Refused),
    Panicked(Box<dyn Any + Send>),
}

/// The server's end of a channel.
#[repr(align(64))] // As the client's: its alignment to cache lines must not depend on chance.
pub(crate) struct ServerEnd {
    /// The lock of the channel's rings, `slots` and `under_way`.
    lock: SpinLock,
    /// What the server does with calls that come: see [`gate`](admission::gate).
    gate: AtomicU32,
    /// Calls taken and not answered.
    under_way: AtomicU32,
    channel: Channel,
    mailbox: ChannelMailbox,
    rows: Arc<Rows<ServedRow>>,
    slots: Arc<[Served]>,
    placement: CpuPlacement,
    /// What all channels of the connection share, and whether this is a further one.
    family: Arc<Family>,
    further: bool,
    /// The room that its user's quota has for it.
    quota: ChannelQuota,
    owner: LineOwner,
    unnotified: Unnotified,
    /// Processors on loan from this client.
    lent: AtomicU32,
    /// The CPUs, as bits, where a listener has announced in the region that it listens. Each
    /// listener writes its own bit.
    listening: AtomicU64,
    kernel: KernelCount,
    /// How many calls had come when `used` was last asked.
    seen: AtomicU32,
    /// How many calls had been taken when `call_progress` was last asked. Only the monitor uses it.
    stalled: AtomicU32,
    /// The calls for which nobody waits any more.
    unwanted: Mutex<Unwanted>,
    /// The async calls, and the answers that come late.
    late: Box<LateCalls>,
    own: Weak<Self>,
}

impl ServerEnd {
    pub(crate) fn new(
        channel: Channel,
        mailbox: ChannelMailbox,
        placement: CpuPlacement,
        family: Arc<Family>,
        quota: ChannelQuota,
    ) -> Arc<Self> {
        Self::beside(false, channel, mailbox, placement, family, quota)
    }

    /// The end of a further channel of the same connection.
    pub(crate) fn another(&self, number: u8, channel: Channel, quota: ChannelQuota) -> Arc<Self> {
        let mailbox = self.mailbox.another(number, quota.overflow_buffers());
        Self::beside(true, channel, mailbox, self.placement, self.family.clone(), quota)
    }

    fn beside(
        further: bool,
        channel: Channel,
        mailbox: ChannelMailbox,
        placement: CpuPlacement,
        family: Arc<Family>,
        quota: ChannelQuota,
    ) -> Arc<Self> {
        Arc::new_cyclic(|own: &Weak<Self>| {
            mailbox.heard_by(own.clone());
            Self {
                lock: SpinLock::new(),
                gate: AtomicU32::new(gate::OPEN),
                under_way: AtomicU32::new(0),
                channel,
                mailbox,
                rows: family.rows().clone(),
                slots: (0..SLOTS).map(|_| Served::default()).collect(),
                placement,
                family,
                further,
                quota,
                owner: LineOwner::default(),
                unnotified: Unnotified::default(),
                lent: AtomicU32::new(0),
                listening: AtomicU64::new(0),
                kernel: KernelCount::default(),
                seen: AtomicU32::new(FRESH),
                stalled: AtomicU32::new(FRESH),
                unwanted: Mutex::default(),
                late: Box::default(),
                own: own.clone(),
            }
        })
    }

    /// A hold on this end.
    pub(crate) fn own(&self) -> Option<Arc<Self>> {
        self.own.upgrade()
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    pub(crate) fn mailbox(&self) -> &ChannelMailbox {
        &self.mailbox
    }

    /// On which CPUs the two sides may run.
    pub(crate) fn placement(&self) -> CpuPlacement {
        self.placement
    }

    pub(crate) fn family(&self) -> &Arc<Family> {
        &self.family
    }

    pub(crate) fn quota(&self) -> &ChannelQuota {
        &self.quota
    }

    pub(crate) fn is_further(&self) -> bool {
        self.further
    }

    /// Takes no more calls over any channel of the connection. The calls under way run on; their
    /// results are discarded.
    ///
    /// The client is told of it after this: then no call that it finds untaken will ever be taken
    /// (*Not started* in the channel's `README.md`).
    #[cold]
    pub(crate) fn close(&self) {
        if self.gate.swap(gate::CLOSED, Ordering::Relaxed) != gate::CLOSED {
            // A thread that held the lock before has taken its call, even if that came only now. A
            // thread that takes the lock later sees the channel closed.
            self.no_more_begin();
            // Files of calls that will not be served. A call that runs has its own.
            self.mailbox.forget_all();
            self.tells_of_end();
            self.family.close();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.gate.load(Ordering::Relaxed) == gate::CLOSED
    }

    /// Whether thread `who` runs a call of this channel.
    pub(crate) fn runs(&self, who: u64) -> bool {
        // Relaxed, both: a blocked thread has begun its call long before the monitor reported it.
        self.under_way.load(Ordering::Relaxed) > 0
            && self.slots.iter().any(|slot| slot.by.load(Ordering::Relaxed) == who)
    }

    /// The client asks for another channel.
    fn asked(&self) {
        if self.mailbox.is_reverse() {
            return self.violated();
        }
        let Some(number) = self.family.next_channel_number() else { return self.violated() };
        match clerk() {
            Ok(clerk) if !self.is_closed() => clerk.open(self, number),
            _ => {}
        }
    }

    /// The client asks for a ticket, to pass the binding `tag` on.
    #[cold]
    fn share(&self, tag: Tag) {
        match clerk() {
            Ok(clerk) if !self.is_closed() => clerk.share(self, tag),
            _ => {}
        }
    }

    /// The client rang the doorbell over the socket: a processor has to poll this line.
    pub(crate) fn heard(&self) {
        failpoint!("server-heard");
        let own = self.own.upgrade().map(|own| own as Arc<dyn Line>);
        match own.is_some_and(|own| lines::activate(&own)) {
            true => wake_all_idle(),
            false => invite(),
        }
        // The woken worker may find no permit free: all of them may belong to blocked workers.
        if self.pending() {
            invite_or_check();
        }
    }

    /// Runs an unbounded call whose bytes lie in the cell or the A-stack, and posts its reply.
    #[inline(always)]
    fn run(&self, call: &mut IncomingCall<'_>, slot: &Served) {
        failpoint!("server-read");
        slot.count.come_in(call.bytes.left() as u64);
        // Neither the outcome nor the reply is moved. A move would wait until the pieces that were
        // just written have left the store buffer (decision 0021).
        let mut failure = None;
        let well = self.dispatch(call, &mut failure);
        self.conclude(call, well, &mut failure, slot);
    }

    /// Runs any other call, and posts its reply. If there is no `row` for the call, refuses it,
    /// after what came along with it is taken.
    #[inline(never)]
    fn run_other(&self, cell: &Cell, slot: &Served, row: Result<&ServedRow, NoRow>) {
        if late::collects(cell) {
            return self.takes_counted_collect(cell, slot);
        }
        let mut bytes = match Bytes::of::<IN_REQUEST>(&self.channel, &self.mailbox, cell) {
            Ok(bytes) => bytes,
            Err(Unread::Violation(_)) => {
                self.violated();
                return self.ends_unanswered(slot);
            }
            Err(why) => {
                let why = if let Unread::Late = why { LATE } else { NO_FILE };
                let reply = self.refuse(cell.slot(), Status::NoResources, why);
                return self.reply_apart(&reply, slot);
            }
        };
        failpoint!("server-read");
        slot.count.come_in(bytes.left() as u64);
        if matches!(cell.place, PayloadPlace::OutOfBand | PayloadPlace::OverflowBuffer) {
            self.was_large();
        }
        let row = match row {
            Ok(row) => row,
            Err(why) => {
                if cell.what() & WITH_INTERFACES != 0 {
                    let _ = bytes.take_interfaces(&self.mailbox, false);
                }
                drop(bytes);
                return self.reply_apart(&self.without_row(cell, why), slot);
            }
        };
        let mut call = IncomingCall::new(self, row, cell.ids, bytes, cell.length as usize);
        let mut failure = None;
        let well = match cell.bounded {
            false => self.dispatch(&mut call, &mut failure),
            true => self.dispatch_bounded(&mut call, cell.slot(), &mut failure),
        };
        self.conclude(&mut call, well, &mut failure, slot);
    }

    #[inline(always)]
    fn conclude(
        &self,
        call: &mut IncomingCall<'_>,
        well: bool,
        failure: &mut Option<Failure>,
        slot: &Served,
    ) {
        match call.replied {
            Replied::Yes if well => self.send(&call.reply, slot),
            Replied::Later => {}
            _ => self.conclude_apart(call, well, failure, slot),
        }
    }

    /// Ends a call that failed, or a measured one with a large result.
    #[cold]
    #[inline(never)]
    fn conclude_apart(
        &self,
        call: &mut IncomingCall<'_>,
        well: bool,
        failure: &mut Option<Failure>,
        slot: &Served,
    ) {
        match call.replied {
            Replied::Large { .. } if well => self.reply_apart(&call.reply, slot),
            _ => self.reply_apart(&self.failed(call, failure.take()), slot),
        }
    }

    /// Has the server stub run a call. Returns whether that succeeded; if not, puts the reason into
    /// `failure`.
    #[inline(always)]
    fn dispatch(&self, call: &mut IncomingCall<'_>, failure: &mut Option<Failure>) -> bool {
        let run = || match call.row.stub.dispatch(call) {
            Ok(()) => true,
            Err(refused) => {
                *failure = Some(Failure::Refused(refused));
                false
            }
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(well) => well,
            Err(panic) => {
                *failure = Some(Failure::Panicked(panic));
                false
            }
        }
    }

    #[cold]
    fn failed(&self, call: &mut IncomingCall<'_>, failure: Option<Failure>) -> Cell {
        call.release_interfaces();
        let slot = call.reply.slot();
        match failure {
            // Nothing is known of what it did.
            None => self.refuse(slot, Status::Panicked, "the server stub made no reply"),
            Some(Failure::Refused(Refused { status, why })) => self.refuse(slot, status, &why),
            Some(Failure::Panicked(panic)) => self.refuse(slot, Status::Panicked, panic_message(&*panic)),
        }
    }

    #[inline(always)]
    fn send(&self, reply: &Cell, slot: &Served) {
        if matches!(reply.place, PayloadPlace::OutOfBand | PayloadPlace::OverflowBuffer)
            && self.holds_large(reply)
        {
            return;
        }
        self.reply(reply, slot);
    }

    /// Posts the reply to a call that failed. Out of line, so that replies are posted in one place
    /// otherwise, which is inlined into the function that runs calls.
    #[cold]
    #[inline(never)]
    fn reply_apart(&self, reply: &Cell, slot: &Served) {
        self.send(reply, slot);
    }

    #[inline(always)]
    fn reply(&self, reply: &Cell, slot: &Served) {
        let inside = self.lock.enter();
        // Before the post, so that a caller that has the reply finds it counted. Next to the change
        // of `by`, as both say which call it is.
        slot.count.out(u64::from(reply.length));
        let doorbell = self.post(reply);
        // These stores come after the post, because stores before the post would delay it (decision
        // 0052).
        slot.ends();
        let left = self.one_less_under_way();
        drop(inside);
        self.posted(doorbell);
        self.call_ended(left);
    }

    /// Posts a reply, under the lock. Returns how the client is to be woken; `None` if the client
    /// has lent the processor.
    #[inline(always)]
    fn post(&self, reply: &Cell) -> Option<Doorbell> {
        // Relaxed: if this line has lent the processor, the calling thread has raised it itself.
        if self.lent.load(Ordering::Relaxed) != 0 && defers_wake_up(self) {
            self.channel.post_on_loan(reply);
            return None;
        }
        Some(self.channel.post(reply))
    }

    /// What remains to be done after a post, without the lock.
    #[inline(always)]
    fn posted(&self, doorbell: Option<Doorbell>) {
        failpoint!("server-replied");
        match doorbell {
            Some(Doorbell::None) if self.unnotified.note() => self.wake_spare_now(),
            None | Some(Doorbell::None) => {}
            Some(doorbell) => self.ring(doorbell),
        }
    }

    /// Posts the reply to a call that an executor runs. Any kernel thread may call it. Only the
    /// domain's own processors wake a spare worker before they sleep, so other kernel threads do it
    /// here.
    pub(crate) fn answer(&self, reply: &Cell) {
        let slot = &self.slots[usize::from(reply.slot())];
        self.send(reply, slot);
        if !on_user_thread() && self.unnotified.take() {
            self.wake_spare_now();
        }
    }

    #[cold]
    fn wake_spare_now(&self) {
        if self.channel.wake_spare() {
            self.kernel.woke();
        }
    }

    #[cold]
    pub(crate) fn refuse(&self, slot: u16, status: Status, why: &str) -> Cell {
        /// The first is enough for a message. The second fits into a cell together with its length;
        /// it is used if the message needs a file and there is none.
        const MOST: [usize; 2] = [1024, INLINE - 1];
        self.mailbox.forget_held(slot);
        let told = MOST.into_iter().find_map(|most| {
            let mut cell = Cell::new(slot, status as u16);
            let why = &why[..why.floor_char_boundary(most)];
            fill::<IN_REPLY, _>(&self.channel, &self.mailbox, &mut cell, why).is_ok().then_some(cell)
        });
        told.unwrap_or_else(|| Cell::new(slot, status as u16))
    }

    #[cold]
    fn ring(&self, doorbell: Doorbell) {
        match doorbell {
            Doorbell::Wake => self.channel.wake_peer(),
            Doorbell::Socket => self.mailbox.ring(),
            Doorbell::None => return,
        }
        failpoint!("server-rung");
        self.kernel.woke();
    }

    /// The reply to a call for which there is no row.
    #[cold]
    fn without_row(&self, cell: &Cell, why: NoRow) -> Cell {
        match why {
            NoRow::Drains => Cell::new(cell.slot(), Status::Closed as u16),
            NoRow::Revoked => self.refuse(cell.slot(), Status::NoBinding, REVOKED),
            NoRow::Closed => Cell::new(cell.slot(), Status::NoBinding as u16),
        }
    }

    /// The client broke the protocol: closes this connection with all of its bindings, which share
    /// the memory in which the client lies, and no other.
    #[cold]
    fn violated(&self) {
        self.close();
    }

    /// The rows of `closing` that calls over this channel use. When the last of these calls ends,
    /// it sweeps the rows of the connection (E2).
    pub(crate) fn uses_of(&self, closing: &HashSet<Tag>) -> Vec<Tag> {
        let _inside = self.lock.enter();
        let used = self.slots.iter().filter_map(|slot| slot.row.uses());
        let used: Vec<_> = used.filter(|tag| closing.contains(tag)).collect();
        self.set_row_waits(!used.is_empty());
        used
    }

    /// Whether a call over this channel uses the row.
    pub(crate) fn uses(&self, tag: Tag) -> bool {
        let inside = self.lock.enter();
        let used = self.slots.iter().any(|slot| slot.row.uses() == Some(tag));
        drop(inside);
        // A call that gives its slot back is entered as late before it leaves the slot.
        used || self.late.uses(tag)
    }

    /// Whether the row is closed, or is another one's by now.
    pub(crate) fn is_closed_row(&self, tag: Tag) -> bool {
        self.rows.is_closed(tag)
    }

    /// Whether the row of the call of `slot` is closed. The caller makes sure that the call has not
    /// ended.
    pub(crate) fn is_row_closed(&self, slot: u16) -> bool {
        let row = self.slots[usize::from(slot)].row.uses();
        row.is_some_and(|tag| self.rows.is_closed(tag))
    }

    /// The binding of the call of `slot`, which is under way.
    pub(crate) fn binding_of(&self, slot: u16) -> Option<Arc<BindingRow>> {
        self.family.row(self.slots[usize::from(slot)].row.uses()?)
    }
}

impl CountedEnd for ServerEnd {
    fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.slots.iter().for_each(|slot| slot.count.add_to(&mut sum));
        sum.served = std::mem::take(&mut sum.calls);
        self.kernel.add_to(&mut sum);
        sum.of_channel(self.further)
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        retire_end(&self.counters());
    }
}

impl std::fmt::Debug for ServerEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerEnd").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
