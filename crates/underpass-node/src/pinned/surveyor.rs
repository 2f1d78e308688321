//! The surveyor: the kernel thread that finds the processes of pinned domains, counts and pins.

use crate::pinned::domain_survey::{CpuUses, DomainSurvey};
use crate::pinned::members::ProcessTree;
use crate::pinned::surveyed_domain::SurveyedDomain;
use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;
use underpass_os::clock::now_ns;
use underpass_os::futex::{self, FutexScope};
use underpass_os::process_table;

/// The time between two surveys while threads are ready, in ns, and while none is.
const BUSY: u64 = 10_000_000;
const QUIET: u64 = 100_000_000;
/// A survey is followed by a rest that is so many times as long.
const REST: u64 = 50;

/// What other threads of the server share with the surveyor.
#[derive(Debug, Default)]
struct SurveyShared {
    domains: Mutex<Vec<Arc<SurveyedDomain>>>,
    /// Processes that have pages of their own. They are not pinned.
    registered: Mutex<HashSet<u32>>,
    /// A process has opened the jobserver's pipe, or has taken from it.
    is_noticed: AtomicBool,
    is_over: AtomicBool,
}

/// The surveyor, as the main thread has it. It ends when this is dropped, and gives everything back
/// before.
#[derive(Debug)]
pub(crate) struct SurveyorHandle {
    shared: Arc<SurveyShared>,
    thread: Option<JoinHandle<()>>,
}

/// As the receptionist has it.
#[derive(Clone, Debug)]
pub(crate) struct SurveyorBell {
    shared: Arc<SurveyShared>,
    thread: Thread,
}

impl SurveyorHandle {
    /// Starts the surveyor. It rings `doorbell` when the main thread is to look.
    pub(crate) fn start(doorbell: Arc<AtomicU32>) -> io::Result<Self> {
        let shared = Arc::new(SurveyShared::default());
        let surveyor = Surveyor {
            shared: shared.clone(),
            doorbell,
            domains: Vec::new(),
            surveyed_at: 0,
            cost: 0,
            has_looked: false,
        };
        let thread = thread::Builder::new().name("surveyor".into()).spawn(|| surveyor.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The domain takes part from now on, until its `is_over` is set.
    pub(crate) fn add(&self, domain: Arc<SurveyedDomain>) {
        lock(&self.shared.domains).push(domain);
        self.wake();
    }

    /// Says which processes have pages of their own.
    pub(crate) fn set_registered(&self, pids: HashSet<u32>) {
        *lock(&self.shared.registered) = pids;
    }

    /// Something was decided for a domain, or one is over.
    pub(crate) fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    pub(crate) fn bell(&self) -> Option<SurveyorBell> {
        let thread = self.thread.as_ref()?.thread().clone();
        Some(SurveyorBell { shared: self.shared.clone(), thread })
    }
}

impl Drop for SurveyorHandle {
    fn drop(&mut self) {
        // Relaxed, here and below: to unpark synchronizes.
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked: nothing in it does.
            let _ = thread.join();
        }
    }
}

impl SurveyorBell {
    /// A process has opened the jobserver's pipe, or has taken from it.
    pub(crate) fn ring(&self) {
        self.shared.is_noticed.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Surveyor {
    shared: Arc<SurveyShared>,
    /// The main thread's.
    doorbell: Arc<AtomicU32>,
    domains: Vec<DomainSurvey>,
    surveyed_at: u64,
    /// How long the last survey took.
    cost: u64,
    /// Whether it has looked for clients that were there before.
    has_looked: bool,
}

impl Surveyor {
    fn run(mut self) {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let has_come = self.meet();
            self.carry_out();
            let is_due = self.next_survey().is_some_and(|next| now_ns() >= next);
            if (has_come || is_due) && self.survey() {
                self.ring();
            }
            let pins = self.domains.iter().filter_map(DomainSurvey::pins_due);
            match self.next_survey().into_iter().chain(pins).min() {
                Some(next) => {
                    thread::park_timeout(Duration::from_nanos(next.saturating_sub(now_ns()).max(1)));
                }
                None => thread::park(),
            }
        }
        self.domains.iter_mut().for_each(DomainSurvey::release);
    }

    /// Lets domains come and go. Returns whether one has come.
    fn meet(&mut self) -> bool {
        let new = std::mem::take(&mut *lock(&self.shared.domains));
        let has_come = !new.is_empty();
        self.domains.extend(new.into_iter().map(DomainSurvey::new));
        self.domains.retain_mut(|survey| {
            let is_over = survey.domain.is_over.load(Ordering::Relaxed);
            if is_over {
                survey.release();
            }
            !is_over
        });
        has_come
    }

    /// Pins as the main thread has decided.
    fn carry_out(&mut self) {
        let now = now_ns();
        for at in 0..self.domains.len() {
            let mut others = CpuUses::new();
            let rest = self.domains.iter().enumerate().filter(|&(other, _)| other != at);
            rest.for_each(|(_, survey)| survey.add_uses(&mut others));
            self.domains[at].carry_out(&others, now);
        }
    }

    /// When the next survey is due. `None` while there is nothing to survey.
    fn next_survey(&self) -> Option<u64> {
        let soon = self.surveyed_at + (REST * self.cost).max(BUSY);
        let later = self.surveyed_at + (REST * self.cost).max(QUIET);
        if self.shared.is_noticed.load(Ordering::Relaxed) && !self.domains.is_empty() {
            return Some(soon);
        }
        let due = self.domains.iter().filter_map(DomainSurvey::due).min();
        let is_quiet = self.domains.iter().all(DomainSurvey::is_quiet);
        match self.domains.iter().any(DomainSurvey::is_busy) {
            true => Some(soon),
            false if is_quiet => due.map(|due| due.max(soon)),
            false => Some(later),
        }
    }

    /// Returns whether what a domain wants has changed.
    fn survey(&mut self) -> bool {
        let begun = now_ns();
        self.surveyed_at = begun;
        // Cleared before the look: what comes meanwhile is seen by the next one.
        let noticed = self.shared.is_noticed.swap(false, Ordering::Relaxed) || !self.has_looked;
        self.has_looked = true;
        let Ok(table) = process_table::read() else { return false };
        let tree = ProcessTree::new(table);
        let mut walls = lock(&self.shared.registered).clone();
        walls.insert(std::process::id());
        walls.extend(self.domains.iter().filter_map(DomainSurvey::root));
        // Commands first: what they have started is theirs, also if it is a client.
        self.domains.sort_by_key(|survey| survey.root().is_none());
        let mut has_changed = false;
        for survey in &mut self.domains {
            if noticed {
                survey.find_clients(&tree);
            }
            has_changed |= survey.survey(&tree, &walls, begun);
            walls.extend(survey.pids());
        }
        self.cost = now_ns() - begun;
        has_changed
    }

    /// Has the main thread look.
    fn ring(&self) {
        // SYNC with the load of the doorbell before the main thread's sleep.
        self.doorbell.fetch_add(1, Ordering::Release);
        futex::wake(&self.doorbell, FutexScope::Private, 1);
    }
}
