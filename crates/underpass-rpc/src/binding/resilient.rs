//! Resilient bindings: they outlive their server. The client imports again, and repeats calls where
//! that is safe.
//!
//! Ids and sessions that one server gave to a client may mean something else to the next server. So
//! bindings have *generations*. A new binding begins a new generation unless the state of the
//! previous binding has gone on. It has gone on if the interface is stateless, if the server says
//! so, or if the client's hook has restored it. A call stays within the generation in which it
//! began, and each clone of a stub makes calls only in the generation that it knows. See decision
//! 0057.

mod next_binding;
mod policy;
mod reimport;
mod repeated_call;

pub use self::policy::Policy;
pub(crate) use self::repeated_call::RepeatedCall;

use self::next_binding::Waiter;
use crate::binding::import::{self, Bound, ImportMode};
use crate::call::abandon::Abandon;
use crate::call::client::QUARANTINE;
use crate::counters::Counters;
use crate::error::{CallError, ImportError};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use underpass_os::{Directory, fork};
use underpass_threads::critical;
use underpass_wire::Descriptor;

/// Restores a client's state over a new binding. The `Abandon` frees the calls that it makes.
pub(crate) type Restore = dyn Fn(Arc<Bound>, Abandon) -> Result<(), String> + Send + Sync;

/// A binding, and what is needed to replace it when it ends.
pub(crate) struct Resilient {
    directory: Directory,
    name: String,
    descriptor: &'static Descriptor,
    policy: Policy,
    restore: Option<Box<Restore>>,
    present: Mutex<Present>,
}

/// The current binding, and the callers that wait for the next one.
struct Present {
    bound: Arc<Bound>,
    /// Counts the bindings that did not continue the state of the previous one.
    generation: u64,
    /// Why the state did not go on, the last time that it did not.
    why: Arc<str>,
    /// The quarantine limit of this binding and of those after it.
    quarantine: u32,
    /// What the previous bindings have carried.
    past: Counters,
    /// The callers that wait for the next binding, or pause before they do.
    waiters: Vec<Waiter>,
    /// How many callers have waited so far. It numbers the waiters.
    waited: u64,
    /// A kernel thread attempts to make the next binding.
    importing: bool,
    /// How many attempts have failed for good.
    failures: u64,
    /// Frees the calls of the hook that runs.
    restoring: Option<Abandon>,
}

/// The generation that a clone of a stub knows.
#[derive(Debug, Default)]
pub(crate) struct KnownGeneration(AtomicU64);

impl KnownGeneration {
    fn get(&self) -> u64 {
        // Relaxed, here and in `acknowledge`: threads that share a clone synchronise by themselves.
        self.0.load(Ordering::Relaxed)
    }
}

impl Clone for KnownGeneration {
    fn clone(&self) -> Self {
        Self(self.get().into())
    }
}

impl Resilient {
    pub(crate) fn new(
        directory: Directory,
        name: &str,
        descriptor: &'static Descriptor,
        policy: Policy,
        restore: Option<Box<Restore>>,
    ) -> Result<Self, ImportError> {
        let bound =
            Arc::new(import::bind(&directory, name, descriptor, Some(policy.patience), ImportMode::Joins)?);
        let present = Present {
            bound,
            generation: 0,
            why: "".into(),
            quarantine: QUARANTINE,
            past: Counters::default(),
            waiters: Vec::new(),
            waited: 0,
            importing: false,
            failures: 0,
            restoring: None,
        };
        Ok(Self {
            directory,
            name: name.to_owned(),
            descriptor,
            policy,
            restore,
            present: Mutex::new(present),
        })
    }

    /// Reads or changes the present state under the lock. `work` must be short, because the caller
    /// keeps its processor meanwhile. It must drop nothing that has a destructor of the user's.
    fn with<R>(&self, work: impl FnOnce(&mut Present) -> R) -> R {
        let held = critical();
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut present);
        drop(present);
        drop(held);
        result
    }

    /// As [`with`](Self::with), for what a forked child of the importing process may call too. It
    /// fails there with [`CallError::Forked`], because a thread that does not exist in the child
    /// may hold the lock for ever.
    fn with_unless_forked<R>(&self, work: impl FnOnce(&mut Present) -> R) -> Result<R, CallError> {
        if fork::is_forked() { Err(CallError::Forked) } else { Ok(self.with(work)) }
    }

    /// The current binding, for the thread that imports the next one.
    fn bound(&self) -> Arc<Bound> {
        self.with(|present| present.bound.clone())
    }

    /// The current binding, for the program.
    pub(crate) fn bound_unless_forked(&self) -> Result<Arc<Bound>, CallError> {
        self.with_unless_forked(|present| present.bound.clone())
    }

    /// The owner of the clone that knows `known` has discarded everything that it was given before
    /// this. In a forked child there is nothing to discard, as no call goes through.
    pub(crate) fn acknowledge(&self, known: &KnownGeneration) {
        if let Ok(generation) = self.with_unless_forked(|present| present.generation) {
            known.0.store(generation, Ordering::Relaxed);
        }
    }

    /// What all bindings so far have carried. Nothing in a forked child, which has no binding.
    pub(crate) fn counters(&self) -> Counters {
        let carried = self.with_unless_forked(|present| (present.past, present.bound.clone()));
        carried.map_or_else(|_| Counters::default(), |(past, bound)| past.plus(&bound.counters()))
    }

    /// Sets the quarantine limit of the present binding and of those after it. Without effect in a
    /// forked child.
    pub(crate) fn set_quarantine(&self, most: u32) {
        // Under the lock, as in `conclude`, so that neither overwrites a later value.
        let _ = self.with_unless_forked(|present| {
            present.quarantine = most;
            present.bound.set_quarantine(most);
        });
    }
}

impl fmt::Debug for Resilient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = self.bound_unless_forked();
        let bound: &dyn fmt::Debug = match &bound {
            Ok(bound) => bound,
            Err(forked) => forked,
        };
        f.debug_struct("Resilient").field("name", &self.name).field("bound", bound).finish_non_exhaustive()
    }
}
