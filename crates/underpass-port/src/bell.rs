//! A bell: the socket by which the other end of a lane wakes this domain.
//!
//! This domain has made the pair of sockets, and keeps this end. The peer has the other one, and
//! may send anything over it, as often as it likes.

use crate::bell_thread::{Heard, bell_thread};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use underpass_os::{Poller, Socket, peer};
use underpass_threads::{CriticalSection, critical};

/// The end of a lane that a bell belongs to.
pub(crate) trait Rung: Send + Sync {
    /// Its bell.
    fn bell(&self) -> &Bell;
    /// The peer has rung.
    fn rang(&self);
    /// The peer has closed its socket, or sends what no honest peer sends.
    fn hung_up(&self);
}

/// The end of a bell that waits.
#[derive(Debug)]
pub(crate) struct Bell {
    socket: Socket,
    key: u64,
    hearing: Mutex<Hearing>,
}

/// Whether this domain listens.
#[derive(Debug, Default)]
struct Hearing {
    /// A ring is awaited.
    awaited: bool,
    /// The poller does not listen, because the peer rang when nobody waited.
    muted: bool,
}

/// What came over a bell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BellNews {
    Nothing,
    Rang,
    HungUp,
}

impl Bell {
    /// A new bell, and the socket to pass to the peer. `watch` has to follow.
    ///
    /// # Errors
    /// Too many open files, or no kernel thread can be started.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (socket, theirs) = Socket::pair()?;
        // A bell carries no files. Kernels before 6.16 can't refuse them; see `read`.
        peer::admit_files(&socket, false);
        peer::admit_files(&theirs, false);
        let key = bell_thread()?.next_key();
        Ok((Self { socket, key, hearing: Mutex::default() }, theirs))
    }

    /// Begins to listen. `of` is told what comes.
    ///
    /// # Errors
    /// There are too many watches.
    pub(crate) fn watch<R: Rung + 'static>(of: &Arc<R>) -> io::Result<()> {
        let bell = of.bell();
        let of: Weak<dyn Heard> = Arc::downgrade(of) as Weak<dyn Heard>;
        bell_thread()?.add(bell.key, &bell.socket, of)
    }

    /// Whether nobody listens to the bell.
    #[cfg(test)]
    pub(crate) fn is_muted(&self) -> bool {
        self.hearing().0.muted
    }

    /// Has `poller` forget the socket: its peer has hung up.
    pub(crate) fn stop(&self, poller: &Poller) {
        poller.remove(&self.socket);
    }

    fn hearing(&self) -> (MutexGuard<'_, Hearing>, CriticalSection) {
        // The thread of the bells waits for this lock in the kernel, so its holder is not
        // preempted.
        let critical = critical();
        (self.hearing.lock().unwrap_or_else(PoisonError::into_inner), critical)
    }

    /// Listens for one ring. The attention bit is set afterwards.
    pub(crate) fn listen(&self) {
        let (mut hearing, _critical) = self.hearing();
        hearing.awaited = true;
        if std::mem::take(&mut hearing.muted)
            && let Ok(thread) = bell_thread()
        {
            thread.listen_again(&self.socket, self.key);
        }
    }

    /// Takes one message from the socket.
    pub(crate) fn read(&self) -> BellNews {
        // A file that is taken, or dropped while it is taken, could hold this thread up. So look
        // first.
        match self.socket.look() {
            Ok(next) if next.with_files => return BellNews::HungUp,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return BellNews::Nothing,
            Err(_) => return BellNews::HungUp,
        }
        match self.socket.receive_plain(&mut [0; 8]) {
            Ok(received) if received.len > 0 => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return BellNews::Nothing,
            _ => return BellNews::HungUp,
        }
        let (mut hearing, _critical) = self.hearing();
        if !std::mem::take(&mut hearing.awaited)
            && !std::mem::replace(&mut hearing.muted, true)
            && let Ok(thread) = bell_thread()
        {
            thread.mute(&self.socket, self.key);
        }
        BellNews::Rang
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if let Ok(thread) = bell_thread() {
            thread.remove(self.key, &self.socket);
        }
        close(&self.socket);
    }
}

/// Ends the connection, of which this domain has made both ends. The socket can be dropped then.
pub(crate) fn close(socket: &Socket) {
    // From now on nothing more comes. Files that a peer has sent lie in the queue, and closing them
    // may take as long as their maker likes. So another kernel thread closes them.
    socket.hang_up();
    loop {
        match socket.look() {
            Ok(next) if next.with_files => break,
            Ok(_) if socket.receive_plain(&mut [0; 8]).is_ok_and(|received| received.len > 0) => {}
            _ => return,
        }
    }
    if let Ok(socket) = socket.as_fd().try_clone_to_owned() {
        // Without a kernel thread the closure is dropped here, and this thread closes them.
        let _ = std::thread::Builder::new().name("underpass-closer".to_owned()).spawn(|| drop(socket));
    }
}
