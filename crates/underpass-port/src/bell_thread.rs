//! The kernel thread that waits for all bells of this domain.

use crate::bell::{BellNews, Rung};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use underpass_os::{Poller, Ready, fork};
use underpass_threads::critical;

/// The bells, and what is told of them.
///
/// | field | its writer |
/// |---|---|
/// | `poller` | any thread adds and removes; only the thread of the bells waits |
/// | `bells` | any thread, under the lock |
#[derive(Debug)]
pub(crate) struct BellThread {
    poller: Poller,
    bells: Mutex<Bells>,
    keys: AtomicU64,
}

#[derive(Default)]
struct Bells(HashMap<u64, Weak<dyn Heard>>);

/// An end of a lane, of which the thread hears.
pub(crate) trait Heard: Send + Sync {
    /// Something has come of the end's bell, which `poller` watches. Returns whether more will.
    fn heard(&self, poller: &Poller) -> bool;
}

impl<R: Rung> Heard for R {
    fn heard(&self, poller: &Poller) -> bool {
        match self.bell().read() {
            BellNews::Nothing => {}
            BellNews::Rang => self.rang(),
            BellNews::HungUp => {
                self.bell().stop(poller);
                self.hung_up();
                return false;
            }
        }
        true
    }
}

impl std::fmt::Debug for Bells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bells").field("len", &self.0.len()).finish()
    }
}

/// This domain's thread, which is started when the first bell is made.
///
/// # Errors
/// No kernel thread can be started, or this is a forked child, which has none of its parent's.
pub(crate) fn bell_thread() -> io::Result<&'static BellThread> {
    static THREAD: OnceLock<BellThread> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    fork::check()?;
    if let Some(thread) = THREAD.get() {
        return Ok(thread);
    }
    let _critical = critical();
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if THREAD.get().is_none() {
        let poller = Poller::new()?;
        std::thread::Builder::new().name("underpass-ports".to_owned()).spawn(|| THREAD.wait().run())?;
        THREAD.get_or_init(|| BellThread { poller, bells: Mutex::default(), keys: AtomicU64::new(0) });
    }
    Ok(THREAD.wait())
}

impl BellThread {
    /// A key that no other bell has or had.
    pub(crate) fn next_key(&self) -> u64 {
        // Relaxed: a number.
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    fn with<R>(&self, act: impl FnOnce(&mut HashMap<u64, Weak<dyn Heard>>) -> R) -> R {
        let _critical = critical();
        act(&mut self.bells.lock().unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Listens to `socket` under `key`.
    ///
    /// # Errors
    /// There are too many watches.
    pub(crate) fn add(&self, key: u64, socket: impl AsFd, of: Weak<dyn Heard>) -> io::Result<()> {
        // First, so that a ring finds the bell.
        self.with(|bells| bells.insert(key, of));
        self.poller.add(socket, key).inspect_err(|_| drop(self.with(|bells| bells.remove(&key))))
    }

    /// As [`add`](Self::add), for a socket from which nothing is read
    /// ([`Poller::add_for_room`]).
    ///
    /// # Errors
    /// There are too many watches.
    pub(crate) fn add_for_room(&self, key: u64, socket: impl AsFd, of: Weak<dyn Heard>) -> io::Result<()> {
        self.with(|bells| bells.insert(key, of));
        self.poller.add_for_room(socket, key).inspect_err(|_| drop(self.with(|bells| bells.remove(&key))))
    }

    /// Listens to it again.
    pub(crate) fn listen_again(&self, socket: impl AsFd, key: u64) {
        self.poller.listen_again(socket, key);
    }

    /// Listens to it no more until [`listen_again`](Self::listen_again).
    pub(crate) fn mute(&self, socket: impl AsFd, key: u64) {
        self.poller.quieten(socket, key);
    }

    /// Forgets the bell.
    pub(crate) fn remove(&self, key: u64, socket: impl AsFd) {
        self.with(|bells| bells.remove(&key));
        self.poller.remove(socket);
    }

    fn run(&self) {
        loop {
            let Ok(events) = self.poller.wait(None) else {
                // The kernel is out of memory. Either that passes, or the process does not live
                // long.
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            for event in events {
                if let Ready::File(key) = event {
                    self.heard(key);
                }
            }
        }
    }

    fn heard(&self, key: u64) {
        let of = self.with(|bells| bells.get(&key).and_then(Weak::upgrade));
        let Some(of) = of else { return };
        if !of.heard(&self.poller) {
            self.with(|bells| bells.remove(&key));
        }
    }
}
