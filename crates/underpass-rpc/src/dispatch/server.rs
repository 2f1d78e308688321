//! The server's end of a binding: takes calls, runs them, replies.

mod bounded;
mod large;
mod line;
mod refusing;
mod unwanted;

use self::refusing::gate;
use self::unwanted::Unwanted;
pub(crate) use self::unwanted::served;
use crate::binding::family::Family;
use crate::binding::handshake::CpuPlacement;
use crate::binding::limits::ChannelQuota;
use crate::binding::service::Service;
use crate::call::unrung::Unrung;
use crate::control::clerk::clerk;
use crate::control::mailbox::ChannelMailbox;
use crate::control::socket_events::{HandleEvents, SocketEvents};
use crate::counters::{CountedEnd, Counters, KernelCount, SlotCount, retire_end};
use crate::dispatch::incoming::{Dispatch, Incoming, Refused, Replied, Status};
use crate::payload::message::{Bytes, LATE, NO_FILE, Unread, fill};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Weak};
use underpass_channel::layout::SLOTS;
use underpass_channel::{Bell, Cell, Channel, INLINE, Place};
use underpass_os::failpoint;
use underpass_processor::{Keeper, Line, lines};
use underpass_seam::atomic::{AtomicU32, AtomicU64, Ordering};
use underpass_sync::Spin;
use underpass_threads::{insist, invite, lent_by, on_user_thread, panic_message, rouse_all};
use underpass_wire::Descriptor;

/// A number of calls that none come to at once: a new line counts as used.
const FRESH: u32 = u32::MAX;

/// One slot, as the server knows it: what the region says of it is untrusted input.
#[derive(Debug, Default)]
struct Served {
    /// By whom its call is run: the number of a thread, or what [`by`] says. Under the lock, where
    /// it passes from [`by::NOBODY`] and to it.
    by: AtomicU64,
    count: SlotCount,
    /// The procedure of its last call, as the client says. The thread that takes the call writes
    /// it, for people.
    procedure: AtomicU32,
}

impl Served {
    /// Thread `who` runs the next call, of `procedure`. Under the lock, and with no call under way.
    #[inline(always)]
    fn begins(&self, who: u64, procedure: u16) {
        self.by.store(who, Ordering::Relaxed);
        self.procedure.store(procedure.into(), Ordering::Relaxed);
    }

    /// Whether a call is under way.
    fn is_busy(&self) -> bool {
        !matches!(self.by.load(Ordering::Relaxed), by::NOBODY | by::WARY)
    }

    /// Whether thread `who` runs its call, before which `calls` had ended.
    fn is_at(&self, calls: u64, who: u64) -> bool {
        self.by.load(Ordering::Relaxed) == who && self.count.sent() == calls
    }
}

/// Who is no thread.
mod by {
    /// No call is under way.
    pub(crate) const NOBODY: u64 = 0;
    /// No call is under way; the next may be one that nobody waits for any more.
    pub(crate) const WARY: u64 = u64::MAX;
    /// Some executor.
    pub(crate) const LATER: u64 = u64::MAX - 1;
}

/// Why a server stub has made no reply.
enum Failure {
    Refused(Refused),
    Panicked(Box<dyn Any + Send>),
}

/// The server's end of a channel.
#[repr(align(64))] // As the client's: where it lies among the lines is no matter of chance.
pub(crate) struct ServerEnd {
    /// Of the channel's rings, `slots` and `under_way`.
    lock: Spin,
    /// What it does with calls: see [`gate`](refusing::gate).
    gate: AtomicU32,
    /// Calls taken and not answered.
    under_way: AtomicU32,
    channel: Channel,
    mailbox: ChannelMailbox,
    stub: Arc<dyn Dispatch>,
    slots: Arc<[Served]>,
    placement: CpuPlacement,
    /// What it has in common with the other channels of its binding, and whether it is one beside
    /// the first.
    family: Arc<Family>,
    further: bool,
    /// Its user's room for it.
    quota: ChannelQuota,
    keeper: Keeper,
    unrung: Unrung,
    /// Processors on loan from this client.
    lent: AtomicU32,
    /// The CPUs, as bits, whose listeners have said in the region that they listen. Each listener's
    /// own bit.
    listening: AtomicU64,
    kernel: KernelCount,
    /// How many calls had come when `used` was last asked.
    seen: AtomicU32,
    /// Of its interface, for people.
    descriptor: &'static Descriptor,
    /// How many calls had been taken when `stalls` was last asked. The monitor's.
    stalled: AtomicU32,
    /// Of its calls that nobody waits for any more.
    unwanted: Mutex<Unwanted>,
    own: Weak<Self>,
}

impl ServerEnd {
    pub(crate) fn new(
        channel: Channel,
        mailbox: ChannelMailbox,
        service: &Service,
        placement: CpuPlacement,
        family: Arc<Family>,
        quota: ChannelQuota,
    ) -> Arc<Self> {
        let service = (service.descriptor, service.stub.clone());
        Self::beside(false, channel, mailbox, service, placement, family, quota)
    }

