//! The socket of a channel after it was made, and the files that came over it.

use crate::annexes::{Annexes, Kept, Numbered};
use crate::closer::{Connection, Foreign, Tally};
use crate::control::{CONTROL, Control};
use crate::deathwatch::Deathwatch;
use crate::limits::Seat;
use crate::parcel::{Came, Lie, Parcel, Waiting};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use underpass_channel::Channel;
use underpass_channel::layout::{FILES, FILES_WAITING};
use underpass_os::{MOST_FILES, Socket, failpoint, kind};
use underpass_seam::atomic::{AtomicU64, Ordering};
use underpass_wire::DecodeError;

/// One end's socket and the parcels that wait for their message.
///
/// A sender passes a parcel before it posts the message that goes with it; so whoever takes the message finds the parcel here, or
/// in the socket.
#[derive(Debug)]
pub(crate) struct Mailbox {
    socket: Arc<Connection>,
    tally: Arc<Tally>,
    deathwatch: Arc<Deathwatch>,
    waiting: Mutex<Waiting>,
    annexes: Annexes,
    /// System calls made for parcels and not yet counted.
    entries: AtomicU64,
}

/// System calls that a blob costs its sender besides: made, written, closed.
const BLOB_OUT: u64 = 3;
/// System calls that a blob costs its receiver besides: asked twice for its kind and once for its size, read, closed.
const BLOB_IN: u64 = 5;
/// System calls that a new annex costs its client besides: made, given its size, sealed, mapped, closed.
const ANNEX_OUT: u64 = 5;
/// System calls that one costs its server besides: asked for its size twice, its seals twice and its kind, mapped, closed.
const ANNEX_IN: u64 = 7;
/// System calls that a file costs its sender besides: duplicated, closed.
const FILE_OUT: u64 = 2;
/// System calls that one costs its receiver besides: asked for its kind.
const FILE_IN: u64 = 1;

const _: () = assert!(MOST_FILES == FILES + 1, "a blob and all files travel in one message");

/// What a server gives to who wants to pass a binding on, as it has come to its client.
pub(crate) type Ticket = Result<Foreign, NoTicket>;

/// Why it gives none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTicket {
    /// The binding is not to be passed on.
    NotAllowed,
    /// There was no room, or no file left, there or here.
    NoRoom,
}

/// Messages taken from a socket in one go: who sends more has to wait his turn.
const TURN: usize = 256;

/// What emptying a socket brought to light.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// The peer rang.
    pub(crate) bell: bool,
    /// The slots, as bits, for which parcels came.
    pub(crate) parcels: u64,
    /// The slots, as bits, whose calls nobody waits for any more, as the peer says.
    pub(crate) unwanted: u64,
    /// The peer closes the binding.
    pub(crate) closing: bool,
    /// The peer revokes the binding.
    pub(crate) revoked: bool,
    /// The peer is gone.
    pub(crate) gone: bool,
    /// It only seems so: nothing can be heard of it any more.
    pub(crate) unsure: bool,
    /// The peer sent what no honest peer sends.
    pub(crate) nonsense: bool,
    /// The peer asks for so many more channels.
    pub(crate) asked: usize,
    /// The peer wants to pass the binding on, so many times.
    pub(crate) shares: usize,
    /// The peer's answers to that.
    pub(crate) tickets: Vec<Ticket>,
    /// The peer has opened a channel, of which these are the files; or it could not, or they didn't come through: then there are none.
    pub(crate) opened: Option<Foreign>,
}

impl Mailbox {
    /// That of a binding's first channel.
    pub(crate) fn new(socket: Arc<Connection>) -> Self {
        let deathwatch = Deathwatch::new(&socket);
        Self::watched(socket, deathwatch)
    }

    /// That of a further channel of the same binding.
    pub(crate) fn another(&self, socket: Socket) -> Self {
        let socket = Connection::new(socket);
        socket.counts_for(&self.tally.another());
        self.deathwatch.join(&socket);
        Self::watched(socket, self.deathwatch.clone())
    }

    fn watched(socket: Arc<Connection>, deathwatch: Arc<Deathwatch>) -> Self {
        Self {
            tally: socket.tally(),
            socket,
            deathwatch,
            waiting: Mutex::default(),
            annexes: Annexes::default(),
            entries: AtomicU64::new(0),
        }
    }

    /// The same, at a server, which maps annexes of its client and has a seat for it.
    pub(crate) fn of_server(self, seat: &Seat) -> Self {
        let tally = seat.tally();
        self.socket.counts_for(&tally);
        Self { annexes: seat.annexes(), tally, ..self }
    }

    pub(crate) fn annexes(&self) -> &Annexes {
        &self.annexes
    }

    /// Rings for a ring that the peer has put aside.
    pub(crate) fn ring(&self) {
        // A full socket has bells enough in it; a gone peer needs none.
        let _ = Control::Bell.send(&self.socket, &[]);
    }

