//! One channel's part of the control socket: what it sends, and what has come and waits for it.

use crate::binding::interface_exchange::GivenRows;
use crate::binding::limits::ChannelQuota;
use crate::control::control_socket::ControlSocket;
use crate::control::messages::{ControlMessage, REVERSE};
use crate::control::socket_events::{HandleEvents, NoTicket};
use crate::payload::held_out_of_band::{HeldOutOfBand, PassedHeld};
use crate::payload::out_of_band::{BytesLocation, Came, OutOfBand};
use crate::payload::overflow_buffers::{MappedOverflow, Numbered, OverflowBuffers};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use underpass_channel::layout::FILES;
use underpass_channel::{Channel, Tag};
use underpass_os::MOST_FILES;
use underpass_seam::atomic::{AtomicU64, Ordering};
use underpass_wire::DecodeError;

/// One channel end's access to the control socket, and its overflow buffers.
///
/// A sender passes the out-of-band part before it posts the slot's message. So a receiver that has
/// the slot's message finds the out-of-band part here, or in the socket.
#[derive(Debug)]
pub(crate) struct ChannelMailbox {
    control: Arc<ControlSocket>,
    /// The number of the channel on the socket.
    channel: u8,
    /// The number of the channel in its direction: 0 for the first.
    number: u8,
    overflow_buffers: OverflowBuffers,
    /// System calls that were made for out-of-band messages and are not counted yet.
    entries: AtomicU64,
}

/// Additional system calls for the sender of an out-of-band payload file: create, write, close.
const PAYLOAD_FILE_OUT: u64 = 3;
/// Additional system calls for its receiver: twice for its type and once for its size, read, close.
const PAYLOAD_FILE_IN: u64 = 5;
/// Additional system calls for the client that makes an overflow buffer: create, resize, seal, map,
/// close.
const OVERFLOW_OUT: u64 = 5;
/// Additional system calls for the server that receives one: twice for its size, twice for its
/// seals, once for its type, map, close.
const OVERFLOW_IN: u64 = 7;
/// Additional system calls for the sender of a file: duplicate, close.
const FILE_OUT: u64 = 2;
/// Additional system calls for its receiver: once for its type.
const FILE_IN: u64 = 1;

const _: () = assert!(MOST_FILES == FILES + 1, "a payload file and all files travel in one message");

impl ChannelMailbox {
    /// The mailbox of a client's first channel.
    pub(crate) fn of_client(control: Arc<ControlSocket>) -> Self {
        Self::beside(control, 0, OverflowBuffers::default())
    }

    /// The mailbox of a server's first channel. The server maps its client's overflow buffers, and
    /// charges them to the client's user.
    pub(crate) fn of_server(control: Arc<ControlSocket>, quota: &ChannelQuota) -> Self {
        Self::beside(control, 0, quota.overflow_buffers())
    }

    /// The mailbox of the channel with this number, of the same binding.
    pub(crate) fn another(&self, channel: u8, overflow_buffers: OverflowBuffers) -> Self {
        Self::beside(self.control.clone(), channel, overflow_buffers)
    }

    /// The mailbox of the reverse channel, of either side.
    pub(crate) fn reverse(control: Arc<ControlSocket>, overflow_buffers: OverflowBuffers) -> Self {
        Self { number: 0, ..Self::beside(control, REVERSE, overflow_buffers) }
    }

    /// Whether it is that of the reverse channel.
    pub(crate) fn is_reverse(&self) -> bool {
        self.channel == REVERSE
    }

    fn beside(control: Arc<ControlSocket>, channel: u8, overflow_buffers: OverflowBuffers) -> Self {
        Self { control, channel, number: channel, overflow_buffers, entries: AtomicU64::new(0) }
    }

    /// The number of the channel: 0 for the first.
    #[inline(always)]
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// From now on `end` is told what comes for this channel.
    pub(crate) fn heard_by(&self, end: Weak<dyn HandleEvents>) {
        self.control.heard_by(self.channel, end);
    }

    pub(crate) fn control(&self) -> &Arc<ControlSocket> {
        &self.control
    }

    fn send(&self, message: ControlMessage, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.control.send(message, self.channel, files)
    }

    /// The same, for a message that concerns all channels of this direction.
    fn send_for_all(&self, message: ControlMessage, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.control.send(message, if self.is_reverse() { REVERSE } else { 0 }, files)
    }

    /// Reads the socket, and tells the ends what came.
    pub(crate) fn read(&self) {
        self.control.read();
    }

    pub(crate) fn overflow_buffers(&self) -> &OverflowBuffers {
        &self.overflow_buffers
    }

    /// Rings over the socket, because the peer does not poll its ring.
    pub(crate) fn ring(&self) {
        // If the socket is full, it has enough rings in it. If the peer is gone, it needs none.
        let _ = self.send(ControlMessage::Bell, &[]);
    }

    /// Tells the peer that nobody waits any more for the calls of `slots`. Returns `false` if the
    /// socket is full.
    pub(crate) fn unwanted(&self, slots: u64) -> bool {
        let sent = self.send(ControlMessage::Unwanted { slots }, &[]);
        !sent.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }

