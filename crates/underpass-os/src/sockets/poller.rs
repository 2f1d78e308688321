//! Waits for many files at once. The clerk uses it; it is never on the path of a call.

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// A set of files, each under a key that the caller chooses. It also has a bell that any kernel
/// thread of this domain can ring.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    bell: OwnedFd,
}

/// An event that [`Poller::wait`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// A thread called [`Poller::ring`].
    Bell,
    /// The file of this key has a message, or its peer is gone.
    File(u64),
}

const BELL: u64 = u64::MAX;

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// Too many open files.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        Ok(Self { epoll, bell })
    }

    /// Watches `file` under `key`. The key must not be `u64::MAX`, which is the bell's.
    ///
    /// # Errors
    /// There is no memory, or there are too many watches (`fs.epoll.max_user_watches`).
    pub fn add(&self, file: impl AsFd, key: u64) -> io::Result<()> {
        let what = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        Ok(epoll::add(&self.epoll, file, epoll::EventData::new_u64(key), what)?)
    }

    /// Watches `file` as [`add`](Self::add) does, but reports nothing until
    /// [`listen_again`](Self::listen_again) is called for it.
    ///
    /// # Errors
    /// The errors of [`add`](Self::add).
    pub fn add_quietly(&self, file: impl AsFd, key: u64) -> io::Result<()> {
        let what = epoll::EventFlags::ONESHOT;
        Ok(epoll::add(&self.epoll, file, epoll::EventData::new_u64(key), what)?)
    }

    /// Reports each time that the peer takes a message of `file` out, which makes room there, and
    /// that the peer is gone. It reports once at first, too. Nothing is ever read from `file`, so
    /// it may be an end that a peer has made.
    ///
    /// # Errors
    /// The errors of [`add`](Self::add).
    pub fn add_for_room(&self, file: impl AsFd, key: u64) -> io::Result<()> {
        let what = epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, file, epoll::EventData::new_u64(key), what)?)
    }

    /// Reports nothing more about `file`, which is watched under `key`, except one time that its
    /// peer is gone.
    pub fn quieten(&self, file: impl AsFd, key: u64) {
        self.change(file, key, epoll::EventFlags::ONESHOT);
    }

    /// Watches `file` as [`add`](Self::add) did.
    pub fn listen_again(&self, file: impl AsFd, key: u64) {
        self.change(file, key, epoll::EventFlags::IN | epoll::EventFlags::RDHUP);
    }

    /// Reports once that `file` has something to read, as soon as it has. `file` was added by
    /// [`add_quietly`](Self::add_quietly).
    pub fn listen_once(&self, file: impl AsFd, key: u64) {
        self.change(file, key, epoll::EventFlags::IN | epoll::EventFlags::ONESHOT);
    }

    fn change(&self, file: impl AsFd, key: u64, what: epoll::EventFlags) {
        // This fails only if the file is not watched any more.
        let _ = epoll::modify(&self.epoll, file, epoll::EventData::new_u64(key), what);
    }

    /// Stops watching `file`.
    pub fn remove(&self, file: impl AsFd) {
        // This fails only if the file is not watched, which is the wanted result.
        let _ = epoll::delete(&self.epoll, file);
    }

    /// Ends the current [`wait`](Self::wait), or the next one.
    pub fn ring(&self) {
        // This can fail only if the bell is still ringing.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Waits for events, for at most `timeout_ns`. The result is empty if nothing came.
    ///
    /// # Errors
    /// The errors of `epoll_wait`, except interruptions.
    pub fn wait(&self, timeout_ns: Option<u64>) -> io::Result<Vec<Ready>> {
        let timeout = timeout_ns
            .map(|ns| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 });
        let mut space = [MaybeUninit::<epoll::Event>::uninit(); 64];
        let (events, _) = match epoll::wait(&self.epoll, &mut space, timeout.as_ref()) {
            Err(Errno::INTR) => return Ok(Vec::new()),
            other => other?,
        };
        Ok(events
            .iter()
            .map(|event| match event.data.u64() {
                BELL => {
                    let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
                    Ready::Bell
                }
                key => Ready::File(key),
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Socket;
    use crate::foreign::SendingEnd;

    #[test]
    fn an_end_that_is_never_read_hears_of_messages_that_were_taken_and_of_the_end() {
        let (ours, theirs) = Socket::pair().unwrap();
        let end = SendingEnd::adopt(theirs).unwrap();
        let poller = Poller::new().unwrap();
        poller.add_for_room(&end, 7).unwrap();
        let events = || poller.wait(Some(0)).unwrap();
        assert_eq!((events(), events()), (vec![Ready::File(7)], vec![]), "once at first");
        for _ in 0..3 {
            end.send(&[1], &[]).unwrap();
            assert_eq!(events(), [], "nothing was taken");
            ours.look().unwrap();
            assert_eq!(events(), [], "nor by a look");
            assert_eq!(ours.receive(&mut [0; 8]).unwrap().len, 1);
            assert_eq!((events(), events()), (vec![Ready::File(7)], vec![]));
            assert!(!end.is_over());
        }
        drop(ours);
        assert_eq!((events(), end.is_over()), (vec![Ready::File(7)], true));
        let (ours, theirs) = Socket::pair().unwrap();
        ours.hang_up();
        assert!(SendingEnd::adopt(theirs).unwrap().is_over());
    }
}
