//! The server's end of a binding: takes calls, runs them, replies.

use crate::counters::{Counted, Counters, KernelCount, SlotCount, bequeath};
use crate::handshake::Meeting;
use crate::incoming::{Dispatch, Incoming, Refused, Status};
use crate::mailbox::{Mailbox, News};
use crate::message::{BLOB_IN, BLOB_OUT, Bytes, NO_FILE, Unread, fill};
use crate::unrung::Unrung;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use underpass_channel::layout::SLOTS;
use underpass_channel::{Bell, Cell, Channel, Place};
use underpass_processor::{Line, lines};
use underpass_seam::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use underpass_sync::Spin;
use underpass_threads::{invite, lent_by, panic_message, rouse_all};

/// A number of calls that none come to at once: a new line counts as used.
const FRESH: u32 = u32::MAX;

/// One slot, as the server knows it: what the region says of it is an allegation.
#[derive(Debug, Default)]
struct Served {
    /// A call is under way. Under the lock.
    busy: AtomicBool,
    count: SlotCount,
}

/// The server's end of a binding.
pub(crate) struct ServerEnd {
    /// Of the channel's rings and `slots`.
    lock: Spin,
    channel: Channel,
    mailbox: Mailbox,
    stub: Arc<dyn Dispatch>,
    slots: Box<[Served]>,
    closed: AtomicBool,
    meeting: Meeting,
    unrung: Unrung,
    /// Processors on loan from this client.
    lent: AtomicU32,
    /// The CPUs, as bits, whose listeners have said in the region that they listen. Each listener's own bit.
    listening: AtomicU64,
    kernel: KernelCount,
    /// How many calls had come when `used` was last asked.
    seen: AtomicU32,
    own: Weak<Self>,
}

impl ServerEnd {
    pub(crate) fn new(
        channel: Channel,
        mailbox: Mailbox,
        stub: Arc<dyn Dispatch>,
        meeting: Meeting,
    ) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            lock: Spin::new(),
            channel,
            mailbox,
            stub,
            slots: (0..SLOTS).map(|_| Served::default()).collect(),
            closed: AtomicBool::new(false),
            meeting,
            unrung: Unrung::default(),
            lent: AtomicU32::new(0),
            listening: AtomicU64::new(0),
            kernel: KernelCount::default(),
            seen: AtomicU32::new(FRESH),
            own: own.clone(),
        })
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Serves no more calls. Those under way run on; their results go nowhere.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Something came over the socket.
    pub(crate) fn news(&self, news: News) {
        if news.bell {
            self.heard();
        }
        if news.nonsense || news.gone || news.closing {
            self.close();
        }
    }

    /// The client rang over the socket: some processor has to look at this line.
    fn heard(&self) {
        let own = self.own.upgrade().map(|own| own as Arc<dyn Line>);
        match own.is_some_and(|own| lines::activate(&own)) {
            true => rouse_all(),
            false => invite(),
        }
    }

    /// Runs a call and posts its reply.
    #[inline(always)]
    fn run(&self, cell: &Cell, slot: &Served) {
        let bytes = match Bytes::of(&self.channel, &self.mailbox, cell, || self.heard()) {
            Ok(bytes) => bytes,
            Err(Unread::Violation(_)) => return self.violated(),
            Err(Unread::NoFile) => {
                let reply = self.refuse(cell.slot, Status::NoResources, NO_FILE);
                return self.reply(&reply, slot);
            }
        };
        slot.count.come_in(bytes.left() as u64);
        if cell.place == Place::Blob {
            self.kernel.entered(BLOB_IN);
        }
        let mut call = Incoming::new(self, cell, bytes);
        let outcome = catch_unwind(AssertUnwindSafe(|| self.stub.dispatch(&mut call)));
        match outcome {
            // Posted from where it was written: to move it, the processor would wait until what it wrote in pieces is out (decision 0021).
            Ok(Ok(())) if call.replied => self.send(&call.reply, slot),
            failed => self.send(&self.failed(cell.slot, failed), slot),
        }
    }

    #[cold]
    fn failed(&self, slot: u16, outcome: std::thread::Result<Result<(), Refused>>) -> Cell {
        match outcome {
            Ok(Ok(())) => self.refuse(slot, Status::BadArguments, "the server stub made no reply"),
            Ok(Err(Refused { status, why })) => self.refuse(slot, status, &why),
            Err(panic) => self.refuse(slot, Status::Panicked, panic_message(&*panic)),
        }
    }

    #[inline(always)]
    fn send(&self, reply: &Cell, slot: &Served) {
        slot.count.out(u64::from(reply.length));
        if reply.place == Place::Blob {
            self.kernel.entered(BLOB_OUT);
        }
        self.reply(reply, slot);
    }

    #[inline]
    fn reply(&self, reply: &Cell, slot: &Served) {
        let inside = self.lock.enter();
        // Relaxed: under the lock.
        slot.busy.store(false, Ordering::Relaxed);
        // Relaxed: who is lent by this line has raised it itself.
        if self.lent.load(Ordering::Relaxed) != 0 && lent_by(self) {
            return self.channel.post_on_loan(reply);
        }
        let bell = self.channel.post(reply);
        drop(inside);
        match bell {
            Bell::Silent if self.unrung.note() => self.knock_now(),
            Bell::Silent => {}
            bell => self.ring(bell),
        }
    }

    #[cold]
    fn knock_now(&self) {
        if self.channel.knock() {
            self.kernel.woke();
        }
    }

    #[cold]
    fn refuse(&self, slot: u16, status: Status, why: &str) -> Cell {
        /// Enough for a message, and sure to fit into an A-stack.
        const MOST: usize = 1024;
        let mut end = why.len().min(MOST);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        let mut cell = Cell::new(slot, status as u16);
        match fill(&self.channel, &self.mailbox, &mut cell, &why[..end]) {
            Ok(()) => cell,
            Err(_) => Cell::new(slot, status as u16),
        }
    }

    #[cold]
    fn ring(&self, bell: Bell) {
        match bell {
            Bell::Wake => self.channel.wake_peer(),
            Bell::Socket => self.mailbox.ring(),
            Bell::Silent => return,
        }
        self.kernel.woke();
    }

    /// The client broke the rules: closes this binding, and no other.
    #[cold]
    fn violated(&self) {
        self.close();
        self.mailbox.close();
    }

    pub(crate) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.slots.iter().for_each(|slot| slot.count.add_to(&mut sum));
        sum.served = std::mem::take(&mut sum.calls);
        self.kernel.add_to(&mut sum);
        sum
    }
}

