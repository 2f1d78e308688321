//! Detects the death of a peer whose sockets stay open, by watching its process. See decision 0044.
//!
//! The kernel closes a socket when no process has it any more, and a file that is under way counts
//! as held. If a peer passes its own end as a file, or hides it in the queue of a socket that it
//! passes, the receiver keeps the socket open when the peer dies. So before such a file is let in,
//! the clerk begins to watch the peer's process.
//!
//! When the process has ended, everything that it did is done, and everything that it sent lies in
//! the sockets' queues. Then this side hangs up. That ends the sockets as the kernel would have:
//! the contents of the queues come first.

use crate::control::clerk::clerk;
use crate::control::control_socket::ControlSocket;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use underpass_os::Other;
use underpass_threads::critical;

/// The watch of one connection.
#[derive(Debug)]
pub(crate) struct PeerDeathWatch {
    /// The control socket. The kernel knows the process at its other end.
    control: Weak<ControlSocket>,
    stage: Mutex<Stage>,
    own: Weak<Self>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// No file has come that could hide a death.
    Idle,
    /// The clerk watches the process, under this key.
    WatchEntry(u64),
    /// There is no such process, or this kernel can't name it.
    Unknown,
    /// The binding has ended.
    Over,
}

impl PeerDeathWatch {
    /// The watch of the binding whose socket is `control`.
    pub(crate) fn new(control: Weak<ControlSocket>) -> Arc<Self> {
        Arc::new_cyclic(|own| Self { control, stage: Mutex::new(Stage::Idle), own: own.clone() })
    }

    /// The holder must be critical, so that it keeps its processor, because the clerk waits for
    /// this lock.
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file has come that could hide the peer's death. Returns `false` if the file must not be
    /// let in: for want of files or memory the death would go unnoticed.
    pub(crate) fn begin(&self) -> bool {
        let _held = critical();
        let mut stage = self.stage();
        let (Stage::Idle, Some(control)) = (*stage, self.control.upgrade()) else { return true };
        match control.peer_process() {
            Ok(Other::Process(process)) => match self.watch(process) {
                Ok(key) => *stage = Stage::WatchEntry(key),
                Err(_) => return false,
            },
            Ok(Other::Ended) => {
                *stage = Stage::Over;
                control.hang_up_alone();
            }
            Ok(Other::This | Other::Unknown) => *stage = Stage::Unknown,
            Err(_) => return false,
        }
        true
    }

    fn watch(&self, process: OwnedFd) -> io::Result<u64> {
        clerk()?.watch_process(process, self.own.clone())
    }

    /// The process has ended.
    pub(crate) fn ended(&self) {
        let _held = critical();
        *self.stage() = Stage::Over;
        if let Some(control) = self.control.upgrade() {
            control.hang_up_alone();
        }
    }

    /// The binding has ended.
    pub(crate) fn leave(&self) {
        let held = critical();
        let before = std::mem::replace(&mut *self.stage(), Stage::Over);
        drop(held);
        if let (Stage::WatchEntry(key), Ok(clerk)) = (before, clerk()) {
            clerk.unwatch(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::connection::{BindingLink, Connection};
    use underpass_os::Socket;

    fn pair() -> (Arc<ControlSocket>, Socket) {
        let (ours, theirs) = Socket::pair().unwrap();
        (ControlSocket::new(BindingLink::new(Connection::new(ours)), None), Socket::adopt(theirs).unwrap())
    }

    #[test]
    fn a_process_that_made_both_ends_is_not_watched() {
        let (ours, _theirs) = pair();
        let watch = PeerDeathWatch::new(Arc::downgrade(&ours));
        assert!(watch.begin() && watch.begin());
        assert!(matches!(*watch.stage(), Stage::Unknown), "its own process would never end");
    }

    #[test]
    fn a_death_ends_the_connection_for_both_sides() {
        let (ours, theirs) = pair();
        let watch = PeerDeathWatch::new(Arc::downgrade(&ours));
        watch.ended();
        assert!(theirs.send(b"more", &[]).is_err());
        assert!(theirs.receive(&mut [0; 8]).is_ok_and(|received| received.len == 0));
    }
}
