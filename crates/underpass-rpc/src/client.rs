//! The client's end of a binding: a call, from the lease of its slot to the taking of its reply.

use crate::counters::{Counted, Counters, KernelCount, bequeath};
use crate::error::{CallError, Outcome};
use crate::handshake::Meeting;
use crate::incoming::Status;
use crate::linkage::{Delivered, Linkage};
use crate::mailbox::{Mailbox, News};
use crate::message::{BLOB_IN, BLOB_OUT, Bytes, NO_FILE, Unread, Unsent, fill};
use crate::queue::Queue;
use crate::unrung::Unrung;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use underpass_channel::layout::CELLS;
use underpass_channel::{Bell, Cell, Channel, Owed, Place, Slot, Slots};
use underpass_os::{barrier, clock, cpu};
use underpass_processor::{Line, lines};
use underpass_seam::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use underpass_threads::{alone, force, rouse_all, wait_on};
use underpass_wire::{Decode, DecodeError, Encode};

/// The client's end of a binding.
///
/// | field | who writes it |
/// |---|---|
/// | `slots`, `linkage` | callers, each its own slot; deliveries under the ring's lock |
/// | `queue` | callers that find all slots leased |
/// | `closed`, `why` | the clerk, or who finds a violation; never reset |
/// | `sleepers` | plain kernel threads around a sleep on this line |
/// | `aside` | who puts the line aside, because it can't sleep on its word |
/// | `dormant`, `seen` | under the lock of the lines |
/// | `unrung` | callers |
pub(crate) struct ClientEnd {
    channel: Channel,
    mailbox: Mailbox,
    slots: Slots,
    linkage: Box<[Linkage]>,
    queue: Queue,
    closed: AtomicBool,
    /// No activation looks at this line.
    dormant: AtomicBool,
    why: Mutex<Option<CallError>>,
    sleepers: AtomicU32,
    aside: AtomicBool,
    unrung: Unrung,
    owed: Owed,
    meeting: Meeting,
    kernel: KernelCount,
    /// How many replies had come when `used` was last asked.
    seen: AtomicU32,
    own: Weak<Self>,
}

/// Gives a slot back, and its bytes with it, whatever happens to the call.
struct Leased<'a> {
    end: &'a ClientEnd,
    slot: Option<Slot>,
}

impl Drop for Leased<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.end.slots.give_back(slot);
            self.end.queue.next();
        }
    }
}

