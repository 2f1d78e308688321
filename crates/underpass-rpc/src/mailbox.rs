//! The socket of a channel after it was made, and the files that came over it.

use crate::control::{CONTROL, Control};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use underpass_channel::layout::SLOTS;
use underpass_os::{Blob, Socket, failpoint};

/// One end's socket and the blobs that wait for their message, one for each slot at the most.
///
/// A sender passes a blob before it posts the message that names it; so whoever takes the message finds the blob here, or
/// in the socket.
#[derive(Debug)]
pub(crate) struct Mailbox {
    socket: Arc<Socket>,
    blobs: Mutex<Vec<Option<Came>>>,
}

/// What came for a slot.
#[derive(Debug)]
pub(crate) enum Came {
    /// A blob, and how long the peer says it is.
    Blob(Blob, u64),
    /// The word of a blob, for which this domain had no file left.
    NoFile,
}

/// Messages taken from a socket in one go: who sends more has to wait his turn.
const TURN: usize = 256;

/// What emptying a socket brought to light.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// The peer rang.
    pub(crate) bell: bool,
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
    /// The peer has opened a channel, of which these are the files; or it could not, or they didn't come through: then there are none.
    pub(crate) opened: Option<Vec<OwnedFd>>,
}

impl Mailbox {
    pub(crate) fn new(socket: impl Into<Arc<Socket>>) -> Self {
        Self { socket: socket.into(), blobs: Mutex::new((0..SLOTS).map(|_| None).collect()) }
    }

    /// Rings for a ring that the peer has put aside.
    pub(crate) fn ring(&self) {
        // A full socket has bells enough in it; a gone peer needs none.
        let _ = Control::Bell.send(&self.socket, &[]);
    }

    /// Passes a blob to the peer.
    pub(crate) fn pass(&self, slot: u16, blob: &Blob, length: u64) -> io::Result<()> {
        Control::Blob { slot, length }.send(&self.socket, &[blob.as_fd()])
    }

    /// Asks the peer for another channel; whether that went out.
    pub(crate) fn ask(&self) -> bool {
        Control::Ask.send(&self.socket, &[]).is_ok()
    }

    /// Passes a new channel to the peer: its region and its socket.
    pub(crate) fn open(&self, region: &OwnedFd, socket: &OwnedFd) -> io::Result<()> {
        Control::Opened.send(&self.socket, &[region.as_fd(), socket.as_fd()])
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
        self.socket.hang_up();
    }

    /// Takes all that has come over the socket.
    pub(crate) fn empty(&self) -> News {
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut news = News::default();
        let mut buffer = [0u8; CONTROL];
        for _ in 0..TURN {
            let mut received = match self.socket.receive(&mut buffer) {
                Ok(received) if received.len == 0 => return News { gone: true, ..news },
                Ok(received) => received,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return news,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::InvalidData => return News { nonsense: true, ..news },
                Err(e) => {
                    let unsure = e.kind() != io::ErrorKind::ConnectionReset;
                    return News { gone: true, unsure, ..news };
                }
            };
            match Control::read(&buffer[..received.len]) {
                Some(Control::Bell) => news.bell = true,
                Some(Control::Closing) => news.closing = true,
                Some(Control::Revoked) => news.revoked = true,
                Some(Control::Ask) => news.asked += 1,
                // An honest server answers one question at a time.
                Some(Control::Opened | Control::Refused) if news.opened.is_some() => {
                    return News { nonsense: true, ..news };
                }
                Some(Control::Opened) => news.opened = Some(std::mem::take(&mut received.files)),
                Some(Control::Refused) => news.opened = Some(Vec::new()),
                Some(Control::Blob { slot, length }) => {
                    failpoint!("file-received");
                    // The kernel drops a file that this domain has no room for.
                    let came = match received.files.pop().map(Blob::adopt) {
                        Some(Ok(blob)) => Some(Came::Blob(blob, length)),
                        Some(Err(_)) => None,
                        None => Some(Came::NoFile),
                    };
                    match (blobs.get_mut(usize::from(slot)), came) {
                        (Some(place), Some(came)) => *place = Some(came),
                        _ => return News { nonsense: true, ..news },
                    }
                }
                None => return News { nonsense: true, ..news },
            }
        }
        news
    }

    /// Takes the blob of `slot`; nothing if none has come, which no honest peer does. What else has come is `heard`.
    pub(crate) fn take(&self, slot: u16, heard: impl FnOnce(News)) -> Option<Came> {
        let waiting = || self.blobs.lock().unwrap_or_else(PoisonError::into_inner)[usize::from(slot)].take();
        waiting().or_else(|| {
            heard(self.empty());
            waiting()
        })
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
