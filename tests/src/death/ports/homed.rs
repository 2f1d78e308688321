//! Objects with a home: remotes die, and homes. What is checked: each invocation is executed once,
//! versions are whole, the data of a hybrid lock are whole or told to be broken, and permits come
//! back.

use super::journal::Journals;
use super::messages::pause;
use super::victim::{Ended, Shared};
use super::{GLANCE, MESSAGES, NAME, Outcome, Survivor, holds, id, in_order, round_of};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use underpass::homed::invoke::{
    HomeInvoker, InvocationHandlers, InvocationHome, InvokeError, InvokerConnectError, MaskedInterrupts,
};
use underpass::homed::lock::{HomedSemaphore, HybridFailure, HybridHome, HybridObject};
use underpass::homed::{HomedError, HomedObject, ObjectHome, ObjectImportError, ObjectVersion};
use underpass::port::ConnectError;
use underpass::{ImportError, Running, Server, thread};
use underpass_tests::{ADD, Numbers, Pair, ServerProcess, Sheet, count_pair_up, until};

/// Names beside that of the handlers.
const SHEET: &str = "mortal-sheet";
const PAIR: &str = "mortal-pair";
const PERMITS: &str = "mortal-permits";
/// Longer than a process is stopped.
const LONG: Duration = Duration::from_secs(60);
const ALL: usize = 2;

/// A version, if it is whole.
fn whole(version: &ObjectVersion<Sheet>) -> Outcome<u64> {
    holds(version.value == Sheet::of(version.number()), || format!("{version:?} is torn"))?;
    Ok(version.number())
}

/// A home of all that there is.
struct Home {
    sheet: ObjectHome<Sheet>,
    pair: HybridHome<Pair>,
    permits: HomedSemaphore,
    _interrupts: InvocationHome,
    running: Running,
}

impl Home {
    /// Its handler calls `executes` with each id.
    fn open(masked: MaskedInterrupts, mut executes: impl FnMut(u64) + Send + 'static) -> Outcome<Self> {
        let handlers = InvocationHandlers::new().while_masked(masked);
        let (sheets, sheet) = ObjectHome::new(Sheet::of(1))?;
        let (pairs, pair) = HybridHome::new(Pair::default(), &handlers)?;
        let (semaphores, permits) = HomedSemaphore::new(ALL)?;
        let handled = pair.clone();
        let (services, interrupts) = handlers
            .on(ADD, move |[id, ..]| {
                executes(id);
                // A stopped remote may hold the lock: then it is left.
                let _ = count_pair_up(handled.lock(Duration::from_micros(200)));
                [id; 6]
            })
            .start();
        let server = Server::new().export(SHEET, sheets).export(PAIR, pairs).export(PERMITS, semaphores);
        let running = services.export(server, NAME).start()?;
        Ok(Self { sheet, pair, permits, _interrupts: interrupts, running })
    }

    /// What a thread of the home does beside handlers.
    fn live(&self) -> Outcome {
        match count_pair_up(self.pair.lock(GLANCE)) {
            Ok(()) | Err(HybridFailure::TimedOut) => {}
            Err(why) => return Err(why.into()),
        }
        self.sheet.update(Sheet::turn)?;
        drop(self.permits.try_acquire());
        Ok(())
    }
}

/// What a remote has of a home.
#[derive(Clone)]
struct Remote {
    invoker: HomeInvoker,
    sheet: HomedObject<Sheet>,
    pair: HybridObject<Pair>,
    permits: HomedSemaphore,
}

/// Why a remote could not import, if that is the home's end or slowness.
fn absent(of: &ImportError) -> bool {
    matches!(of, ImportError::NotExported(_) | ImportError::Dead(_) | ImportError::NoAnswer(..))
}

