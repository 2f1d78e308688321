//! A peer's process, watched beside the sockets of its binding once something has come that could
//! hide from them that it has died. See decision 0044.
//!
//! The kernel closes a socket when nobody has it any more, and files under way count as had: a peer
//! that passes its own end as a file, or hides it in the queue of a socket that it passes, leaves
//! it open when it dies, for as long as who got it keeps it. So before such a file is let in, the
//! clerk begins to watch the process. When that has ended, all that it did is done, and what it
//! sent lies in the sockets' queues. They are hung up on from this side then, which ends them as
//! the kernel would have: what is in the queues comes first.

use crate::control::clerk::clerk;
use crate::control::control_socket::ControlSocket;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use underpass_os::Other;
use underpass_threads::critical;

/// That of one binding.
#[derive(Debug)]
pub(crate) struct Deathwatch {
    /// The binding's, of which the kernel knows who is at its other end.
    control: Weak<ControlSocket>,
    stage: Mutex<Stage>,
    own: Weak<Self>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Nothing has come that could hide a death.
    Idle,
    /// The clerk watches, under this key.
    Watched(u64),
    /// There is no such process, or none that this kernel names.
    Unknown,
    /// The binding has ended.
    Over,
}

impl Deathwatch {
    /// That of the binding whose socket `control` is.
    pub(crate) fn new(control: Weak<ControlSocket>) -> Arc<Self> {
        Arc::new_cyclic(|own| Self { control, stage: Mutex::new(Stage::Idle), own: own.clone() })
    }

    /// Whoever holds it keeps its processor, since the clerk waits for it.
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has come that could hide the peer's death; `false` if it must not be let in, since
    /// that would not be heard of for want of files or memory.
    pub(crate) fn begin(&self) -> bool {
        let _held = critical();
        let mut stage = self.stage();
        let (Stage::Idle, Some(control)) = (*stage, self.control.upgrade()) else { return true };
        match control.peer_process() {
            Ok(Other::Process(process)) => match self.watch(process) {
                Ok(key) => *stage = Stage::Watched(key),
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
        clerk()?.mourn(process, self.own.clone())
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
        if let (Stage::Watched(key), Ok(clerk)) = (before, clerk()) {
            clerk.unwatch(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::connection::{Connection, Link};
    use underpass_os::Socket;

    fn pair() -> (Arc<ControlSocket>, Socket) {
        let (ours, theirs) = Socket::pair().unwrap();
        (ControlSocket::new(Link::new(Connection::new(ours)), None), Socket::adopt(theirs).unwrap())
    }

    #[test]
    fn who_made_both_ends_is_not_watched() {
        let (ours, _theirs) = pair();
        let watch = Deathwatch::new(Arc::downgrade(&ours));
        assert!(watch.begin() && watch.begin());
        assert!(matches!(*watch.stage(), Stage::Unknown), "its own process would never end");
    }

    #[test]
    fn a_death_ends_the_connection_for_both_sides() {
        let (ours, theirs) = pair();
        let watch = Deathwatch::new(Arc::downgrade(&ours));
        watch.ended();
        assert!(theirs.send(b"more", &[]).is_err());
        assert!(theirs.receive(&mut [0; 8]).is_ok_and(|received| received.len == 0));
    }
}
