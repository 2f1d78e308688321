//! The client's end of a binding: a call, from the lease of its slot to the taking of its reply.

use crate::answer::{Answer, Results, read_whole};
use crate::counters::{Counted, Counters, KernelCount, bequeath};
use crate::error::{CallError, Outcome};
use crate::handshake::Meeting;
use crate::linkage::{Delivered, Linkage};
use crate::mailbox::{Mailbox, News};
use crate::message::{BLOB_OUT, Unsent, fill};
use crate::queue::Queue;
use crate::unrung::Unrung;
use crate::waiting::{Reply, wake};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use underpass_channel::layout::SLOTS;
use underpass_channel::{Bell, Cell, Channel, Owed, Payload, Place, Slot, Slots};
use underpass_os::{barrier, clock, cpu};
use underpass_processor::{Line, lines};
use underpass_seam::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use underpass_sync::{Inside, Spin};
use underpass_threads::{alone, force, rouse_all, wait_on};
use underpass_wire::{Decode, DecodeError, Encode};

/// The client's end of a binding.
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
pub(crate) struct ClientEnd {
    lock: Spin,
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

/// How a call is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) within: Option<Duration>,
    /// Forces a donation.
    pub(crate) urgent: bool,
}

/// Replies that are taken under the lock before those who wait for them are woken.
const BATCH: usize = 16;

impl ClientEnd {
    pub(crate) fn new(channel: Channel, mailbox: Mailbox, meeting: Meeting) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            lock: Spin::new(),
            channel,
            mailbox,
            slots: Slots::default(),
            linkage: (0..SLOTS).map(|_| Linkage::default()).collect(),
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

    /// Something came over the socket while a blob was waited for.
    pub(crate) fn hear(&self) {
        self.poll_all();
    }

