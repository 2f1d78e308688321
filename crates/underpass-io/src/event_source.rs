//! An event source: one descriptor as the reactor knows it, and the threads that wait for it. The
//! steps (J1, E3, …) are those of `README.md`.

use crate::direction::{Direction, Directions};
use crate::lock::lock;
use crate::reactor::Reactor;
use crate::waiting;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use underpass_threads::{Awaited, Cancelled, Control, Wait, Woken, me};

/// How long a wait may last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitOptions {
    /// A time of `underpass_os::clock`, in ns.
    pub(crate) deadline_ns: Option<u64>,
    pub(crate) cancellable: bool,
}

impl WaitOptions {
    /// Until the descriptor is ready or the thread is cancelled.
    pub(crate) const ENDLESS: Self = Self { deadline_ns: None, cancellable: true };

    /// As [`ENDLESS`](Self::ENDLESS), but not beyond `deadline_ns`.
    pub(crate) const fn until(deadline_ns: Option<u64>) -> Self {
        Self { deadline_ns, cancellable: true }
    }
}

/// The part of an `Async` that the reactor refers to. It holds no descriptor, so it may outlive the
/// `Async`.
#[derive(Debug)]
pub(crate) struct EventSource {
    /// Never used again in this process.
    key: usize,
    state: Mutex<State>,
}

/// The state of a source, all of it under its lock.
#[derive(Debug, Default)]
struct State {
    /// Whether the poller knows the descriptor.
    added: bool,
    armed: Directions,
    ticks: Ticks,
    waiters: Vec<&'static Control>,
}

/// How many events have found each direction ready.
#[derive(Clone, Copy, Debug, Default)]
struct Ticks {
    read: u64,
    write: u64,
}

impl EventSource {
    pub(crate) fn new() -> Arc<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: the key only has to be unique. `usize::MAX`, which is the poller's own key, is
        // out of reach.
        Arc::new(Self { key: NEXT.fetch_add(1, Ordering::Relaxed), state: Mutex::default() })
    }

    pub(crate) fn key(&self) -> usize {
        self.key
    }

    /// Suspends the caller until an event has found `fd` ready for `direction`.
    pub(crate) fn wait(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        direction: Direction,
        options: WaitOptions,
    ) -> io::Result<()> {
        let (me, reactor) = (me(), Reactor::get()?);
        let mut before = None;
        loop {
            // J1 to J4.
            let mut state = lock(&self.state);
            let tick = state.ticks.of(direction);
            if *before.get_or_insert(tick) != tick {
                return Ok(());
            }
            self.arm(reactor, &mut state, fd, direction)?;
            state.waiters.push(me);
            drop(state);
            // J5.
            let waiting = Waiting { source: self, direction };
            match waiting::suspend(me, &waiting, options.deadline_ns, options.cancellable) {
                Woken::Woken => {}
                Woken::Late => return Err(io::ErrorKind::TimedOut.into()),
                Woken::Cancelled => return Err(Cancelled.into()),
            }
        }
    }

    /// J3.
    fn arm(
        self: &Arc<Self>,
        reactor: &Reactor,
        state: &mut State,
        fd: BorrowedFd<'_>,
        direction: Direction,
    ) -> io::Result<()> {
        if state.armed.has(direction) {
            return Ok(());
        }
        let interest = state.armed.with(direction);
        match state.added {
            true => reactor.arm(self.key, fd, interest)?,
            false => reactor.add(self, fd, interest)?,
        }
        state.added = true;
        state.armed = interest;
        Ok(())
    }

    /// E3 to E5: moves all waiters to `taken`. The caller must wake them.
    pub(crate) fn ready(&self, ready: Directions, taken: &mut Vec<&'static Control>) {
        let mut state = lock(&self.state);
        state.armed = Directions::default();
        state.ticks.advance(ready);
        taken.append(&mut state.waiters);
    }

    /// The owner gives up `fd`. Nobody waits, since a waiter borrows the owner.
    pub(crate) fn forget(&self, fd: BorrowedFd<'_>) {
        let added = std::mem::take(&mut lock(&self.state).added);
        if added && let Ok(reactor) = Reactor::get() {
            reactor.remove(self.key, fd);
        }
    }
}

impl Ticks {
    fn of(self, direction: Direction) -> u64 {
        match direction {
            Direction::Read => self.read,
            Direction::Write => self.write,
        }
    }

    fn advance(&mut self, ready: Directions) {
        self.read += u64::from(ready.read);
        self.write += u64::from(ready.write);
    }
}

/// One thread's wait.
struct Waiting<'a> {
    source: &'a EventSource,
    direction: Direction,
}

impl Wait for Waiting<'_> {
    fn abandon(&self, thread: &'static Control) -> bool {
        let mut state = lock(&self.source.state);
        let waiters = &mut state.waiters;
        let place = waiters.iter().position(|waiter| std::ptr::eq(*waiter, thread));
        place.map(|place| waiters.remove(place)).is_some()
    }

    fn describe(&self) -> Awaited {
        let kind = match self.direction {
            Direction::Read => "reading from a descriptor",
            Direction::Write => "writing to a descriptor",
        };
        Awaited { kind, address: std::ptr::from_ref(self.source).addr(), holder: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Directions = Directions { read: true, write: false };

    fn waiting(source: &EventSource) -> Waiting<'_> {
        lock(&source.state).waiters.push(me());
        Waiting { source, direction: Direction::Read }
    }

    #[test]
    fn a_waiter_that_gave_up_is_not_woken() {
        let source = EventSource::new();
        assert!(waiting(&source).abandon(me()));
        let mut taken = Vec::new();
        source.ready(READ, &mut taken);
        assert!(taken.is_empty());
    }

    #[test]
    fn a_waiter_that_is_being_woken_can_t_give_up() {
        let source = EventSource::new();
        let waiting = waiting(&source);
        let mut taken = Vec::new();
        source.ready(READ, &mut taken);
        assert!(std::ptr::eq(taken[0], me()) && taken.len() == 1);
        assert!(!waiting.abandon(me()));
    }

    #[test]
    fn an_event_takes_out_all_and_counts_for_those_it_was_for() {
        let source = EventSource::new();
        lock(&source.state).armed = READ.with(Direction::Write);
        let before = lock(&source.state).ticks;
        let _waiting = (waiting(&source), waiting(&source));
        let mut taken = Vec::new();
        source.ready(READ, &mut taken);
        let state = lock(&source.state);
        assert_eq!((taken.len(), state.armed), (2, Directions::default()));
        assert_eq!(state.ticks.of(Direction::Read), before.read + 1);
        assert_eq!(state.ticks.of(Direction::Write), before.write);
    }

    #[test]
    fn no_key_is_given_twice() {
        let keys: std::collections::HashSet<_> = (0..100).map(|_| EventSource::new().key()).collect();
        assert_eq!(keys.len(), 100);
    }
}