impl ClientEnd {
    pub(crate) fn new(channel: Channel, mailbox: Mailbox, meeting: Meeting) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            channel,
            mailbox,
            slots: Slots::default(),
            linkage: (0..CELLS).map(|_| Linkage::default()).collect(),
            queue: Queue::default(),
            closed: AtomicBool::new(false),
            dormant: AtomicBool::new(false),
            why: Mutex::new(None),
            sleepers: AtomicU32::new(0),
            aside: AtomicBool::new(false),
            unrung: Unrung::default(),
            owed: Owed::default(),
            meeting,
            kernel: KernelCount::default(),
            seen: AtomicU32::new(u32::MAX),
            own: own.clone(),
        })
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Calls a procedure and waits for its result.
    #[inline]
    pub(crate) fn call<A: Encode + ?Sized, R: Decode>(
        &self,
        procedure: u16,
        arguments: &A,
        within: Option<Duration>,
        urgent: bool,
    ) -> Result<R, CallError> {
        let deadline = within.map(clock::deadline_ns);
        let mut leased = self.lease(deadline)?;
        let slot = leased.slot.as_ref().map_or(0, Slot::number);
        let linkage = &self.linkage[usize::from(slot)];
        let cell = fill(&self.channel, &self.mailbox, slot, procedure, arguments).map_err(unsent)?;
        linkage.count.out(A::FIXED.unwrap_or_else(|| arguments.size()) as u64);
        linkage.expect();
        match self.channel.post_and_look(&cell) {
            false => {
                self.unrung.note();
            }
            true => self.server_is_away(urgent),
        }
        if cell.place == Place::Blob {
            self.kernel.entered(BLOB_OUT);
        }
        // After the post, so that either this sees the close or the close sees the call (see `close`); and likewise with `put_away` of the lines.
        if self.closed.load(Ordering::Relaxed) | self.dormant.load(Ordering::Relaxed) {
            self.unsettled();
        }
        if urgent && self.owed() {
            force(&linkage.latch, self, deadline);
        }
        if !wait_on(&linkage.latch, Some(self), deadline) && self.abandon(linkage) {
            // The slot is quarantined until the server answers.
            leased.slot = None;
            return Err(CallError::Deadline);
        }
        let reply = linkage.take(slot).ok_or_else(|| self.reason(Outcome::Unknown))?;
        let result = self.read(&reply, linkage);
        drop(leased);
        result
    }

    #[cold]
    fn unsettled(&self) {
        if self.is_closed() {
            self.lose_all();
        } else if let Some(own) = self.own.upgrade()
            && lines::activate(&(own as Arc<dyn Line>))
        {
            rouse_all();
        }
    }

    #[inline]
    fn lease(&self, deadline: Option<u64>) -> Result<Leased<'_>, CallError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(self.reason(Outcome::NotStarted));
        }
        match self.slots.lease() {
            Some(slot) => Ok(Leased { end: self, slot: Some(slot) }),
            None => self.lease_later(deadline),
        }
    }

    /// All slots are leased: the caller waits its turn.
    #[cold]
    fn lease_later(&self, deadline: Option<u64>) -> Result<Leased<'_>, CallError> {
        let slot = self.queue.wait(deadline, self, || match self.closed.load(Ordering::Relaxed) {
            true => Some(None),
            false => self.slots.lease().map(Some),
        });
        // This thread slept on the line without a call of its own: a bell that it took may have been another's.
        if self.slots.leased(CELLS) > 0 {
            self.rearm();
        }
        match slot {
            Some(Some(slot)) => Ok(Leased { end: self, slot: Some(slot) }),
            Some(None) => Err(self.reason(Outcome::NotStarted)),
            None => Err(CallError::Overloaded),
        }
    }

    #[inline]
    fn read<R: Decode>(&self, reply: &Cell, linkage: &Linkage) -> Result<R, CallError> {
        let heard = || {
            self.poll();
        };
        let mut bytes = match Bytes::of(&self.channel, &self.mailbox, reply, heard) {
            Ok(bytes) => bytes,
            Err(Unread::Violation(e)) => return Err(self.violated(&format!("a reply of which {e}"))),
            Err(Unread::NoFile) => return Err(CallError::NoResources(NO_FILE.to_owned())),
        };
        linkage.count.come_in(bytes.left() as u64);
        if reply.place == Place::Blob {
            self.kernel.entered(BLOB_IN);
        }
        if reply.what != Status::Done as u16 {
            return Err(self.refusal(reply.what, bytes.read().unwrap_or_default()));
        }
        let value = bytes.read();
        match (value, bytes.left()) {
            (Ok(value), 0) => Ok(value),
            (Ok(_), left) => Err(DecodeError::LeftOver(left).into()),
            (Err(e), _) => Err(e.into()),
        }
    }

    #[cold]
    fn refusal(&self, status: u16, text: String) -> CallError {
        match Status::from(status) {
            Some(Status::Panicked) => CallError::Panicked(text),
            Some(Status::BadArguments) => CallError::Decode(text),
            Some(Status::NoResources) => CallError::NoResources(text),
            Some(Status::Done) | None => self.violated("a reply of no known status"),
        }
    }

    /// The server has no processor that looks. If this thread's has nothing else to do, or the call is urgent, it will be donated; else the server is
    /// called onto one of its own, unless that would only take this one away.
    #[cold]
    fn server_is_away(&self, urgent: bool) {
        if urgent || self.meeting.defers || alone() {
            self.owed.note();
        } else {
            self.ring(self.channel.claim());
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

    /// Gives up a call; `false` if its reply is here.
    #[cold]
    fn abandon(&self, linkage: &Linkage) -> bool {
        self.locked(|| linkage.abandon())
    }

    /// Does something under the ring's lock, which no holder keeps for long, and takes what came meanwhile.
    ///
    /// The caller may be on no thread's stack, and gives way to other kernel threads only.
    fn locked<R>(&self, what: impl FnOnce() -> R) -> R {
        let done = loop {
            if let Some(_taking) = self.channel.receiving().try_lock() {
                break what();
            }
            std::thread::yield_now();
        };
        self.poll_all();
        done
    }

    /// Takes all that has come, even if another thread is about to stop taking.
    fn poll_all(&self) {
        while self.channel.receiving().pending() && !self.is_closed() && !self.poll() {
            std::thread::yield_now();
        }
    }

    /// The peer broke the rules: closes the binding.
    #[cold]
    fn violated(&self, what: &str) -> CallError {
        let why = CallError::ProtocolViolation(what.to_owned());
        self.close(why.clone());
        why
    }

    /// Closes the binding: every call under way is lost, and none begins any more.
    ///
    /// A caller stores that it expects a reply, posts, and looks at `closed`; we set `closed` and look at who expects one.
    /// The barrier between reaches the caller's processor, or the caller fences at each post (`Fence`): one sees the other.
    pub(crate) fn close(&self, why: CallError) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.closed.store(true, Ordering::SeqCst);
        barrier::heavy();
        self.lose_all();
        self.queue.all();
        self.mailbox.hang_up();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    #[cold]
    fn lose_all(&self) {
        self.locked(|| {
            for (number, linkage) in self.linkage.iter().enumerate() {
                if linkage.lose() {
                    self.slots.reclaim(number as u16);
                }
            }
        });
    }

    /// Why the binding is closed, for a call of which `outcome` is known.
    #[cold]
    fn reason(&self, outcome: Outcome) -> CallError {
        match &*self.why.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(CallError::ProtocolViolation(what)) => CallError::ProtocolViolation(what.clone()),
            Some(CallError::Closed(_)) => CallError::Closed(outcome),
            _ => CallError::PeerDied(outcome),
        }
    }

    /// Something came over the socket.
    pub(crate) fn news(&self, news: News) {
        if news.bell || news.gone {
            // What the server answered before it died counts.
            self.poll_all();
        }
        if news.bell && self.slots.leased(CELLS) > 0 {
            // The bell was for one of those that wait; the others need theirs again.
            self.rearm();
        }
        if news.nonsense {
            self.violated("nonsense over the socket");
        }
        if news.closing {
            self.poll_all();
            self.close(CallError::Closed(Outcome::Unknown));
        }
        if news.gone {
            self.close(CallError::PeerDied(Outcome::Unknown));
        }
    }

    /// Announces a sleep on behalf of those that sleep already, after a bell of theirs may have gone elsewhere.
    fn rearm(&self) {
        if self.aside.load(Ordering::Relaxed) {
            self.channel.own_attention().set_aside();
        }
        self.channel.own_attention().park(false);
        barrier::heavy();
        self.kernel.entered(1);
        self.poll_all();
    }

    pub(crate) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.linkage.iter().for_each(|linkage| linkage.count.add_to(&mut sum));
        self.kernel.add_to(&mut sum);
        sum
    }
}