impl Remote {
    /// `None`: the home is not there yet, or not any more.
    fn connect(patience: Duration) -> Outcome<Option<Self>> {
        let invoker = match HomeInvoker::connect_within(NAME, patience) {
            Ok(invoker) => invoker,
            Err(InvokerConnectError::Import(e) | InvokerConnectError::Signals(ConnectError::Import(e)))
                if absent(&e) =>
            {
                return Ok(None);
            }
            Err(InvokerConnectError::Call(_) | InvokerConnectError::Signals(ConnectError::Call(_))) => {
                return Ok(None);
            }
            Err(e) => return Err(e.into()),
        };
        let imported = || -> Result<Self, ObjectImportError> {
            Ok(Self {
                invoker,
                sheet: HomedObject::import_within(SHEET, patience)?,
                pair: HybridObject::import_within(PAIR, patience)?,
                permits: HomedSemaphore::import_within(PERMITS, patience)?,
            })
        };
        match imported() {
            Ok(remote) => Ok(Some(remote)),
            Err(ObjectImportError::Import(e)) if absent(&e) => Ok(None),
            Err(ObjectImportError::Call(_)) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// What a thread of a remote does beside invocations. The home's death is told by `false`.
    fn live(&self, last: &mut u64) -> Outcome<bool> {
        let version = match self.sheet.access() {
            Ok(version) => version,
            Err(HomedError::HomeDied(version)) => *version,
            Err(e) => return Err(format!("{e}").into()),
        };
        let number = whole(&version)?;
        holds(number >= *last, || format!("version {number} came after {last}"))?;
        *last = number;
        let _permit = match self.permits.acquire(LONG) {
            Err(HybridFailure::HomeDied) => return Ok(false),
            permit => permit?,
        };
        match count_pair_up(self.pair.lock(LONG)) {
            Err(HybridFailure::HomeDied) => Ok(false),
            counted => Ok(counted.map(|()| true)?),
        }
    }
}

/// A remote: notes what it has begun, and what was executed.
pub fn reach(journals: Journals, numbers: &mut Numbers, round: u64) -> Outcome {
    let remote = Remote::connect(ServerProcess::soon())?.ok_or("the home is not there")?;
    let journals = Arc::new(journals);
    let threads: Vec<_> = (0..numbers.among(&[1, 3]))
        .map(|number| {
            let (remote, journals) = (remote.clone(), journals.clone());
            thread::spawn(move || {
                let mut last = 0;
                for message in 0..MESSAGES {
                    let id = id(round, number, message);
                    journals.counts.note(id);
                    assert_eq!(remote.invoker.invoke(ADD, [id; 6], LONG), Ok([id; 6]));
                    journals.messages.note(id);
                    assert!(remote.live(&mut last).expect("all is whole"), "the home lives");
                    pause(message);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it doesn't panic"));
    Ok(())
}

/// A home: notes what it executes.
pub fn own(journals: Journals, numbers: &mut Numbers) -> Outcome {
    let masked = numbers.among(&[MaskedInterrupts::Queued, MaskedInterrupts::Held]);
    let home = Home::open(masked, move |id| journals.messages.note(id))?;
    for turn in 0.. {
        home.live()?;
        pause(turn);
    }
    Ok(())
}

/// The home that lives on.
pub struct Homes {
    home: Home,
    executed: Arc<Mutex<Vec<u64>>>,
}

impl Homes {
    pub fn open() -> Outcome<Self> {
        let executed = Arc::<Mutex<Vec<u64>>>::default();
        let notes = executed.clone();
        let home = Home::open(MaskedInterrupts::Queued, move |id| {
            notes.lock().expect("no handler panics").push(id);
        })?;
        Ok(Self { home, executed })
    }
}

impl Survivor for Homes {
    fn steps(&self) -> &'static [&'static str] {
        &["invoke-", "hybrid-remote-", "hybrid-permit-", "hybrid-waits", "version-copied"]
    }

    fn talk(&mut self, _: u64, _: &mut Numbers, shared: &Shared) -> Outcome {
        let mut turn = 0;
        while !(shared.is_gone() && self.home.running.bindings().list().is_empty()) {
            self.home.live()?;
            turn += 1;
            pause(turn);
        }
        Ok(())
    }

    fn judge(&mut self, round: u64, ended: Ended, journals: &Journals) -> Outcome {
        // What the dead has held is free, and its data are whole or told to be broken.
        until("the permits", || (self.home.permits.available() == ALL).then_some(()));
        count_pair_up(self.home.pair.lock(LONG))?;
        let mut executed = std::mem::take(&mut *self.executed.lock().expect("no handler panics"));
        // A request of a process that died may be executed after its round.
        executed.retain(|&id| round_of(id) == round);
        let (begun, done) = (journals.counts.all(), journals.messages.all());
        let said = || format!("{executed:?} were executed, {begun:?} begun, {done:?} done");
        // In the order of each thread, and nothing twice.
        let counts = [executed.clone(), begun.clone(), done.clone()].map(in_order);
        let [executed, begun, done] = counts;
        let (executed, begun, done) = (executed?, begun?, done?);
        let between = |at: usize| done[at] <= executed[at] && executed[at] <= begun[at];
        holds((0..4).all(between), said)?;
        let complete = |count: &u64| *count == 0 || *count == MESSAGES;
        holds(ended != Ended::ByItself || executed.iter().all(complete), said)
    }
}

/// The remote that lives on.
#[derive(Default)]
pub struct Remotes {
    told: Vec<u64>,
    /// What was invoked when the home died.
    open: HashSet<u64>,
}

impl Survivor for Remotes {
    fn steps(&self) -> &'static [&'static str] {
        &[
            "interrupt-",
            "hybrid-home-",
            "hybrid-waits",
            "version-begun",
            "version-written",
            "version-published",
        ]
    }

    fn talk(&mut self, round: u64, numbers: &mut Numbers, shared: &Shared) -> Outcome {
        (self.told, self.open) = Default::default();
        let remote = loop {
            match Remote::connect(GLANCE)? {
                Some(remote) => break remote,
                None if shared.is_gone() => return Ok(()),
                None => {}
            }
        };
        let threads: Vec<_> = (0..numbers.among(&[1, 3]))
            .map(|thread| {
                let remote = remote.clone();
                std::thread::spawn(move || -> Result<(Vec<u64>, Option<u64>), String> {
                    let (mut told, mut last) = (Vec::new(), 0);
                    for message in 0..MESSAGES {
                        let id = id(round, thread, message);
                        match remote.invoker.invoke(ADD, [id; 6], LONG) {
                            Ok(results) if results == [id; 6] => told.push(id),
                            Err(InvokeError::HomeDied) => return Ok((told, Some(id))),
                            other => return Err(format!("{id} was told {other:?}")),
                        }
                        if !remote.live(&mut last).map_err(|e| e.to_string())? {
                            return Ok((told, None));
                        }
                        pause(message);
                    }
                    Ok((told, None))
                })
            })
            .collect();
        for thread in threads {
            let (told, open) = thread.join().expect("it doesn't panic")?;
            self.told.extend(told);
            self.open.extend(open);
        }
        Ok(())
    }

    fn judge(&mut self, _: u64, _: Ended, journals: &Journals) -> Outcome {
        let executed = journals.messages.all();
        let said = || format!("{executed:?} were executed, {:?} told, {:?} open", self.told, self.open);
        let all: HashSet<_> = executed.iter().copied().collect();
        holds(all.len() == executed.len(), said)?;
        holds(self.told.iter().all(|id| all.contains(id)), said)?;
        let known = |id: &u64| self.told.contains(id) || self.open.contains(id);
        holds(executed.iter().all(known), said)?;
        in_order(executed.clone()).map(drop)
    }
}