    /// Tells the peer that nobody waits any more for the calls of `slots`; `false` if there is no room for that now.
    pub(crate) fn unwanted(&self, slots: u64) -> bool {
        let sent = Control::Unwanted { slots }.send(&self.socket, &[]);
        !sent.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }

    /// Passes a parcel to the peer.
    pub(crate) fn pass(&self, slot: u16, parcel: &Parcel) -> io::Result<()> {
        let announcement = parcel.announcement(slot)?;
        let (blob, spent) = match &parcel.bytes {
            Lie::Blob(blob, _) => (Some(blob.as_fd()), BLOB_OUT),
            Lie::NewAnnex(file, ..) => (Some(file.as_fd()), ANNEX_OUT),
            Lie::Stack(_) | Lie::Annex(_) => (None, 0),
        };
        let files: Vec<_> = blob.into_iter().chain(parcel.files.iter().map(OwnedFd::as_fd)).collect();
        self.entered(1 + spent + FILE_OUT * parcel.files.len() as u64);
        announcement.send(&self.socket, &files)
    }

    /// System calls made for parcels since this was last asked.
    pub(crate) fn entries(&self) -> u64 {
        // Relaxed: statistics.
        self.entries.swap(0, Ordering::Relaxed)
    }

    /// Asks the peer for another channel; whether that went out.
    pub(crate) fn ask(&self) -> bool {
        Control::Ask.send(&self.socket, &[]).is_ok()
    }

    /// Passes a new channel to the peer: its region and its socket.
    pub(crate) fn open(&self, region: &OwnedFd, socket: &OwnedFd) -> io::Result<()> {
        Control::Opened.send(&self.socket, &[region.as_fd(), socket.as_fd()])
    }

    /// Asks the peer for a ticket.
    pub(crate) fn share(&self) -> io::Result<()> {
        Control::Share.send(&self.socket, &[])
    }

    /// Gives the peer the ticket that it has asked for, or none.
    pub(crate) fn answer_share(&self, ticket: Result<OwnedFd, NoTicket>) {
        // A peer that can't take it waits in vain, and not for long.
        let _ = match ticket {
            Ok(file) => Control::Ticket.send(&self.socket, &[file.as_fd()]),
            Err(why) => Control::NoTicket { may: why == NoTicket::NoRoom }.send(&self.socket, &[]),
        };
    }

    /// Tells the peer that there will be no further channel.
    pub(crate) fn refuse(&self) {
        // A peer that can't take it goes on without either.
        let _ = Control::Refused.send(&self.socket, &[]);
    }

    /// Tells the peer that the binding is closed, and hangs up.
    pub(crate) fn close(&self) {
        // A peer that can't take it hears the hang-up.
        let _ = Control::Closing.send(&self.socket, &[]);
        self.hang_up();
    }

    /// Tells the peer that the binding is revoked, and hangs up.
    pub(crate) fn revoke(&self) {
        // As above.
        let _ = Control::Revoked.send(&self.socket, &[]);
        self.hang_up();
    }

    /// Ends the connection: both sides hear that the other is gone.
    pub(crate) fn hang_up(&self) {
        self.deathwatch.leave(&self.socket);
        self.socket.hang_up();
    }