#[cold]
fn unsent(e: Unsent) -> CallError {
    match e {
        Unsent::Inconsistent => {
            CallError::Decode("a type whose Encode::size disagrees with its encode".to_owned())
        }
        Unsent::NoResources(e) => CallError::NoResources(e.to_string()),
    }
}

impl Line for ClientEnd {
    #[inline]
    fn poll(&self) -> bool {
        let receiving = self.channel.receiving();
        if !receiving.pending() {
            return false;
        }
        let Some(mut taking) = receiving.try_lock() else { return false };
        let mut taken = 0;
        let damaged = loop {
            // An honest server has no more to say.
            if taken == CELLS {
                break None;
            }
            let cell = match taking.take() {
                Ok(Some(cell)) => cell,
                Ok(None) => break None,
                Err(_) => break Some("a reply that no honest server writes"),
            };
            taken += 1;
            match self.linkage.get(usize::from(cell.slot)).map(|linkage| linkage.deliver(&cell)) {
                Some(Delivered::Taken) => {}
                Some(Delivered::Abandoned) => {
                    if cell.place == Place::Blob {
                        drop(self.mailbox.take(cell.slot, || {}));
                    }
                    self.slots.reclaim(cell.slot);
                    self.queue.next();
                }
                Some(Delivered::Unexpected) | None => break Some("a reply to no call"),
            }
        };
        drop(taking);
        if let Some(what) = damaged
            && !self.is_closed()
        {
            self.violated(what);
        }
        taken > 0
    }

