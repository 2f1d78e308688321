//! What one channel sends over its binding's socket, and what waits there for it.

use crate::binding::limits::Seat;
use crate::control::control_socket::ControlSocket;
use crate::control::messages::Control;
use crate::control::news::{Hears, NoTicket};
use crate::payload::out_of_band::{BytesLocation, Came, OutOfBand};
use crate::payload::overflow_buffers::{MappedOverflow, Numbered, OverflowBuffers};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use underpass_channel::Channel;
use underpass_channel::layout::FILES;
use underpass_os::MOST_FILES;
use underpass_seam::atomic::{AtomicU64, Ordering};
use underpass_wire::DecodeError;

/// One end's way to the binding's socket, and its overflow buffers.
///
/// A sender passes an out-of-band message before it posts the message that goes with it; so whoever
/// takes the message finds the out-of-band message here, or in the socket.
#[derive(Debug)]
pub(crate) struct Mailbox {
    control: Arc<ControlSocket>,
    /// The number of the channel.
    channel: u8,
    overflow_buffers: OverflowBuffers,
    /// System calls made for out-of-band messages and not yet counted.
    entries: AtomicU64,
}

/// System calls that a payload file costs its sender besides: made, written, closed.
const PAYLOAD_FILE_OUT: u64 = 3;
/// System calls that a payload file costs its receiver besides: asked twice for its kind and once
/// for its size, read, closed.
const PAYLOAD_FILE_IN: u64 = 5;
/// System calls that a new overflow buffer costs its client besides: made, given its size, sealed,
/// mapped, closed.
const OVERFLOW_OUT: u64 = 5;
/// System calls that one costs its server besides: asked for its size twice, its seals twice and
/// its kind, mapped, closed.
const OVERFLOW_IN: u64 = 7;
/// System calls that a file costs its sender besides: duplicated, closed.
const FILE_OUT: u64 = 2;
/// System calls that one costs its receiver besides: asked for its kind.
const FILE_IN: u64 = 1;

const _: () = assert!(MOST_FILES == FILES + 1, "a payload file and all files travel in one message");

impl Mailbox {
    /// That of a client's first channel.
    pub(crate) fn of_client(control: Arc<ControlSocket>) -> Self {
        Self::beside(control, 0, OverflowBuffers::default())
    }

    /// That of a server's first channel, whose client has a seat: the server maps its client's
    /// overflow buffers.
    pub(crate) fn of_server(control: Arc<ControlSocket>, seat: &Seat) -> Self {
        Self::beside(control, 0, seat.overflow_buffers())
    }

    /// That of the channel of this number, of the same binding.
    pub(crate) fn another(&self, channel: u8, overflow_buffers: OverflowBuffers) -> Self {
        Self::beside(self.control.clone(), channel, overflow_buffers)
    }

    fn beside(control: Arc<ControlSocket>, channel: u8, overflow_buffers: OverflowBuffers) -> Self {
        Self { control, channel, overflow_buffers, entries: AtomicU64::new(0) }
    }

    /// From now on `end` hears what comes for this channel.
    pub(crate) fn heard_by(&self, end: Weak<dyn Hears>) {
        self.control.heard_by(self.channel, end);
    }

    pub(crate) fn control(&self) -> &Arc<ControlSocket> {
        &self.control
    }

    fn send(&self, message: Control, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.control.send(message, self.channel, files)
    }

    /// The same, of what concerns all channels.
    fn send_for_all(&self, message: Control, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.control.send(message, 0, files)
    }

    /// Reads the socket, and tells the ends what came.
    pub(crate) fn read(&self) {
        self.control.read();
    }

    pub(crate) fn overflow_buffers(&self) -> &OverflowBuffers {
        &self.overflow_buffers
    }

    /// Rings for a ring that the peer has put aside.
    pub(crate) fn ring(&self) {
        // A full socket has bells enough in it; a gone peer needs none.
        let _ = self.send(Control::Bell, &[]);
    }

