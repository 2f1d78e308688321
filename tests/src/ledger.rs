//! An interface whose implementation is not `Sync`, and one that hands calls on to it.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use crate::server::ServerProcess;
use crate::watchdog::until;
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};
use underpass::{Bindings, CallError, Wire, cancellation, detached, thread};

/// How a method makes its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum Way {
    /// On its own thread.
    Plain,
    /// On its own thread, apart from its caller.
    Detached,
    /// On its own thread, with a forced donation.
    Urgent,
    /// On its own thread, with a deadline.
    Bounded,
    /// On a thread that works for the call.
    Elsewhere,
    /// In a blocking call.
    Blocking,
    /// In a blocking call that stays on its own kernel thread.
    BlockingHere,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::Detached,
        Self::Urgent,
        Self::Bounded,
        Self::Elsewhere,
        Self::Blocking,
        Self::BlockingHere,
    ];

    fn go<R: Send + 'static>(self, call: impl FnOnce() -> R + Send + 'static) -> R {
        match self {
            Self::Plain | Self::Urgent | Self::Bounded => call(),
            Self::Detached => detached(call),
            Self::Elsewhere => {
                let here = cancellation();
                thread::spawn(move || here.scope(call)).join().expect("no panic")
            }
            Self::Blocking => thread::blocking(call),
            Self::BlockingHere => thread::blocking_here(call),
        }
    }
}

/// The interface that the tests of exclusive services call.
#[underpass::interface]
pub trait Ledger {
    /// Adds, without a wait. Returns the sum.
    fn add(&self, by: u64) -> Result<u64, CallError>;
    /// Adds after some waits.
    fn add_late(&self, by: u64, waits: u32) -> Result<u64, CallError>;
    /// Adds, and borrows the sum across a wait.
    fn add_across(&self, by: u64) -> Result<u64, CallError>;
    /// Logs `id`.
    fn note(&self, id: u64) -> Result<(), CallError>;
    /// Logs `id`. Waits until the gate is open.
    fn hold(&self, id: u64) -> Result<(), CallError>;
    /// Logs `id`. Blocks its kernel thread until the gate is open, then computes for several time
    /// slices. So it never waits.
    fn keep(&self, id: u64) -> Result<(), CallError>;
    /// Waits until `all` calls are here.
    fn meet(&self, all: u32) -> Result<(), CallError>;
    /// Panics while it borrows the sum.
    fn panic(&self) -> Result<(), CallError>;
    /// Adds 1 to the ledger at the end of `names`. The names before it are those of relays.
    fn pass_on(&self, names: &[String], way: Way) -> Result<u64, CallError>;
    /// Adds 1 twice at once to the ledger `name`, on behalf of this call.
    fn fan_out(&self, name: &str) -> Result<(u64, u64), CallError>;
    /// The sum, and how often a method ran while another one did that had not waited.
    fn seen(&self) -> Result<(u64, u64), CallError>;
}

/// Opens the gate of a ledger, which may be busy.
#[underpass::interface]
pub trait Porch {
    /// Opens the gate.
    fn open(&self) -> Result<(), CallError>;
    /// What was logged.
    fn log(&self) -> Result<Vec<u64>, CallError>;
    /// How many threads wait for the token of an exclusive service, as a dump shows it.
    fn waiting(&self) -> Result<u64, CallError>;
    /// How many bindings there are.
    fn bindings(&self) -> Result<u64, CallError>;
}

/// Hands calls on.
#[underpass::interface(asynchronous)]
pub trait Relay {
    /// Adds 1 to the ledger at the end of `names`. The names before it are those of relays.
    fn relay(&self, names: &[String]) -> Result<u64, CallError>;
}

/// A gate, and a log.
#[derive(Debug, Default)]
pub struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    log: Mutex<Vec<u64>>,
    bindings: OnceLock<Bindings>,
}

impl Gate {
    /// These are the bindings that it counts.
    pub fn counts(&self, bindings: Bindings) {
        let _ = self.bindings.set(bindings);
    }

    fn is_open(&self) -> bool {
        *self.is_open.lock().unwrap()
    }

    fn wait(&self) {
        let mut is_open = self.is_open.lock().unwrap();
        while !*is_open {
            is_open = self.opened.wait(is_open).unwrap();
        }
    }
}

impl Porch for Arc<Gate> {
    fn open(&self) -> Result<(), CallError> {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
        Ok(())
    }

    fn log(&self) -> Result<Vec<u64>, CallError> {
        Ok(self.log.lock().unwrap().clone())
    }

    fn waiting(&self) -> Result<u64, CallError> {
        let waits = |awaited: thread::Awaited| awaited.kind == "the token of an exclusive service";
        Ok(thread::dump().threads.iter().filter(|thread| thread.awaited.is_some_and(waits)).count() as u64)
    }

    fn bindings(&self) -> Result<u64, CallError> {
        Ok(self.bindings.get().map_or(0, |bindings| bindings.list().len() as u64))
    }
}

/// The implementation of [`Ledger`]. It is not `Sync`.
#[derive(Debug, Default)]
pub struct Accounts {
    sum: RefCell<u64>,
    /// A method runs that has not waited.
    busy: Cell<bool>,
    intrusions: Cell<u64>,
    here: Cell<u32>,
    gate: Arc<Gate>,
}

fn unreachable(e: underpass::ImportError) -> CallError {
    CallError::Panicked(e.to_string())
}