impl Line for ServerEnd {
    #[inline]
    fn poll(&self) -> bool {
        false
    }

    #[inline]
    fn pending(&self) -> bool {
        self.channel.receiving().pending() && !self.is_closed()
    }

    fn backlog(&self) -> bool {
        self.channel.receiving().backlog() && !self.is_closed()
    }

    #[inline]
    fn serve(&self) -> bool {
        let receiving = self.channel.receiving();
        if !receiving.pending() || self.is_closed() {
            return false;
        }
        let Some(inside) = self.lock.try_enter() else { return false };
        let mut cell = Cell::new(0, 0);
        let slot = match receiving.take(&mut cell) {
            Ok(false) => return false,
            Ok(true) => self.slots.get(usize::from(cell.slot)),
            Err(_) => None,
        };
        // Relaxed, both: under the lock.
        let slot = slot.filter(|slot| !slot.busy.load(Ordering::Relaxed));
        slot.inspect(|slot| slot.busy.store(true, Ordering::Relaxed));
        drop(inside);
        let Some(slot) = slot else {
            // A slot that there isn't, or that has a call under way; or a cell without a meaning.
            self.violated();
            return false;
        };
        self.run(&cell, slot);
        true
    }

    fn park(&self, others: bool) -> Option<u32> {
        Some(self.channel.own_attention().park(others))
    }

    fn spare(&self) -> Option<u32> {
        Some(self.channel.own_attention().spare())
    }

    fn quiet(&self) -> bool {
        self.is_closed() || self.lock.try_enter().is_some_and(|_inside| !self.channel.receiving().pending())
    }

    fn word(&self) -> &AtomicU32 {
        self.channel.own_attention().word()
    }

    fn look(&self) {
        self.channel.own_attention().look();
    }

    fn set_aside(&self) {
        self.channel.own_attention().set_aside();
    }

    fn knock(&self) {
        // One processor of the client's may be busy with a thread, while another sleeps whose threads wait for replies.
        if self.unrung.take() {
            self.knock_now();
        }
    }

    fn used(&self) -> bool {
        // Relaxed: under the lock of the lines.
        let position = self.channel.receiving().position();
        self.seen.swap(position, Ordering::Relaxed) != position
    }

    fn retire(&self) {
        self.channel.own_attention().retire();
        self.unrung.retire();
    }

    fn rests(&self) -> bool {
        if self.unrung.take_left() {
            self.knock_now();
        }
        self.quiet()
    }

    fn revive(&self) -> bool {
        if self.is_closed() {
            return false;
        }
        self.channel.own_attention().revive();
        self.unrung.revive();
        // Its next sweep finds it used.
        self.seen.store(self.channel.receiving().position().wrapping_sub(1), Ordering::Relaxed);
        true
    }

    fn listen(&self, cpu: usize) -> Option<(&AtomicU32, u32)> {
        let donation = self.channel.donation(cpu).filter(|_| !self.is_closed())?;
        // Relaxed, here and below: the listener's own bit.
        let bit = 1 << cpu;
        if self.listening.fetch_or(bit, Ordering::Relaxed) & bit != 0 && donation.came() {
            // It came in between: a value that the word doesn't hold.
            return Some((donation.word(), !donation.word().load(Ordering::Relaxed)));
        }
        Some((donation.word(), donation.listen()))
    }

    fn ignore(&self, cpu: usize) -> bool {
        let Some(donation) = self.channel.donation(cpu) else { return true };
        let bit = 1 << cpu;
        let withdrawn = self.listening.load(Ordering::Relaxed) & bit == 0 || donation.withdraw();
        if withdrawn {
            self.listening.fetch_and(!bit, Ordering::Relaxed);
        }
        withdrawn
    }

    fn came(&self, cpu: usize) -> bool {
        let Some(donation) = self.channel.donation(cpu) else { return false };
        let bit = 1 << cpu;
        let came = self.listening.load(Ordering::Relaxed) & bit != 0 && donation.came();
        if came {
            self.listening.fetch_and(!bit, Ordering::Relaxed);
        }
        came
    }

    fn borrow(&self) {
        self.kernel.borrowed();
        // Relaxed, here and below: whom it concerns is the listener itself.
        self.lent.fetch_add(1, Ordering::Relaxed);
    }

    fn hand_back(&self) {
        self.lent.fetch_sub(1, Ordering::Relaxed);
        self.kernel.returned();
        self.ring(self.channel.recall());
    }

    fn spun(&self, paid: bool) {
        self.kernel.spun(paid);
    }

    fn elsewhere(&self) -> bool {
        self.meeting.elsewhere
    }

    fn shares(&self) -> bool {
        self.meeting.shares
    }
}

impl Counted for ServerEnd {
    fn counters(&self) -> Counters {
        self.counters()
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        bequeath(&self.counters());
    }
}

impl std::fmt::Debug for ServerEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerEnd").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