    /// The end of one more channel of the same binding.
    pub(crate) fn another(&self, number: u8, channel: Channel, quota: ChannelQuota) -> Arc<Self> {
        let (service, family) = ((self.descriptor, self.stub.clone()), self.family.clone());
        let mailbox = self.mailbox.another(number, quota.annexes());
        Self::beside(true, channel, mailbox, service, self.placement, family, quota)
    }

    fn beside(
        further: bool,
        channel: Channel,
        mailbox: ChannelMailbox,
        (descriptor, stub): (&'static Descriptor, Arc<dyn Dispatch>),
        placement: CpuPlacement,
        family: Arc<Family>,
        quota: ChannelQuota,
    ) -> Arc<Self> {
        family.begins();
        Arc::new_cyclic(|own: &Weak<Self>| {
            mailbox.heard_by(own.clone());
            Self {
                lock: Spin::new(),
                gate: AtomicU32::new(gate::OPEN),
                under_way: AtomicU32::new(0),
                channel,
                mailbox,
                stub,
                slots: (0..SLOTS).map(|_| Served::default()).collect(),
                placement,
                family,
                further,
                quota,
                keeper: Keeper::default(),
                unrung: Unrung::default(),
                lent: AtomicU32::new(0),
                listening: AtomicU64::new(0),
                kernel: KernelCount::default(),
                seen: AtomicU32::new(FRESH),
                descriptor,
                stalled: AtomicU32::new(FRESH),
                unwanted: Mutex::default(),
                own: own.clone(),
            }
        })
    }

    /// To hold on to it.
    pub(crate) fn own(&self) -> Option<Arc<Self>> {
        self.own.upgrade()
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    pub(crate) fn mailbox(&self) -> &ChannelMailbox {
        &self.mailbox
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

    /// Takes no more calls over any channel of the binding. Those under way run on; their results
    /// go nowhere.
    ///
    /// Whoever tells the client does so afterwards: what it then finds untaken never will be taken
    /// (*Not started* in the channel's `README.md`).
    #[cold]
    pub(crate) fn close(&self) {
        if self.gate.swap(gate::CLOSED, Ordering::Relaxed) != gate::CLOSED {
            // Who was inside has taken its call, be it one that came only now; who comes inside
            // sees it closed.
            let idle = self.no_more_begin();
            // Files of calls that will not be served. A call that runs has its own.
            self.mailbox.forget_all();
            self.family.close();
            if idle {
                self.family.rests();
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.gate.load(Ordering::Relaxed) == gate::CLOSED
    }

    /// Whether thread `who` runs a call of this channel.
    pub(crate) fn runs(&self, who: u64) -> bool {
        // Relaxed, both: a thread that is blocked has begun its call, and the monitor has told of
        // it, long after.
        self.under_way.load(Ordering::Relaxed) > 0
            && self.slots.iter().any(|slot| slot.by.load(Ordering::Relaxed) == who)
    }

    /// The client asks for another channel.
    fn asked(&self) {
        let Some(number) = self.family.next_channel_number() else { return self.violated() };
        match clerk() {
            Ok(clerk) if !self.is_closed() => clerk.open(self, number),
            _ => {}
        }
    }

    /// The client asks for a ticket, to pass the binding on.
    #[cold]
    fn share(&self) {
        match clerk() {
            Ok(clerk) if !self.is_closed() => clerk.share(self),
            _ => {}
        }
    }

    /// The client rang over the socket: some processor has to look at this line.
    fn heard(&self) {
        failpoint!("server-heard");
        let own = self.own.upgrade().map(|own| own as Arc<dyn Line>);
        match own.is_some_and(|own| lines::activate(&own)) {
            true => rouse_all(),
            false => invite(),
        }
        // Whoever was called may find no processor free: all may be blocked.
        if self.pending() {
            insist();
        }
    }

    /// Runs a call whose bytes lie in the cell or the A-stack, and which is not bounded, and posts
    /// its reply.
    #[inline(always)]
    fn run(&self, call: &mut Incoming<'_>, failure: &mut Option<Failure>, slot: &Served) {
        failpoint!("server-read");
        slot.count.come_in(call.bytes.left() as u64);
        // Neither the outcome nor the reply is moved: for that, the processor would wait until what
        // it wrote in pieces is out (decision 0021).
        let well = self.dispatch(call, failure);
        self.conclude(call, well, failure, slot);
    }

    /// Runs any other call, and posts its reply.
    #[inline(never)]
    fn run_other(&self, cell: &Cell, slot: &Served) {
        let bytes = match Bytes::of(&self.channel, &self.mailbox, cell) {
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
        if matches!(cell.place, Place::Aside | Place::Annex) {
            self.was_large();
        }
        let (mut call, mut failure) = (Incoming::new(self), None);
        call.comes(cell.ids, bytes);
        call.length = cell.length as usize;
        let well = match cell.bounded {
            false => self.dispatch(&mut call, &mut failure),
            true => self.dispatch_bounded(&mut call, cell.slot(), &mut failure),
        };
        self.conclude(&mut call, well, &mut failure, slot);
    }

    #[inline(always)]
    fn conclude(&self, call: &mut Incoming<'_>, well: bool, failure: &mut Option<Failure>, slot: &Served) {
        match call.replied {
            Replied::Yes if well => self.send(&call.reply, slot),
            Replied::Later => {}
            _ => self.reply_apart(&self.failed(call.reply.slot(), failure.take()), slot),
        }
    }

    /// Has the server stub run a call; says whether that went well, or puts into `failure` why not.
    #[inline(always)]
    fn dispatch(&self, call: &mut Incoming<'_>, failure: &mut Option<Failure>) -> bool {
        let run = || match self.stub.dispatch(call) {
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
    fn failed(&self, slot: u16, failure: Option<Failure>) -> Cell {
        match failure {
            // Nothing is known of what it did.
            None => self.refuse(slot, Status::Panicked, "the server stub made no reply"),
            Some(Failure::Refused(Refused { status, why })) => self.refuse(slot, status, &why),
            Some(Failure::Panicked(panic)) => self.refuse(slot, Status::Panicked, panic_message(&*panic)),
        }
    }

    #[inline(always)]
    fn send(&self, reply: &Cell, slot: &Served) {
        if matches!(reply.place, Place::Aside | Place::Annex) {
            self.was_large();
        }
        self.reply(reply, slot);
    }

    /// Replies that are the error of a call: apart, so that there is one way of all others, and it
    /// goes into the one that runs them.
    #[cold]
    #[inline(never)]
    fn reply_apart(&self, reply: &Cell, slot: &Served) {
        self.send(reply, slot);
    }

    #[inline(always)]
    fn reply(&self, reply: &Cell, slot: &Served) {
        let inside = self.lock.enter();
        // Before the post, so that who has the reply finds it counted; and where `by` changes, as
        // both say which call it is.
        slot.count.out(u64::from(reply.length));
        let bell = self.post(reply);
        // After the post, which waits for what is written before it (decision 0052). Relaxed: under
        // the lock, so that nobody takes the next call over this slot before.
        slot.by.store(by::NOBODY, Ordering::Relaxed);
        let left = self.one_less_under_way();
        drop(inside);
        self.posted(bell);
        self.call_ended(left);
    }

    /// Posts a reply, under the lock; how the client is to be called then, unless it has lent the
    /// processor.
    #[inline(always)]
    fn post(&self, reply: &Cell) -> Option<Bell> {
        // Relaxed: who is lent by this line has raised it itself.
        if self.lent.load(Ordering::Relaxed) != 0 && lent_by(self) {
            self.channel.post_on_loan(reply);
            return None;
        }
        Some(self.channel.post(reply))
    }

    /// What else there is to do after a post, without the lock.
    #[inline(always)]
    fn posted(&self, bell: Option<Bell>) {
        failpoint!("server-replied");
        match bell {
            Some(Bell::Silent) if self.unrung.note() => self.knock_now(),
            None | Some(Bell::Silent) => {}
            Some(bell) => self.ring(bell),
        }
    }

    /// Posts the reply to a call that was handed over, from whatever kernel thread: only the
    /// domain's own processors knock before they sleep.
    pub(crate) fn answer(&self, reply: &Cell) {
        let slot = &self.slots[usize::from(reply.slot())];
        self.send(reply, slot);
        if !on_user_thread() && self.unrung.take() {
            self.knock_now();
        }
    }

    #[cold]
    fn knock_now(&self) {
        if self.channel.knock() {
            self.kernel.woke();
        }
    }

    #[cold]
    pub(crate) fn refuse(&self, slot: u16, status: Status, why: &str) -> Cell {
        /// Enough for a message; and what fits into a cell with its length, should it need a file
        /// that can't be had.
        const MOST: [usize; 2] = [1024, INLINE - 1];
        let told = MOST.into_iter().find_map(|most| {
            let mut cell = Cell::new(slot, status as u16);
            let why = &why[..why.floor_char_boundary(most)];
            fill(&self.channel, &self.mailbox, &mut cell, why).is_ok().then_some(cell)
        });
        told.unwrap_or_else(|| Cell::new(slot, status as u16))
    }

    #[cold]
    fn ring(&self, bell: Bell) {
        match bell {
            Bell::Wake => self.channel.wake_peer(),
            Bell::Socket => self.mailbox.ring(),
            Bell::Silent => return,
        }
        failpoint!("server-rung");
        self.kernel.woke();
    }

    /// The client broke the rules: closes this binding, and no other.
    #[cold]
    fn violated(&self) {
        self.close();
        self.mailbox.close();
    }
}

impl HandleEvents for ServerEnd {
    fn handle(&self, events: SocketEvents) {
        if events.bell {
            // The clerk's, for this line: its wait, two looks at the socket for the byte, and one
            // for more.
            self.kernel.entered(4);
            self.heard();
        }
        if events.unwanted != 0 {
            self.unwanted(events.unwanted);
        }
        for _ in 0..events.asked {
            self.asked();
        }
        for _ in 0..events.shares {
            self.share();
        }
        if events.nonsense || events.opened.is_some() || !events.tickets.is_empty() {
            self.violated();
        }
        if events.gone || events.closing || events.revoked {
            self.close();
        }
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
