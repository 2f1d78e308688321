//! One side's view of a region: the ring that it posts to, the ring that it takes from, and the
//! words by which each side wakes the other.

use crate::attention::{Attention, Doorbell, Fence};
use crate::cancel_word::{CancelWord, SectionWords, TakenCount};
use crate::cell::{Cell, Head, PayloadPlace};
use crate::copy_counts;
use crate::donation::{Donation, Donee};
use crate::layout::{
    CANCEL_WORDS, CLIENT_ATTENTION, DONATION_WORDS, DONATIONS, LINE, LINES, MAPPED_OVERFLOW, REPLIES,
    REQUESTS, SECTION_NUMBERS, SECTIONS, SERVER_ATTENTION, SLOTS, TAKEN,
};
use crate::payload::Payload;
use crate::region::{Region, RegionSink, RegionSource};
use crate::ring::{Malformed, Receiving, Sending};
use crate::ring_memory::RingMemory;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use underpass_os::futex::{self, FutexScope};
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
    /// On the server's side: upper bound on the replies that the client has not taken. A client
    /// knows that number itself, and has a value here that is right for any number.
    untaken: AtomicU32,
}

impl Channel {
    /// The server's end of a fresh region, and the file to pass to the client. Both sides have
    /// agreed on `fence`. `stack` is the number of bytes of an A-stack, as both sides compute it
    /// ([`layout::stack_of`](crate::layout::stack_of)).
    ///
    /// # Errors
    /// No memory; too many open files; a kernel without `memfd` or seals.
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

    /// The client's end of a fresh region, and the file to pass to the server. In the reverse
    /// channel of a connection, the connection's server is the client, so it makes the region.
    ///
    /// # Errors
    /// The same as of [`create`](Self::create).
    pub fn create_reverse(fence: Fence, stack: usize) -> io::Result<(Self, OwnedFd)> {
        let (region, file) = Region::create(stack)?;
        Ok((Self::over(region, Side::Client, fence), file))
    }

    /// The server's end of the region in `file`, which [`create_reverse`](Self::create_reverse) has
    /// made.
    ///
    /// # Errors
    /// The same as of [`adopt`](Self::adopt).
    pub fn adopt_reverse(file: BorrowedFd<'_>, fence: Fence, stack: usize) -> io::Result<Self> {
        Ok(Self::over(Region::adopt(file, stack)?, Side::Server, fence))
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

    /// The fence that both sides agreed on.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Posts a message, and returns how the peer must be notified. Callers of this function and
    /// those below hold the lock of their end.
    #[inline(always)]
    pub fn post(&self, cell: &Cell) -> Doorbell {
        self.send(cell);
        self.peer().after_post(self.fence)
    }

    /// For a client: posts a request while `others` calls are under way. Returns whether the peer
    /// must be notified, which the caller does later by [`claim`](Self::claim).
    #[inline(always)]
    pub fn post_and_look(&self, cell: &Cell, others: u32) -> bool {
        self.sending.post(cell, others);
        copy_counts::tag_into_region(cell.place == PayloadPlace::Inline);
        self.peer().is_away(self.fence)
    }

    /// Posts a message on a processor that the peer has donated. The peer is woken when the
    /// processor goes back, by [`recall`](Self::recall).
    #[inline]
    pub fn post_on_loan(&self, cell: &Cell) {
        self.send(cell);
    }

    #[inline(always)]
    fn send(&self, cell: &Cell) {
        // Relaxed, here and in `take`: callers hold the lock.
        let untaken = self.untaken.load(Ordering::Relaxed);
        self.sending.post(cell, untaken);
        self.untaken.store(untaken.saturating_add(1), Ordering::Relaxed);
    }

    /// For a server: takes the next request, if one has come. Puts the bytes in the cell into
    /// `payload`, and returns the head. The head bounds the replies that may be untaken, because
    /// there are no more of them than other calls under way.
    ///
    /// # Errors
    /// The cell is malformed. The caller has to close the binding.
    #[inline(always)]
    pub fn take(&self, payload: &mut Payload) -> Result<Option<Head>, Malformed> {
        let head = self.receiving.take(payload)?;
        if let Some(head) = head {
            self.untaken.store(head.behind(), Ordering::Relaxed);
            copy_counts::tag_out_of_region(head.inline_request().is_some());
        }
        Ok(head)
    }

    /// How many messages have been posted, modulo 2³². Without the lock it is a hint whether
    /// anything was posted since.
    pub fn posted(&self) -> u32 {
        self.sending.position()
    }

    /// How the peer must be notified. Obliges the caller to do that, unless another thread has
    /// taken it on.
    pub fn claim(&self) -> Doorbell {
        self.peer().claim()
    }

    /// *Return, L6:* the processor of `cpu` goes back to the peer. Returns how the donor must be
    /// woken. A donor that gives way need not be woken, unless other waiters of the peer are away.
    /// `stays`: the listener looks for the next donation before it sleeps.
    pub fn recall(&self, cpu: usize, stays: bool) -> Doorbell {
        let gives_way = self.donation(cpu).is_some_and(|donation| donation.give_back(stays));
        match gives_way && !self.peer().is_away(self.fence) {
            true => Doorbell::None,
            false => self.peer().recall(),
        }
    }

    /// The donation word of `cpu`. `None` if the layout has no word for it.
    pub fn donation(&self, cpu: usize) -> Option<Donation<'_>> {
        (cpu < DONATION_WORDS).then(|| Donation::new(self.region.attention(DONATIONS + 4 * cpu)))
    }

