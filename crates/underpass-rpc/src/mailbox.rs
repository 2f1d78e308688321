//! The socket of a binding after it was made, and the files that came over it.

use crate::control::{CONTROL, Control};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use underpass_channel::layout::SLOTS;
use underpass_os::{Blob, Socket};

/// One end's socket and the blobs that wait for their message, one for each slot at the most.
///
/// A sender passes a blob before it posts the message that names it; so whoever takes the message finds the blob here, or
/// in the socket.
#[derive(Debug)]
pub(crate) struct Mailbox {
    socket: Socket,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// The peer rang.
    pub(crate) bell: bool,
    /// The peer closes the binding.
    pub(crate) closing: bool,
    /// The peer is gone.
    pub(crate) gone: bool,
    /// The peer sent what no honest peer sends.
    pub(crate) nonsense: bool,
}

impl Mailbox {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, blobs: Mutex::new((0..SLOTS).map(|_| None).collect()) }
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

    /// Tells the peer that the binding is closed, and hangs up.
    pub(crate) fn close(&self) {
        // A peer that can't take it hears the hang-up.
        let _ = Control::Closing.send(&self.socket, &[]);
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
                Err(_) => return News { gone: true, ..news },
            };
            match Control::read(&buffer[..received.len]) {
                Some(Control::Bell) => news.bell = true,
                Some(Control::Closing) => news.closing = true,
                Some(Control::Blob { slot, length }) => {
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

    /// Takes the blob of `slot`; nothing if none has come, which no honest peer does. Calls `heard` if a bell came with it.
    pub(crate) fn take(&self, slot: u16, heard: impl FnOnce()) -> Option<Came> {
        let waiting = || self.blobs.lock().unwrap_or_else(PoisonError::into_inner)[usize::from(slot)].take();
        waiting().or_else(|| {
            // A peer that is gone is the clerk's matter, which reads the socket too.
            if self.empty().bell {
                heard();
            }
            waiting()
        })
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