    /// The same for a late call.
    pub(crate) fn unwanted_late(&self, number: u64) -> bool {
        let sent = self.send(ControlMessage::UnwantedLate { number }, &[]);
        !sent.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }

    /// Passes an out-of-band message to the peer.
    pub(crate) fn pass(&self, slot: u16, out_of_band: &OutOfBand) -> io::Result<()> {
        let announcement = out_of_band.announcement(slot)?;
        let (payload_file, spent) = match &out_of_band.bytes {
            BytesLocation::PayloadFile(payload_file, _) => (Some(payload_file.as_fd()), PAYLOAD_FILE_OUT),
            BytesLocation::NewOverflowBuffer(file, ..) => (Some(file.as_fd()), OVERFLOW_OUT),
            BytesLocation::Stack(_) | BytesLocation::OverflowBuffer(_) => (None, 0),
        };
        let files: Vec<_> =
            payload_file.into_iter().chain(out_of_band.files.iter().map(OwnedFd::as_fd)).collect();
        self.entered(1 + spent + FILE_OUT * out_of_band.files.len() as u64);
        self.send(announcement, &files)
    }

    /// The same for a reply. If the socket is full, holds the message until
    /// [`pass_held`](Self::pass_held) finds room.
    ///
    /// # Errors
    /// Those of the socket. The socket is full, and the peer's user may have no more files.
    pub(crate) fn pass_or_hold(&self, slot: u16, out_of_band: OutOfBand) -> io::Result<()> {
        match self.pass(slot, &out_of_band) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let held = HeldOutOfBand::new(slot, out_of_band, self.control.unclosed())?;
                self.replace_held(slot, Some(held));
                Ok(())
            }
            passed => passed,
        }
    }

    /// Whether the out-of-band part of the reply of `slot` is held.
    #[cold]
    pub(crate) fn holds(&self, slot: u16) -> bool {
        self.control.held(self.channel, |held| held.iter().any(|held| held.slot == slot)).unwrap_or(false)
    }

    /// The interfaces of this reply, which is held.
    pub(crate) fn hold_rows(&self, slot: u16, rows: GivenRows) {
        let mut rows = Some(rows);
        self.control.held(self.channel, |held| {
            if let Some(held) = held.iter_mut().find(|held| held.slot == slot) {
                held.rows = rows.take();
            }
        });
        // Without the lock: if the channel has ended, they are closed.
        drop(rows);
    }

    /// Passes what is held for `slot`, if the socket has room by now. The clerk alone calls it.
    pub(crate) fn pass_held(&self, slot: u16) -> PassedHeld {
        let Some(held) = self.replace_held(slot, None) else { return PassedHeld::NotHeld };
        match self.pass(slot, &held.out_of_band) {
            Ok(()) => {
                held.was_sent();
                PassedHeld::Sent
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.replace_held(slot, Some(held));
                PassedHeld::Full
            }
            Err(e) => PassedHeld::Failed(e),
        }
    }

    /// Drops what is held for `slot`: the reply goes without it.
    pub(crate) fn forget_held(&self, slot: u16) {
        drop(self.replace_held(slot, None));
    }

    /// Returns what was held for `slot`, to be dropped without the lock.
    fn replace_held(&self, slot: u16, by: Option<HeldOutOfBand>) -> Option<HeldOutOfBand> {
        self.control
            .held(self.channel, |held| {
                let place = held.iter().position(|held| held.slot == slot);
                let before = place.map(|place| held.swap_remove(place));
                held.extend(by);
                before
            })
            .flatten()
    }

    /// System calls made for out-of-band messages since the last call of this function.
    pub(crate) fn entries(&self) -> u64 {
        // Relaxed: statistics.
        self.entries.swap(0, Ordering::Relaxed)
    }

    /// Asks the peer for another channel. Returns whether the message was sent.
    pub(crate) fn ask(&self) -> bool {
        !self.is_reverse() && self.send_for_all(ControlMessage::Ask, &[]).is_ok()
    }

    /// Passes the region of the new channel with this number to the peer.
    pub(crate) fn open(&self, channel: u8, region: &OwnedFd) -> io::Result<()> {
        self.control.send(ControlMessage::Opened, channel, &[region.as_fd()])
    }

    /// Asks the peer for a ticket to the binding `tag`.
    pub(crate) fn share(&self, tag: Tag) -> io::Result<()> {
        self.send_for_all(ControlMessage::Share { tag }, &[])
    }

    /// Answers the peer's request for a ticket.
    pub(crate) fn answer_share(&self, ticket: Result<OwnedFd, NoTicket>) {
        // If this fails, the peer waits in vain, but only for 2 s.
        let _ = match ticket {
            Ok(file) => self.send_for_all(ControlMessage::Ticket, &[file.as_fd()]),
            Err(why) => self.send_for_all(ControlMessage::NoTicket { may: why == NoTicket::NoRoom }, &[]),
        };
    }

    /// Tells the peer that there will be no further channel.
    pub(crate) fn refuse(&self) {
        // If this fails, the peer goes on without the channel as well.
        let _ = self.send_for_all(ControlMessage::Refused, &[]);
    }

    /// Tells the peer that a row is closed. Returns `false` if the socket is full.
    pub(crate) fn close_row(&self, tag: Tag, revoked: bool) -> bool {
        let sent = self.send_for_all(ControlMessage::RowClosed { tag, revoked }, &[]);
        !sent.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }

    /// Tells the peer that a row is not used any more. Returns `false` if the socket is full.
    pub(crate) fn release(&self, tag: Tag) -> bool {
        let sent = self.send_for_all(ControlMessage::Release { tag }, &[]);
        !sent.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }

    /// Tells the peer that the connection is closed, and hangs up.
    pub(crate) fn close(&self) {
        // If this fails, the peer sees the hang-up.
        let _ = self.send_for_all(ControlMessage::Closing, &[]);
        self.hang_up();
    }

    /// Ends the connection: both sides see that the other is gone.
    pub(crate) fn hang_up(&self) {
        self.control.hang_up();
    }

    /// Takes the out-of-band message for `slot`, after the slot's message has come. `None` if there
    /// is none, which no honest peer causes. The calling thread may wait.
    pub(crate) fn take(&self, slot: u16) -> Option<Came> {
        let taken = self.control.take(self.channel, slot);
        let besides = match &taken {
            Some(Came::OutOfBand(OutOfBand { bytes: BytesLocation::PayloadFile(..), .. })) => PAYLOAD_FILE_IN,
            Some(Came::OutOfBand(OutOfBand { bytes: BytesLocation::NewOverflowBuffer(..), .. })) => {
                OVERFLOW_IN
            }
            _ => 0,
        };
        let files = match &taken {
            Some(Came::OutOfBand(out_of_band)) => out_of_band.files.len() as u64,
            _ => 0,
        };
        self.entered(1 + besides + FILE_IN * files);
        taken
    }

    fn entered(&self, entries: u64) {
        // Relaxed: statistics.
        self.entries.fetch_add(entries, Ordering::Relaxed);
    }

    /// On the client: offers the server an overflow buffer for results of `size` bytes over `slot`,
    /// because such results have just come in a file.
    pub(crate) fn offer(&self, channel: &Channel, slot: u16, size: usize) {
        let Some((overflow, file)) = self.overflow_buffers.for_results(channel, slot, size) else { return };
        self.entered(1 + OVERFLOW_OUT);
        // If this fails, the server goes on without the buffer.
        let _ = self.send(ControlMessage::OverflowBuffer { slot, number: overflow.number }, &[file.as_fd()]);
    }

    /// On the server: an overflow buffer for results of `size` bytes over `slot`.
    pub(crate) fn overflow_for_reply(&self, channel: &Channel, slot: u16, size: usize) -> Option<Numbered> {
        self.overflow_buffers.for_reply(channel, slot, size, || {
            let offered = self.take_offer(slot)?;
            self.entered(1 + OVERFLOW_IN);
            Some(offered)
        })
    }

    /// On the server: maps the overflow buffer in `file`, which came with a call over `slot`.
    /// `None` if its user may have no more.
    ///
    /// # Errors
    /// The file is none that an honest client makes.
    pub(crate) fn map_overflow(
        &self,
        channel: &Channel,
        slot: u16,
        number: u16,
        file: &OwnedFd,
    ) -> Result<Option<Arc<MappedOverflow>>, DecodeError> {
        // A buffer for results that came before does not belong to this slot's call any more.
        drop(self.take_offer(slot));
        self.overflow_buffers.map(channel, slot, number, file)
    }

    fn take_offer(&self, slot: u16) -> Option<(u16, OwnedFd)> {
        self.control.waiting(self.channel, |waiting| waiting.take_offer(slot)).flatten()
    }

    /// Drops what has come for `slot` before the slot's message was seen.
    pub(crate) fn forget(&self, slot: u16) {
        self.forget_if(slot, || true);
    }

    /// The same, if `unwanted` says so. It is called under the lock, while nothing else can come.
    /// If the slot is in use again, `unwanted` sees that: the caller marks the slot before it
    /// posts, and the peer answers afterwards.
    pub(crate) fn forget_if(&self, slot: u16, unwanted: impl FnOnce() -> bool) {
        drop(self.control.waiting(
            self.channel,
            |waiting| {
                if unwanted() { waiting.forget(slot) } else { None }
            },
        ));
    }

    /// The slot's message has come, and nobody waits for its out-of-band part.
    pub(crate) fn discard(&self, slot: u16) {
        self.control.discard(self.channel, slot);
        self.entered(1);
    }

    /// Closes everything that has been received and waits.
    pub(crate) fn forget_all(&self) {
        self.control.forget_all(self.channel);
        self.overflow_buffers.forget_all();
    }
}

impl AsFd for ChannelMailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}