    /// *Donate, D5:* after a post, gives the processor of `cpu` to the peer's listener there. The
    /// caller sleeps next. Returns how the listener takes the processor, having woken it if it
    /// slept. `None` if no listener takes it.
    pub fn donate(&self, cpu: usize) -> Option<Donee> {
        self.call_listener(cpu, |word| word.donate())
    }

    /// As [`donate`](Self::donate), but the caller gives way instead of sleeping.
    pub fn give_way(&self, cpu: usize) -> Option<Donee> {
        self.call_listener(cpu, |word| word.give_way())
    }

    #[inline]
    fn call_listener(&self, cpu: usize, by: impl Fn(&Donation<'_>) -> Option<Donee>) -> Option<Donee> {
        // On a dormant line the word may still announce a listener that is gone.
        if self.peer().is_dormant() {
            return None;
        }
        let donation = self.donation(cpu)?;
        let donee = by(&donation)?;
        if donee == Donee::Asleep {
            futex::wake(donation.word(), FutexScope::Shared, 1);
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

    /// The attention word of this side.
    #[inline]
    pub fn own_attention(&self) -> Attention<'_> {
        Attention::new(self.region.attention(self.own_attention))
    }

    /// Whether the peer sleeps, or does not poll this channel: a hint.
    pub fn peer_is_away(&self) -> bool {
        self.peer().seems_away()
    }

    /// Wakes one processor of the peer that sleeps on its attention word, as [`Doorbell::Wake`]
    /// asks.
    pub fn wake_peer(&self) {
        futex::wake(self.region.attention(self.peer_attention), FutexScope::Shared, 1);
    }

    /// Wakes a spare processor of the peer, if one sleeps while another one runs. Returns whether
    /// it did.
    pub fn wake_spare(&self) -> bool {
        let woken = self.peer().wake_spare();
        if woken {
            self.wake_peer();
        }
        woken
    }

    /// How many requests the server has taken, as it says.
    #[inline]
    pub fn taken(&self) -> TakenCount<'_> {
        TakenCount::new(self.region.word(TAKEN / 8))
    }

    /// Until when the client wants the call of `slot`, if that call is bounded or was given up.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn cancel_word(&self, slot: u16) -> CancelWord<'_> {
        assert!(u32::from(slot) < SLOTS, "there is no slot {slot}");
        CancelWord::new(self.region.word(CANCEL_WORDS / 8 + usize::from(slot)))
    }

    /// The section numbers that the call of `slot` carries, if its cancel word says that it does.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn section_words(&self, slot: u16) -> SectionWords<'_> {
        assert!(u32::from(slot) < SLOTS, "there is no slot {slot}");
        let first = SECTIONS / 8 + usize::from(slot) * SECTION_NUMBERS;
        SectionWords::new(std::array::from_fn(|place| self.region.word(first + place)))
    }

    /// For a client: the number of the overflow buffer of `slot` that the server has mapped, as it
    /// says. 0 stands for none.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn mapped_overflow(&self, slot: u16) -> u16 {
        // Relaxed: the reply published it, and the client reads it between two calls. The server
        // reads nothing here: it remembers the number itself.
        self.mapped_overflow_word(slot).load(Ordering::Relaxed) as u16
    }

    /// For a server: publishes that it has mapped the overflow buffer of `slot` with this number.
    /// Call it before the reply to the slot's call.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn set_mapped_overflow(&self, slot: u16, number: u16) {
        // Relaxed: the reply publishes it.
        self.mapped_overflow_word(slot).store(number.into(), Ordering::Relaxed);
    }

    fn mapped_overflow_word(&self, slot: u16) -> &AtomicU64 {
        assert!(u32::from(slot) < SLOTS, "there is no slot {slot}");
        self.region.word(MAPPED_OVERFLOW / 8 + usize::from(slot))
    }

    /// For a client: whether the server has not taken the request of `slot`. The call of `slot`
    /// must be under way. The server *never will* take it in two cases only: it takes no requests
    /// any more, or the call was cancelled and the barrier after that has been passed (see
    /// `README.md`, *Not started*).
    pub fn is_untaken(&self, slot: u16) -> bool {
        self.sending.is_untaken(slot, self.taken().count())
    }

    /// How many bytes an A-stack has.
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

    /// Moves the first `len` bytes of the A-stack of `slot` to the cache that all processors share,
    /// towards a peer on another processor: a hint.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn demote_stack(&self, slot: u16, len: usize) {
        self.region.demote_stack(slot, len);
    }

    /// Reads `len` bytes from the A-stack of `slot`.
    ///
    /// # Errors
    /// The A-stack has fewer bytes. No honest peer announces that.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn stack_source(&self, slot: u16, len: usize) -> Result<RegionSource<'_>, DecodeError> {
        self.region.stack_source(slot, len)
    }
}