    /// The lock: of rings, slots and linkage records. Held for some instructions, in which nothing is waited for and nothing of a user's runs.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Inside<'_> {
        self.lock.enter()
    }

    #[inline(always)]
    pub(crate) fn give_back(&self, slot: Slot) {
        let inside = self.lock();
        self.slots.give_back(slot);
        drop(inside);
        self.queue.next();
    }

    /// Calls a procedure and waits for its result; one that never came is `failed`.
    ///
    /// A result that went well is made where the caller of this wants it, and is moved no more: to read in one piece what was just written in
    /// several, the processor waits until all it has written before is out, the request too, whose line the server may have (decision 0021).
    #[inline(always)]
    pub(crate) fn call<A: Encode + ?Sized, R: Decode + Results<Value: Decode>>(
        &self,
        procedure: u16,
        arguments: &A,
        terms: Terms,
        failed: impl FnOnce(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        let mut answer = Answer { end: self, slot: None, number: 0 };
        if let Err(error) = self.exchange(&mut answer, procedure, arguments, terms) {
            return Err(failed(*error));
        }
        let mut payload = Payload::new();
        let Some(len) = answer.brief(&mut payload) else {
            return answer.read::<R>().unwrap_or_else(|e| Err(failed(*e)));
        };
        answer.finish();
        let bytes = &payload.0[..len];
        // What a `Result` begins with.
        let Some((0, mut left)) = bytes.split_first() else {
            return read_whole::<R>(bytes).unwrap_or_else(|e| Err(failed(*e)));
        };
        match R::Value::decode(&mut left) {
            Ok(value) if left.is_empty() => Ok(value),
            Ok(_) => Err(failed(DecodeError::LeftOver(left.len()).into())),
            Err(e) => Err(failed(e.into())),
        }
    }

    /// Sends a call and waits for its answer.
    #[inline(always)]
    fn exchange<A: Encode + ?Sized>(
        &self,
        answer: &mut Answer<'_>,
        procedure: u16,
        arguments: &A,
        terms: Terms,
    ) -> Result<(), Box<CallError>> {
        let deadline = terms.within.map(clock::deadline_ns);
        if self.is_closed() {
            return Err(self.reason(Outcome::NotStarted));
        }
        let slot = match self.try_lease() {
            Some(slot) => slot,
            None => self.lease_later(deadline)?,
        };
        let number = slot.number();
        (answer.slot, answer.number) = (Some(slot), number);
        let linkage = self.linkage(number);
        let mut cell = Cell::new(number, procedure);
        if let Err(e) = fill(&self.channel, &self.mailbox, &mut cell, arguments) {
            return Err(unsent(e));
        }
        linkage.count.out(A::FIXED.unwrap_or_else(|| arguments.size()) as u64);
        linkage.expect();
        let inside = self.lock();
        let away = self.channel.post_and_look(&cell);
        drop(inside);
        match away {
            false => {
                self.unrung.note();
            }
            true => self.server_is_away(terms.urgent),
        }
        if cell.place == Place::Blob {
            self.kernel.entered(BLOB_OUT);
        }
        // After the post, so that either this sees the close or the close sees the call (see `close`); and likewise with `put_away` of the lines.
        if self.closed.load(Ordering::Relaxed) | self.dormant.load(Ordering::Relaxed) {
            self.unsettled();
        }
        let reply = Reply { end: self, linkage };
        if terms.urgent && self.owed() {
            force(&reply, self, deadline);
        }
        if !wait_on(&reply, Some(self), deadline) && self.abandon(linkage) {
            // The slot is quarantined until the server answers.
            answer.slot = None;
            return Err(Box::new(CallError::Deadline));
        }
        Ok(())
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

    #[inline(always)]
    fn try_lease(&self) -> Option<Slot> {
        let _inside = self.lock();
        self.slots.lease()
    }

    /// All slots are leased: the caller waits its turn.
    #[cold]
    fn lease_later(&self, deadline: Option<u64>) -> Result<Slot, Box<CallError>> {
        let slot = self.queue.wait(deadline, self, || match self.closed.load(Ordering::Relaxed) {
            true => Some(None),
            false => self.try_lease().map(Some),
        });
        // This thread slept on the line without a call of its own: a bell that it took may have been another's.
        if self.slots.leased(SLOTS) > 0 {
            self.rearm();
        }
        match slot {
            Some(Some(slot)) => Ok(slot),
            Some(None) => Err(self.reason(Outcome::NotStarted)),
            None => Err(Box::new(CallError::Overloaded)),
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
        let inside = self.lock();
        let abandoned = linkage.abandon();
        drop(inside);
        abandoned
    }

    /// Takes all that has come, also if another thread is about to stop taking.
    fn poll_all(&self) {
        self.take_replies(|| Some(self.lock()));
    }

    /// Takes replies as long as there are some and `enter` gives the lock; says whether any came.
    #[inline]
    fn take_replies<'a>(&'a self, enter: impl Fn() -> Option<Inside<'a>>) -> bool {
        let (mut taken, mut more) = (0, !self.is_closed());
        let mut cell = Cell::new(0, 0);
        // An honest server has no more to say than there are slots.
        while more && taken < SLOTS {
            let Some(inside) = enter() else { break };
            let mut woken = [None; BATCH];
            let (mut abandoned, mut damaged) = (false, None);
            for one in &mut woken {
                match self.channel.receiving().take(&mut cell) {
                    Ok(true) => {}
                    Ok(false) => {
                        more = false;
                        break;
                    }
                    Err(_) => {
                        damaged = Some("a reply that no honest server writes");
                        break;
                    }
                }
                taken += 1;
                match self.linkage.get(usize::from(cell.slot)).map(|linkage| linkage.deliver(&cell)) {
                    Some(Delivered::Taken(who)) => *one = who,
                    Some(Delivered::Abandoned) => {
                        abandoned = true;
                        break;
                    }
                    Some(Delivered::Unexpected) | None => {
                        damaged = Some("a reply to no call");
                        break;
                    }
                }
            }
            drop(inside);
            woken.into_iter().flatten().for_each(wake);
            if abandoned {
                self.reclaim(&cell);
            }
            if let Some(what) = damaged {
                self.violated(what);
                break;
            }
        }
        taken > 0
    }

    /// The reply to a call that was given up has come.
    #[cold]
    fn reclaim(&self, cell: &Cell) {
        if cell.place == Place::Blob {
            drop(self.mailbox.take(cell.slot, || {}));
        }
        let inside = self.lock();
        self.slots.reclaim(cell.slot);
        drop(inside);
        self.queue.next();
    }

    /// The peer broke the rules: closes the binding.
    #[cold]
    pub(crate) fn violated(&self, what: &str) -> CallError {
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
        for (number, linkage) in self.linkage.iter().enumerate() {
            let inside = self.lock();
            let lost = linkage.lose();
            if let Delivered::Abandoned = lost {
                self.slots.reclaim(number as u16);
            }
            drop(inside);
            if let Delivered::Taken(Some(who)) = lost {
                wake(who);
            }
        }
    }

    /// Why the binding is closed, for a call of which `outcome` is known.
    #[cold]
    pub(crate) fn reason(&self, outcome: Outcome) -> Box<CallError> {
        Box::new(match &*self.why.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(CallError::ProtocolViolation(what)) => CallError::ProtocolViolation(what.clone()),
            Some(CallError::Closed(_)) => CallError::Closed(outcome),
            _ => CallError::PeerDied(outcome),
        })
    }

    /// Something came over the socket.
    pub(crate) fn news(&self, news: News) {
        if news.bell || news.gone {
            // What the server answered before it died counts.
            self.poll_all();
        }
        if news.bell && self.slots.leased(SLOTS) > 0 {
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
fn unsent(e: Unsent) -> Box<CallError> {
    Box::new(match e {
        Unsent::Inconsistent => {
            CallError::Decode("a type whose Encode::size disagrees with its encode".to_owned())
        }
        Unsent::NoResources(e) => CallError::NoResources(e.to_string()),
    })
}

impl Line for ClientEnd {
    #[inline]
    fn poll(&self) -> bool {
        self.channel.receiving().pending() && self.take_replies(|| self.lock.try_enter())
    }

    fn pending(&self) -> bool {
        false
    }

    fn serve(&self) -> bool {
        false
    }

    fn park(&self, others: bool) -> Option<u32> {
        (self.slots.leased(SLOTS) > 0).then(|| self.channel.own_attention().park(others))
    }

    fn spare(&self) -> Option<u32> {
        (self.slots.leased(SLOTS) > 0).then(|| self.channel.own_attention().spare())
    }

    fn quiet(&self) -> bool {
        self.is_closed() || self.lock.try_enter().is_some_and(|_inside| !self.channel.receiving().pending())
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
        if self.sleepers.load(Ordering::SeqCst) > 0 || self.slots.leased(SLOTS) > own {
            self.rearm();
        }
    }

    fn insists(&self) -> bool {
        self.meeting.defers && self.slots.leased(SLOTS) > 0
    }

    fn awaits(&self) -> bool {
        self.slots.leased(SLOTS) > 0
    }

    fn knock(&self) {
        if self.slots.leased(SLOTS) > 0 && self.unrung.take() && self.channel.knock() {
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
        self.slots.leased(SLOTS) == 0
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