    /// Takes all that has come over the socket.
    pub(crate) fn empty(&self) -> News {
        let mut waiting = self.waiting();
        let mut news = News::default();
        let mut buffer = [0u8; CONTROL];
        for _ in 0..TURN {
            if self.tally.is_full() {
                return News { nonsense: true, ..news };
            }
            let received = match self.socket.receive_any(&mut buffer) {
                Ok(received) => received,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return news,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    let unsure = e.kind() != io::ErrorKind::ConnectionReset;
                    return News { gone: true, unsure, ..news };
                }
            };
            let (mut files, lost) = (Foreign::new(received.files, &self.tally), received.lost_files);
            match Control::read(&buffer[..received.len]) {
                _ if received.cut => return News { nonsense: true, ..news },
                _ if received.len == 0 => return News { gone: true, ..news },
                Some(Control::Bell) => news.bell = true,
                Some(Control::Unwanted { slots }) => news.unwanted |= slots,
                Some(Control::Closing) => news.closing = true,
                Some(Control::Revoked) => news.revoked = true,
                Some(Control::Ask) => news.asked += 1,
                Some(Control::Share) => news.shares += 1,
                Some(Control::Ticket) => {
                    // The kernel drops a file that this domain has no room for.
                    let came = files.len() > 0 && self.admits(&files);
                    news.tickets.push(if came { Ok(files) } else { Err(NoTicket::NoRoom) });
                }
                Some(Control::NoTicket { may: true }) => news.tickets.push(Err(NoTicket::NoRoom)),
                Some(Control::NoTicket { may: false }) => news.tickets.push(Err(NoTicket::NotAllowed)),
                // An honest server answers one question at a time.
                Some(Control::Opened | Control::Refused) if news.opened.is_some() => {
                    return News { nonsense: true, ..news };
                }
                Some(Control::Opened) => {
                    if !self.admits(&files) {
                        files = files.none();
                    }
                    news.opened = Some(files);
                }
                Some(Control::Refused) => news.opened = Some(files.none()),
                Some(Control::Parcel { slot, files: announced, lies, length }) => {
                    failpoint!("file-received");
                    let came = Came::of(files, lost, announced, lies, length);
                    if !came.is_some_and(|came| waiting.put(slot, self.let_in(came), self.most())) {
                        return News { nonsense: true, ..news };
                    }
                    news.parcels |= 1 << slot;
                }
                Some(Control::Annex { slot, number }) => {
                    if !self.annexes.maps() || !waiting.offer(slot, number, files, lost, self.most()) {
                        return News { nonsense: true, ..news };
                    }
                }
                None => return News { nonsense: true, ..news },
            }
        }
        news
    }

    /// How many files may wait: those that are still to be closed wait, too.
    fn most(&self) -> usize {
        FILES_WAITING.saturating_sub(self.tally.files())
    }

    /// Whether these may stay: those that can hide the peer's death may once that is watched for.
    fn admits(&self, files: &Foreign) -> bool {
        !files.iter().any(kind::may_keep_others) || self.deathwatch.begin()
    }

    /// What has come, or word of it where it may not stay.
    fn let_in(&self, came: Came) -> Came {
        match came {
            Came::Parcel(parcel) if !self.admits(&parcel.files) => Came::NoFile,
            came => came,
        }
    }

    /// Takes the parcel for `slot`; nothing if none has come, which no honest peer does. What else has come is `heard`.
    pub(crate) fn take(&self, slot: u16, heard: impl FnOnce(News)) -> Option<Came> {
        let taken = self.forget(slot).or_else(|| {
            heard(self.empty());
            self.forget(slot)
        });
        let besides = match &taken {
            Some(Came::Parcel(Parcel { bytes: Lie::Blob(..), .. })) => BLOB_IN,
            Some(Came::Parcel(Parcel { bytes: Lie::NewAnnex(..), .. })) => ANNEX_IN,
            _ => 0,
        };
        let files = match &taken {
            Some(Came::Parcel(parcel)) => parcel.files.len() as u64,
            _ => 0,
        };
        self.entered(1 + besides + FILE_IN * files);
        taken
    }

    fn entered(&self, entries: u64) {
        // Relaxed: statistics.
        self.entries.fetch_add(entries, Ordering::Relaxed);
    }

    /// Of the client: an annex for results of `size` bytes over `slot`, which have just come in a file of their own, is offered to the server.
    pub(crate) fn offer(&self, channel: &Channel, slot: u16, size: usize) {
        let Some((annex, file)) = self.annexes.for_results(channel, slot, size) else { return };
        self.entered(1 + ANNEX_OUT);
        // A server that can't take it goes on without.
        let _ = Control::Annex { slot, number: annex.number }.send(&self.socket, &[file.as_fd()]);
    }

    /// Of the server: an annex for results of `size` bytes over `slot`.
    pub(crate) fn annex_for_reply(&self, channel: &Channel, slot: u16, size: usize) -> Option<Numbered> {
        self.annexes.for_reply(channel, slot, size, || {
            let offered = self.waiting().take_offer(slot)?;
            self.entered(1 + ANNEX_IN);
            Some(offered)
        })
    }

    /// Of the server: the annex in `file`, which came with a call over `slot`; nothing if its user may have no more.
    ///
    /// # Errors
    /// No honest client makes such.
    pub(crate) fn map_annex(
        &self,
        channel: &Channel,
        slot: u16,
        number: u16,
        file: &OwnedFd,
    ) -> Result<Option<Arc<Kept>>, DecodeError> {
        // One for results that came before is not this slot's any more.
        drop(self.waiting().take_offer(slot));
        self.annexes.map(channel, slot, number, file)
    }

    /// Takes what has been seen to come for `slot`.
    pub(crate) fn forget(&self, slot: u16) -> Option<Came> {
        self.waiting().take(slot)
    }

    /// The same, if it is `unwanted`: that is asked while nothing else can come. A slot that is used again by then is seen to be, since its caller says so before
    /// it posts, and the peer answers after.
    pub(crate) fn forget_if(&self, slot: u16, unwanted: impl FnOnce() -> bool) -> Option<Came> {
        let mut waiting = self.waiting();
        if unwanted() { waiting.take(slot) } else { None }
    }

    /// Closes all that has been seen to come.
    pub(crate) fn forget_all(&self) {
        self.deathwatch.leave(&self.socket);
        *self.waiting() = Waiting::default();
        self.annexes.forget_all();
    }

    /// Sorts out what came before the connection was ended.
    pub(crate) fn empty_to_the_end(&self) {
        // What there is besides goes with the socket.
        while !self.empty().gone && !self.tally.is_full() {}
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
