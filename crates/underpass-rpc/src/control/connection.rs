//! Connections that this domain has made and shares with no other process, and the two directions
//! of one binding.

use crate::payload::passed_file::{PassedSocket, Unclosed};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use underpass_os::{Connected, Credentials, Other, Socket, fork};

/// A connection. Dropping the last reference does not wait until the files in its queue are closed.
#[derive(Debug)]
pub(crate) struct Connection {
    /// `None` only while it is dropped.
    socket: Option<Socket>,
    unclosed: Mutex<Option<Arc<Unclosed>>>,
}

impl Connection {
    pub(crate) fn new(socket: Socket) -> Arc<Self> {
        Arc::new(Self { socket: Some(socket), unclosed: Mutex::default() })
    }

    /// The account to which its files are charged. At first it is that of the user at the other
    /// end.
    pub(crate) fn unclosed(&self) -> Arc<Unclosed> {
        let mut unclosed = self.unclosed.lock().unwrap_or_else(PoisonError::into_inner);
        unclosed.get_or_insert_with(|| Unclosed::of_peer(&**self)).clone()
    }

    pub(crate) fn counts_for(&self, unclosed: &Arc<Unclosed>) {
        *self.unclosed.lock().unwrap_or_else(PoisonError::into_inner) = Some(unclosed.clone());
    }
}

impl Deref for Connection {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        self.socket.as_ref().expect("it is there until it is dropped")
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(socket) = self.socket.take() else { return };
        // In a forked child the connection is the parent's.
        if fork::check().is_err() {
            return;
        }
        // From here on the peer can add nothing to the queue.
        socket.hang_up();
        while let Some(unread) = socket.unread() {
            if unread.with_files || socket.receive_plain(&mut []).is_err() {
                // The files stay in the queue, and are closed with the socket.
                let unclosed = self.unclosed.get_mut().unwrap_or_else(PoisonError::into_inner).take();
                return unclosed.unwrap_or_else(|| Unclosed::of_peer(&socket)).close(OwnedFd::from(socket));
            }
        }
    }
}

/// Both directions of one binding's messages.
///
/// Most bindings have one connection for both. A binding that was made by a ticket has a pair of
/// sockets for each direction: the reader has made it, keeps one end, and has passed the other to
/// its peer.
#[derive(Debug)]
pub(crate) struct BindingLink {
    reading: Arc<Connection>,
    sending: Option<PassedSocket>,
    /// The other end of `reading`, until it goes to the peer with the answer to its hello.
    to_pass: Mutex<Option<OwnedFd>>,
}

impl BindingLink {
    /// One connection for both directions.
    pub(crate) fn new(connection: Arc<Connection>) -> Arc<Self> {
        Arc::new(Self { reading: connection, sending: None, to_pass: Mutex::default() })
    }

    /// Messages come over `reading`, and go over `sending`. The peer gets `to_pass` if it does not
    /// have the other end of `reading` yet.
    pub(crate) fn of_two(
        reading: Arc<Connection>,
        sending: PassedSocket,
        to_pass: Option<OwnedFd>,
    ) -> Arc<Self> {
        reading.counts_for(sending.unclosed());
        Arc::new(Self { reading, sending: Some(sending), to_pass: Mutex::new(to_pass) })
    }

    /// The end that the peer gets with the answer to its hello.
    pub(crate) fn take_to_pass(&self) -> Option<OwnedFd> {
        self.to_pass.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn reading(&self) -> &Arc<Connection> {
        &self.reading
    }

    /// Sends a message without waiting.
    pub(crate) fn send(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        match &self.sending {
            None => self.reading.send(bytes, files),
            Some(sending) => sending.end().send(bytes, files),
        }
    }

    /// Ends both directions: both sides see that the other is gone.
    pub(crate) fn hang_up(&self) {
        self.reading.hang_up();
        if let Some(sending) = &self.sending {
            sending.end().hang_up();
        }
    }

    /// Asks the kernel about the process that made the connection, or that made the pair of the
    /// other direction.
    fn ask<R>(&self, socket: impl FnOnce(&Socket) -> R, passed: impl FnOnce(&PassedSocket) -> R) -> R {
        match &self.sending {
            None => socket(&self.reading),
            Some(sending) => passed(sending),
        }
    }

    pub(crate) fn peer(&self) -> io::Result<Credentials> {
        self.ask(|socket| socket.peer(), |passed| passed.end().peer())
    }

    pub(crate) fn peer_groups(&self) -> io::Result<Vec<u32>> {
        self.ask(|socket| socket.peer_groups(), |passed| passed.end().peer_groups())
    }

    pub(crate) fn peer_label(&self) -> io::Result<Option<String>> {
        self.ask(|socket| socket.peer_label(), |passed| passed.end().peer_label())
    }

    pub(crate) fn peer_process(&self) -> io::Result<OwnedFd> {
        self.ask(|socket| socket.peer_process(), |passed| passed.end().peer_process())
    }

    /// The peer's process, if it can be watched.
    pub(crate) fn other(&self) -> io::Result<Other> {
        self.ask(|socket| socket.other(), |passed| passed.end().other())
    }
}
