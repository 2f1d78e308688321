//! A peer's process, watched beside the sockets of its binding once something has come that could hide from them that it has died. See decision 0044.
//!
//! The kernel closes a socket when nobody has it any more, and files under way count as had: a peer that passes its own end as a file, or hides it in the queue of a socket that it passes,
//! leaves it open when it dies, for as long as who got it keeps it. So before such a file is let in, the clerk begins to watch the process. When that has ended, all that it did is done, and what it
//! sent lies in the sockets' queues. They are hung up on from this side then, which ends them as the kernel would have: what is in the queues comes first.

use crate::clerk::clerk;
use crate::closer::Connection;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use underpass_os::Other;
use underpass_threads::critical;

/// That of one binding, which its channels share.
#[derive(Debug)]
pub(crate) struct Deathwatch {
    /// Of the first channel, of which the kernel knows who is at its other end. The others are pairs, which their maker passes on.
    first: Weak<Connection>,
    state: Mutex<State>,
    own: Weak<Self>,
}

#[derive(Debug)]
struct State {
    /// Of all channels.
    sockets: Vec<Weak<Connection>>,
    stage: Stage,
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
    /// That of a binding of which `first` is the first channel's socket.
    pub(crate) fn new(first: &Arc<Connection>) -> Arc<Self> {
        let first = Arc::downgrade(first);
        let state = State { sockets: vec![first.clone()], stage: Stage::Idle };
        Arc::new_cyclic(|own| Self { first, state: Mutex::new(state), own: own.clone() })
    }

    /// Whoever holds it keeps its processor, since the clerk waits for it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The binding has one more channel.
    pub(crate) fn join(&self, socket: &Arc<Connection>) {
        let _held = critical();
        let mut state = self.state();
        state.sockets.retain(|socket| socket.strong_count() > 0);
        state.sockets.push(Arc::downgrade(socket));
        if let Stage::Over = state.stage {
            socket.hang_up();
        }
    }

    /// Something has come that could hide the peer's death; `false` if it must not be let in, since that would not be heard of for want of files or memory.
    pub(crate) fn begin(&self) -> bool {
        let _held = critical();
        let mut state = self.state();
        let (Stage::Idle, Some(first)) = (state.stage, self.first.upgrade()) else { return true };
        match first.other() {
            Ok(Other::Process(process)) => match self.watch(process) {
                Ok(key) => state.stage = Stage::Watched(key),
                Err(_) => return false,
            },
            Ok(Other::Ended) => state.end(),
            Ok(Other::This | Other::Unknown) => state.stage = Stage::Unknown,
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
        self.state().end();
    }

    /// The channel of `socket` has ended; with the first, so has the binding.
    pub(crate) fn leave(&self, socket: &Arc<Connection>) {
        if !std::ptr::eq(self.first.as_ptr(), Arc::as_ptr(socket)) {
            return;
        }
        let held = critical();
        let before = std::mem::replace(&mut self.state().stage, Stage::Over);
        drop(held);
        if let (Stage::Watched(key), Ok(clerk)) = (before, clerk()) {
            clerk.unwatch(key);
        }
    }
}

impl State {
    fn end(&mut self) {
        self.stage = Stage::Over;
        self.sockets.iter().filter_map(Weak::upgrade).for_each(|socket| socket.hang_up());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use underpass_os::Socket;

    fn pair() -> (Arc<Connection>, Socket) {
        let (ours, theirs) = Socket::pair().unwrap();
        (Connection::new(ours), Socket::adopt(theirs).unwrap())
    }

    fn is_hung_up(socket: &Socket) -> bool {
        socket.receive(&mut [0; 8]).is_ok_and(|received| received.len == 0)
    }

    #[test]
    fn who_made_both_ends_is_not_watched() {
        let (ours, _theirs) = pair();
        let watch = Deathwatch::new(&ours);
        assert!(watch.begin() && watch.begin());
        assert!(matches!(watch.state().stage, Stage::Unknown), "its own process would never end");
    }

    #[test]
    fn a_death_ends_all_channels_those_that_come_late_too_and_what_was_said_comes_first() {
        let ((first, its), (second, seconds), (late, lates)) = (pair(), pair(), pair());
        let watch = Deathwatch::new(&first);
        watch.join(&second);
        its.send(b"last", &[]).unwrap();
        watch.ended();
        watch.join(&late);
        let mut buffer = [0; 8];
        assert_eq!(first.receive(&mut buffer).unwrap().len, 4);
        assert!([&first, &second, &late].iter().all(|socket| is_hung_up(socket)));
        assert!(
            its.send(b"more", &[]).is_err() && [&seconds, &lates].iter().all(|theirs| is_hung_up(theirs))
        );
    }

    #[test]
    fn the_binding_ends_with_its_first_channel_alone() {
        let ((first, its), (second, _seconds)) = (pair(), pair());
        let watch = Deathwatch::new(&first);
        watch.join(&second);
        watch.leave(&second);
        assert!(matches!(watch.state().stage, Stage::Idle));
        watch.leave(&first);
        assert!(matches!(watch.state().stage, Stage::Over) && watch.begin());
        assert!(its.send(b"x", &[]).is_ok(), "who leaves hangs up by himself");
    }
}
