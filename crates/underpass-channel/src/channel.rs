//! One side's view of a region: where it sends, where it receives, whom it calls and where it is
//! called.

use crate::attention::{Attention, Bell, Fence};
use crate::cell::{Cell, Head};
use crate::donation::{Donation, Donee};
use crate::layout::{
    CALLED, CLIENT_ATTENTION, DONATION_WORDS, DONATIONS, KEPT, LINE, LINES, REPLIES, REQUESTS,
    SERVER_ATTENTION, SLOTS, TAKEN, WANTED,
};
use crate::payload::Payload;
use crate::region::{Region, RegionSink, RegionSource};
use crate::ring::{Damaged, Receiving, Sending};
use crate::wanted::{Taken, Wanted};
use crate::words::Words;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use underpass_os::WakeTimestamp;
use underpass_os::futex::{self, Scope};
use underpass_seam::atomic::{AtomicU32, AtomicU64, Ordering};
use underpass_wire::DecodeError;

/// Which end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Posts requests, takes replies.
    Client,
    /// Takes requests, posts replies.
    Server,
}

/// One end of a channel.
#[derive(Debug)]
pub struct Channel {
    region: Arc<Region>,
    sending: Sending<Region>,
    receiving: Receiving<Region>,
    own_attention: usize,
    peer_attention: usize,
    fence: Fence,
    /// Of the server: the most replies that its client may not have taken. A client knows by
    /// itself; here it has what goes for all numbers.
    untaken: AtomicU32,
}

impl Channel {
    /// The server's end of a fresh region, and the file to hand to the client. `fence` is what both
    /// sides agreed on, `stack` are the bytes of an A-stack, as both know them
    /// ([`layout::stack_of`](crate::layout::stack_of)).
    ///
    /// # Errors
    /// No memory; too many open files; no `memfd` or seals in this kernel.
    pub fn create(fence: Fence, stack: usize) -> io::Result<(Self, OwnedFd)> {
        let (region, file) = Region::create(stack)?;
        Ok((Self::over(region, Side::Server, fence), file))
    }

    /// The client's end of the region in `file`.
    ///
    /// # Errors
    /// `InvalidData` if the file isn't sealed or has another size; no memory.
    pub fn adopt(file: BorrowedFd<'_>, fence: Fence, stack: usize) -> io::Result<Self> {
        Ok(Self::over(Region::adopt(file, stack)?, Side::Client, fence))
    }

    fn over(region: Region, side: Side, fence: Fence) -> Self {
        let region = Arc::new(region);
        let (to, from, own_attention, peer_attention, untaken) = match side {
            Side::Client => (REQUESTS, REPLIES, CLIENT_ATTENTION, SERVER_ATTENTION, u32::MAX),
            Side::Server => (REPLIES, REQUESTS, SERVER_ATTENTION, CLIENT_ATTENTION, 0),
        };
        const { assert!(LINE.is_multiple_of(8)) };
        Self {
            sending: Sending::new(region.clone(), to / 8, LINES),
            receiving: Receiving::new(region.clone(), from / 8, LINES),
            region,
            own_attention,
            peer_attention,
            fence,
            untaken: AtomicU32::new(untaken),
        }
    }

    /// What both sides agreed on.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Posts a message, and says how the peer must be called, if it must. One at a time, here and
    /// below: callers have a lock.
    #[inline(always)]
    pub fn post(&self, cell: &Cell) -> Bell {
        self.send(cell);
        self.peer().after_post(self.fence)
    }

    /// Of the client: posts a request while `others` calls are under way, and only says whether the
    /// peer must be called: the caller sees to that later, by [`claim`](Self::claim).
    #[inline(always)]
    pub fn post_and_look(&self, cell: &Cell, others: u32) -> bool {
        self.sending.post(cell, others);
        self.peer().is_away(self.fence)
    }

    /// Posts a message on a processor that the peer has donated: it is called when that goes back,
    /// by [`recall`](Self::recall).
    #[inline]
    pub fn post_on_loan(&self, cell: &Cell) {
        self.send(cell);
    }

    #[inline(always)]
    fn send(&self, cell: &Cell) {
        // Relaxed, here and in `take`: callers have a lock.
        let untaken = self.untaken.load(Ordering::Relaxed);
        self.sending.post(cell, untaken);
        self.untaken.store(untaken.saturating_add(1), Ordering::Relaxed);
    }

    /// Of the server: the most replies that may be untaken, with those that were posted since the
    /// last request; a hint without the lock.
    #[inline]
    pub fn untaken(&self) -> u32 {
        self.untaken.load(Ordering::Relaxed)
    }

    /// Of the server: takes the next request, whose bytes in the cell are put into `payload`; gives
    /// its head, if one had come. It tells how many replies may be untaken: no more than other
    /// calls were under way.
    ///
    /// # Errors
    /// The cell has no meaning. The binding is to be closed.
    #[inline(always)]
    pub fn take(&self, payload: &mut Payload) -> Result<Option<Head>, Damaged> {
        let head = self.receiving.take(payload)?;
        if let Some(head) = head {
            self.untaken.store(head.behind(), Ordering::Relaxed);
        }
        Ok(head)
    }

    /// How many messages have been posted, modulo 2³²: a hint, for who asks whether anything was
    /// since.
    pub fn posted(&self) -> u32 {
        self.sending.position()
    }

    /// How the peer is to be called, if nobody else does.
    pub fn claim(&self) -> Bell {
        self.peer().claim()
    }