    /// Tells the peer that nobody waits any more for the calls of `slots`; `false` if there is no
    /// room for that now.
    pub(crate) fn unwanted(&self, slots: u64) -> bool {
        let sent = self.send(Control::Unwanted { slots }, &[]);
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

    /// System calls made for out-of-band messages since this was last asked.
    pub(crate) fn entries(&self) -> u64 {
        // Relaxed: statistics.
        self.entries.swap(0, Ordering::Relaxed)
    }

    /// Asks the peer for another channel; whether that went out.
    pub(crate) fn ask(&self) -> bool {
        self.send_for_all(Control::Ask, &[]).is_ok()
    }

    /// Passes the region of a new channel of this number to the peer.
    pub(crate) fn open(&self, channel: u8, region: &OwnedFd) -> io::Result<()> {
        self.control.send(Control::Opened, channel, &[region.as_fd()])
    }

    /// Asks the peer for a ticket.
    pub(crate) fn share(&self) -> io::Result<()> {
        self.send_for_all(Control::Share, &[])
    }

    /// Gives the peer the ticket that it has asked for, or none.
    pub(crate) fn answer_share(&self, ticket: Result<OwnedFd, NoTicket>) {
        // A peer that can't take it waits in vain, and not for long.
        let _ = match ticket {
            Ok(file) => self.send_for_all(Control::Ticket, &[file.as_fd()]),
            Err(why) => self.send_for_all(Control::NoTicket { may: why == NoTicket::NoRoom }, &[]),
        };
    }

    /// Tells the peer that there will be no further channel.
    pub(crate) fn refuse(&self) {
        // A peer that can't take it goes on without either.
        let _ = self.send_for_all(Control::Refused, &[]);
    }

    /// Tells the peer that the binding is closed, and hangs up.
    pub(crate) fn close(&self) {
        // A peer that can't take it hears the hang-up.
        let _ = self.send_for_all(Control::Closing, &[]);
        self.hang_up();
    }

    /// Tells the peer that the binding is revoked, and hangs up.
    pub(crate) fn revoke(&self) {
        // As above.
        let _ = self.send_for_all(Control::Revoked, &[]);
        self.hang_up();
    }

    /// Ends the connection: both sides hear that the other is gone.
    pub(crate) fn hang_up(&self) {
        self.control.hang_up();
    }

    /// Takes the out-of-band message for `slot`, of which the message has come; nothing if none
    /// has, which no honest peer does. The calling thread may wait.
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

    /// Of the client: an overflow buffer for results of `size` bytes over `slot`, which have just
    /// come in a file of their own, is offered to the server.
    pub(crate) fn offer(&self, channel: &Channel, slot: u16, size: usize) {
        let Some((overflow, file)) = self.overflow_buffers.for_results(channel, slot, size) else { return };
        self.entered(1 + OVERFLOW_OUT);
        // A server that can't take it goes on without.
        let _ = self.send(Control::OverflowBuffer { slot, number: overflow.number }, &[file.as_fd()]);
    }

    /// Of the server: an overflow buffer for results of `size` bytes over `slot`.
    pub(crate) fn overflow_for_reply(&self, channel: &Channel, slot: u16, size: usize) -> Option<Numbered> {
        self.overflow_buffers.for_reply(channel, slot, size, || {
            let offered = self.take_offer(slot)?;
            self.entered(1 + OVERFLOW_IN);
            Some(offered)
        })
    }

    /// Of the server: the overflow buffer in `file`, which came with a call over `slot`; nothing if
    /// its user may have no more.
    ///
    /// # Errors
    /// No honest client makes such.
    pub(crate) fn map_overflow(
        &self,
        channel: &Channel,
        slot: u16,
        number: u16,
        file: &OwnedFd,
    ) -> Result<Option<Arc<MappedOverflow>>, DecodeError> {
        // One for results that came before is not this slot's any more.
        drop(self.take_offer(slot));
        self.overflow_buffers.map(channel, slot, number, file)
    }

    fn take_offer(&self, slot: u16) -> Option<(u16, OwnedFd)> {
        self.control.waiting(self.channel, |waiting| waiting.take_offer(slot)).flatten()
    }

    /// Drops what has come for `slot`, whose message has not been seen yet.
    pub(crate) fn forget(&self, slot: u16) {
        self.forget_if(slot, || true);
    }

    /// The same, if it is `unwanted`: that is asked while nothing else can come. A slot that is
    /// used again by then is seen to be, since its caller says so before it posts, and the peer
    /// answers after.
    pub(crate) fn forget_if(&self, slot: u16, unwanted: impl FnOnce() -> bool) {
        drop(self.control.waiting(
            self.channel,
            |waiting| {
                if unwanted() { waiting.forget(slot) } else { None }
            },
        ));
    }

    /// The message of `slot` has come, and nobody waits for its out-of-band message.
    pub(crate) fn discard(&self, slot: u16) {
        self.control.discard(self.channel, slot);
        self.entered(1);
    }

    /// Closes all that has been seen to come.
    pub(crate) fn forget_all(&self) {
        self.control.forget_all(self.channel);
        self.overflow_buffers.forget_all();
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}