fn ledger(name: &str, way: Way) -> Result<LedgerClient, CallError> {
    let client = LedgerClient::import_within(name, ServerProcess::soon()).map_err(unreachable)?;
    Ok(match way {
        Way::Urgent => client.urgent(),
        Way::Bounded => client.with_deadline(Duration::from_secs(3600)),
        _ => client,
    })
}

fn next(names: &[String], way: Way) -> Result<u64, CallError> {
    match names {
        [] => Err(CallError::Panicked("there is no name".to_owned())),
        [last] => ledger(last, way)?.add(1),
        [first, rest @ ..] => {
            let relay = RelayClient::import_within(first, ServerProcess::soon()).map_err(unreachable)?;
            match way {
                Way::Urgent => relay.urgent().relay(rest),
                Way::Bounded => relay.with_deadline(Duration::from_secs(3600)).relay(rest),
                _ => relay.relay(rest),
            }
        }
    }
}

impl Accounts {
    /// Accounts with an open gate that somebody else may look at.
    pub fn with(gate: &Arc<Gate>) -> Self {
        Self { gate: gate.clone(), ..Self::default() }
    }

    /// Runs `work`, which does not wait.
    fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.busy.replace(true) {
            self.intrusions.set(self.intrusions.get() + 1);
        }
        let result = work();
        self.busy.set(false);
        result
    }
}

impl Ledger for Accounts {
    fn add(&self, by: u64) -> Result<u64, CallError> {
        self.alone(|| {
            let sum = *self.sum.borrow();
            (0..black_box(50)).for_each(|n| _ = black_box(n));
            *self.sum.borrow_mut() = sum + by;
            Ok(sum + by)
        })
    }

    fn add_late(&self, by: u64, waits: u32) -> Result<u64, CallError> {
        for n in 0..waits {
            self.alone(|| black_box(n));
            match n % 2 {
                0 => thread::yield_now(),
                _ => thread::sleep(Duration::from_micros(1)),
            }
        }
        self.add(by)
    }

    fn add_across(&self, by: u64) -> Result<u64, CallError> {
        let mut sum = self.sum.borrow_mut();
        let new = *sum + by;
        thread::sleep(Duration::from_micros(1));
        *sum = new;
        Ok(new)
    }

    fn note(&self, id: u64) -> Result<(), CallError> {
        self.alone(|| self.gate.log.lock().unwrap().push(id));
        Ok(())
    }

    fn hold(&self, id: u64) -> Result<(), CallError> {
        self.note(id)?;
        let borrowed = self.sum.borrow_mut();
        until("the gate", || {
            thread::yield_now();
            self.gate.is_open().then_some(())
        });
        drop(borrowed);
        Ok(())
    }

    fn keep(&self, id: u64) -> Result<(), CallError> {
        /// Some time slices.
        const LONG: Duration = Duration::from_millis(50);
        self.note(id)?;
        self.alone(|| {
            let gate = self.gate.clone();
            thread::blocking(move || gate.wait());
            let begun = Instant::now();
            while begun.elapsed() < LONG {
                black_box(id);
            }
        });
        Ok(())
    }

    fn meet(&self, all: u32) -> Result<(), CallError> {
        self.here.set(self.here.get() + 1);
        until("the others", || {
            thread::yield_now();
            (self.here.get() >= all).then_some(())
        });
        Ok(())
    }

    fn panic(&self) -> Result<(), CallError> {
        let sum = self.sum.borrow_mut();
        panic!("at {sum}, on purpose");
    }

    fn pass_on(&self, names: &[String], way: Way) -> Result<u64, CallError> {
        let names = names.to_vec();
        way.go(move || next(&names, way))
    }

    fn fan_out(&self, name: &str) -> Result<(u64, u64), CallError> {
        let ledger = ledger(name, Way::Plain)?;
        let add = || {
            let (here, ledger) = (cancellation(), ledger.clone());
            thread::spawn(move || here.scope(|| ledger.add_late(1, 4)))
        };
        let [one, other] = [add(), add()].map(|thread| thread.join().expect("no panic"));
        Ok((one?, other?))
    }

    fn seen(&self) -> Result<(u64, u64), CallError> {
        Ok((*self.sum.borrow(), self.intrusions.get()))
    }
}

/// The implementation of [`Relay`].
#[derive(Debug)]
pub struct Forwards;

impl Relay for Forwards {
    fn relay(&self, names: &[String]) -> Result<u64, CallError> {
        next(names, Way::Plain)
    }
}

impl RelayAsync for Forwards {
    async fn relay(&self, names: &[String]) -> Result<u64, CallError> {
        match names {
            [last] => ledger(last, Way::Plain)?.add_async(1).await,
            _ => next(names, Way::Plain),
        }
    }
}

/// Adds 1 to the ledger `name`, `calls` times from each of `threads` threads at once. Every other
/// one is a kernel thread.
///
/// # Errors
/// The first error of a call.
///
/// # Panics
/// If the ledger cannot be imported.
pub fn add_from_threads(name: &str, threads: u64, calls: u64) -> Result<(), CallError> {
    let client = ledger(name, Way::Plain)?;
    let adds = || {
        let client = client.clone();
        move || {
            (0..calls).try_for_each(|n| match n % 8 {
                0 => client.add_late(1, 2).map(drop),
                _ => client.add(1).map(drop),
            })
        }
    };
    let user: Vec<_> = (0..threads / 2).map(|_| thread::spawn(adds())).collect();
    let kernel: Vec<_> = (threads / 2..threads).map(|_| std::thread::spawn(adds())).collect();
    user.into_iter().try_for_each(|thread| thread.join().expect("no panic"))?;
    kernel.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
}
