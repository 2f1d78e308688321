//! The reactor: the kernel thread that sleeps in the poller and wakes threads whose descriptors are
//! ready.

use crate::direction::Directions;
use crate::event_source::EventSource;
use crate::lock::{CriticalGuard, lock};
use crate::registration;
use crate::waiting;
use polling::{Event, Events, Poller};
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// This domain's reactor. It is started when a thread first waits.
static REACTOR: OnceLock<Reactor> = OnceLock::new();

/// The poller, and the sources of its events by key.
///
/// | field | its writer |
/// |---|---|
/// | `poller` | waiters arm, owners of an `Async` remove; only the reactor's kernel thread waits |
/// | `sources` | waiters add their source before they first arm, owners of an `Async` remove |
#[derive(Debug)]
pub(crate) struct Reactor {
    poller: Poller,
    sources: Mutex<HashMap<usize, Arc<EventSource>>>,
}

impl Reactor {
    /// This domain's reactor. Starts it if that was not done yet.
    pub(crate) fn get() -> io::Result<&'static Self> {
        static STARTING: Mutex<()> = Mutex::new(());
        if let Some(reactor) = REACTOR.get() {
            return Ok(reactor);
        }
        let _one = lock(&STARTING);
        if REACTOR.get().is_none() {
            let poller = Poller::new()?;
            // The kernel thread waits until the reactor is published, so that an error here leaves
            // nothing behind.
            std::thread::Builder::new()
                .name("underpass-reactor".to_owned())
                .spawn(|| REACTOR.wait().run())?;
            REACTOR.get_or_init(|| Self { poller, sources: Mutex::default() });
        }
        Ok(REACTOR.wait())
    }

    /// Has the poller watch `fd` for the source.
    pub(crate) fn add(
        &self,
        source: &Arc<EventSource>,
        fd: BorrowedFd<'_>,
        interest: Directions,
    ) -> io::Result<()> {
        let key = source.key();
        // First, so that an event finds the source.
        self.sources().insert(key, Arc::clone(source));
        registration::add(&self.poller, fd, interest.event(key)).inspect_err(|_| {
            self.sources().remove(&key);
        })
    }

    /// Asks for one event of a descriptor that was added.
    pub(crate) fn arm(&self, key: usize, fd: BorrowedFd<'_>, interest: Directions) -> io::Result<()> {
        self.poller.modify(fd, interest.event(key))
    }

    /// Removes a descriptor that was added.
    pub(crate) fn remove(&self, key: usize, fd: BorrowedFd<'_>) {
        self.sources().remove(&key);
        // This fails only if the descriptor isn't there, and that is the result that was wanted.
        let _ = self.poller.delete(fd);
    }

    fn run(&self) {
        let mut events = Events::new();
        let mut taken = Vec::new();
        loop {
            events.clear();
            if self.poller.wait(&mut events, None).is_err() {
                // The kernel is out of memory. Either that passes, or the process does not live
                // long.
                std::thread::sleep(Duration::from_millis(1));
            }
            events.iter().for_each(|event| self.handle(&event, &mut taken));
        }
    }

    fn handle(&self, event: &Event, taken: &mut Vec<&'static underpass_threads::Control>) {
        // The map's lock is released before the source's is taken: a thread that arms holds the
        // source's lock and takes the map's.
        let source = self.sources().get(&event.key).cloned();
        if let Some(source) = source {
            source.ready(Directions::of(event), taken);
            taken.drain(..).for_each(waiting::wake);
        }
    }

    fn sources(&self) -> CriticalGuard<'_, HashMap<usize, Arc<EventSource>>> {
        lock(&self.sources)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::Direction;
    use crate::event_source::WaitOptions;
    use std::io::ErrorKind;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn known(source: &EventSource) -> bool {
        Reactor::get().unwrap().sources().contains_key(&source.key())
    }

    #[test]
    fn a_source_is_known_from_its_first_wait_until_it_is_forgotten() {
        let ((a, _b), source) = (UnixStream::pair().unwrap(), EventSource::new());
        assert!(!known(&source));
        let late = source.wait(a.as_fd(), Direction::Read, WaitOptions::until(Some(0))).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        assert!(known(&source));
        source.forget(a.as_fd());
        assert!(!known(&source));
        assert_eq!(Arc::strong_count(&source), 1);
    }

    #[test]
    fn what_the_poller_refuses_leaves_nothing() {
        let (file, source) = (std::fs::File::open("/proc/self/exe").unwrap(), EventSource::new());
        let refused = source.wait(file.as_fd(), Direction::Read, WaitOptions::ENDLESS).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        assert!(!known(&source));
    }
}