    fn pending(&self) -> bool {
        false
    }

    fn serve(&self) -> bool {
        false
    }

    fn park(&self, others: bool) -> Option<u32> {
        (self.slots.leased(CELLS) > 0).then(|| self.channel.own_attention().park(others))
    }

    fn spare(&self) -> Option<u32> {
        (self.slots.leased(CELLS) > 0).then(|| self.channel.own_attention().spare())
    }

    fn quiet(&self) -> bool {
        self.is_closed() || self.channel.receiving().try_lock().is_some_and(|taking| taking.is_empty())
    }

    fn word(&self) -> &AtomicU32 {
        self.channel.own_attention().word()
    }

    fn look(&self) {
        self.channel.own_attention().look();
        // A kernel thread that sleeps, or announced its sleep in between, must not lose its bell.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.rearm();
        }
    }

    fn set_aside(&self) {
        self.aside.store(true, Ordering::Relaxed);
        self.channel.own_attention().set_aside();
    }

    fn enter(&self) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        self.kernel.slept();
    }

    fn leave(&self, own: u32) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        self.channel.own_attention().look();
        // Whoever waits besides this thread, and may sleep, must not lose its bell; it said so before it slept.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 || self.slots.leased(CELLS) > own {
            self.rearm();
        }
    }

    fn awaits(&self) -> bool {
        self.slots.leased(CELLS) > 0
    }

    fn knock(&self) {
        if self.slots.leased(CELLS) > 0 && self.unrung.take() && self.channel.knock() {
            self.kernel.woke();
        }
    }

    fn used(&self) -> bool {
        // Relaxed: under the lock of the lines.
        let position = self.channel.receiving().position();
        self.seen.swap(position, Ordering::Relaxed) != position
    }

    fn retire(&self) {
        // Relaxed: the barrier of who puts the line away orders it.
        self.dormant.store(true, Ordering::Relaxed);
    }

    fn rests(&self) -> bool {
        self.slots.leased(CELLS) == 0
    }

    fn revive(&self) -> bool {
        if self.is_closed() {
            return false;
        }
        self.dormant.store(false, Ordering::Relaxed);
        // Its next sweep finds it used.
        self.seen.store(self.channel.receiving().position().wrapping_sub(1), Ordering::Relaxed);
        true
    }

    #[inline]
    fn owed(&self) -> bool {
        self.owed.is_noted()
    }

    fn donate(&self) -> bool {
        self.owed.settle();
        let donated = self.channel.donate(cpu::current());
        if donated {
            self.kernel.donated();
        }
        donated
    }

    fn call(&self) {
        self.owed.settle();
        // Where the server has no other processor it shares this one, which is the kernel's to divide.
        if !(self.meeting.defers && self.donate()) {
            self.ring(self.channel.claim());
        }
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

impl Counted for ClientEnd {
    fn counters(&self) -> Counters {
        self.counters()
    }
}

impl Drop for ClientEnd {
    fn drop(&mut self) {
        bequeath(&self.counters());
    }
}

impl std::fmt::Debug for ClientEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientEnd").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