    /// *Return, L6:* how the peer is to be called whose processor of `cpu` goes back. One that
    /// gives way, and that nobody else waits beside, need not be. The listener looks for the next
    /// before it sleeps, if it `stays`.
    pub fn recall(&self, cpu: usize, stays: bool) -> Bell {
        let gives_way = self.donation(cpu).is_some_and(|donation| donation.give_back(stays));
        match gives_way && !self.peer().is_away(self.fence) {
            true => Bell::Silent,
            false => self.peer().recall(),
        }
    }

    /// The donation word of `cpu`, if there is one.
    pub fn donation(&self, cpu: usize) -> Option<Donation<'_>> {
        (cpu < DONATION_WORDS).then(|| Donation::new(self.region.attention(DONATIONS + 4 * cpu)))
    }

    /// *Donate:* calls the peer's listener of `cpu`, for a processor whose owner then sleeps; says
    /// whether it takes it, and had to be woken. After a post, for it.
    pub fn donate(&self, cpu: usize) -> Option<Donee> {
        self.call_listener(cpu, |word| word.donate())
    }

    /// As [`donate`](Self::donate), for a processor whose owner gives way.
    pub fn give_way(&self, cpu: usize) -> Option<Donee> {
        self.call_listener(cpu, |word| word.give_way())
    }

    #[inline]
    fn call_listener(&self, cpu: usize, by: impl Fn(&Donation<'_>) -> Option<Donee>) -> Option<Donee> {
        // A word that still says that somebody listens may be nobody's any more.
        if self.peer().is_dormant() {
            return None;
        }
        let donation = self.donation(cpu)?;
        let donee = by(&donation)?;
        if donee == Donee::Asleep {
            futex::wake(donation.word(), Scope::Shared, 1);
        }
        Some(donee)
    }

    #[inline]
    fn peer(&self) -> Attention<'_> {
        Attention::new(self.region.attention(self.peer_attention))
    }

    /// The receiving end.
    #[inline]
    pub fn receiving(&self) -> &Receiving<Region> {
        &self.receiving
    }

    /// Where this side says whether it looks.
    #[inline]
    pub fn own_attention(&self) -> Attention<'_> {
        Attention::new(self.region.attention(self.own_attention))
    }

    /// When and from where the peer last woke a processor of this side, as it says.
    pub fn called(&self) -> WakeTimestamp {
        WakeTimestamp::of(self.region.word((self.own_attention + CALLED) / 8).load(Ordering::Relaxed))
    }

    /// Wakes one processor of the peer that sleeps on its attention: what [`Bell::Wake`] asks for.
    pub fn wake_peer(&self) {
        // Relaxed, here and in `called`: a measurement.
        self.region
            .word((self.peer_attention + CALLED) / 8)
            .store(WakeTimestamp::shared().bits(), Ordering::Relaxed);
        futex::wake(self.region.attention(self.peer_attention), Scope::Shared, 1);
    }

    /// Calls a spare processor of the peer, if one sleeps while the other is slow; says whether it
    /// did.
    pub fn wake_spare(&self) -> bool {
        let woken = self.peer().wake_spare();
        if woken {
            self.wake_peer();
        }
        woken
    }

    /// How many requests the server says it has taken.
    #[inline]
    pub fn taken(&self) -> Taken<'_> {
        Taken::new(self.region.word(TAKEN / 8))
    }

    /// How long the client wants the call of `slot`, if that is bounded.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn wanted(&self, slot: u16) -> Wanted<'_> {
        assert!(u32::from(slot) < SLOTS, "there is no slot {slot}");
        Wanted::new(self.region.word(WANTED / 8 + usize::from(slot)))
    }

    /// Of the client: the number of the annex of `slot` that the server says it has mapped; 0 if it
    /// has none.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn kept(&self, slot: u16) -> u16 {
        // Relaxed: the reply brought it, and the client looks between two calls. The server knows
        // by itself, and reads nothing here.
        self.kept_word(slot).load(Ordering::Relaxed) as u16
    }

    /// Of the server: has mapped the annex of `slot` that has this number. Before the reply to the
    /// slot's call.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn keep(&self, slot: u16, number: u16) {
        // Relaxed: the reply publishes it.
        self.kept_word(slot).store(number.into(), Ordering::Relaxed);
    }

    fn kept_word(&self, slot: u16) -> &AtomicU64 {
        assert!(u32::from(slot) < SLOTS, "there is no slot {slot}");
        self.region.word(KEPT / 8 + usize::from(slot))
    }

    /// Of the client: whether the server has not taken the request of `slot`, whose call is under
    /// way. *Never will* follows only where the server takes none any more, or the call is not
    /// wanted any more and the barrier between has been passed (see `README.md`, *Not started*).
    pub fn is_untaken(&self, slot: u16) -> bool {
        self.sending.is_behind(slot, self.taken().count())
    }

    /// Bytes of an A-stack.
    #[inline]
    pub fn stack(&self) -> usize {
        self.region.stack_size()
    }

    /// Writes into the A-stack of `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn stack_sink(&self, slot: u16) -> RegionSink<'_> {
        self.region.stack_sink(slot)
    }

    /// Sends `len` bytes that were written into the A-stack of `slot` on towards a peer on another
    /// processor: a hint.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn send_on_stack(&self, slot: u16, len: usize) {
        self.region.send_on_stack(slot, len);
    }

    /// Reads `len` bytes from the A-stack of `slot`.
    ///
    /// # Errors
    /// The A-stack has less: no honest peer says so.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn stack_source(&self, slot: u16, len: usize) -> Result<RegionSource<'_>, DecodeError> {
        self.region.stack_source(slot, len)
    }
}
