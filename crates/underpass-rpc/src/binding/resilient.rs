//! Bindings that outlive their server: imported again, and calls repeated, where that is safe.
//!
//! What a client was given by one server (ids, sessions) may mean something else to the next one.
//! So bindings have *generations*: a binding begins a new one unless the state of the binding
//! before has gone on, because the interface is stateless, the server says so, or the client's hook
//! has restored it. A call stays within the generation in which it began, and each clone of a stub
//! makes calls only in the generation that it knows. See decision 0057.

mod attempt;
mod course;
mod next;
mod policy;

pub use self::policy::Policy;

use self::course::Course;
use self::next::Waiter;
use crate::binding::import::{self, Bound};
use crate::call::abandon::Abandon;
use crate::call::answer::Results;
use crate::call::client::{CallTerms, QUARANTINE};
use crate::counters::Counters;
use crate::error::{CallError, ImportError, Outcome};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use underpass_os::{Directory, fork};
use underpass_threads::critical;
use underpass_wire::{Decode, Descriptor, Encode};

/// Restores a client's state over a new binding. Calls that it makes are freed by what it is given.
pub(crate) type Restore = dyn Fn(Arc<Bound>, Abandon) -> Result<(), String> + Send + Sync;

/// A binding, and what it takes to have another when it ends.
pub(crate) struct Resilient {
    directory: Directory,
    name: String,
    descriptor: &'static Descriptor,
    policy: Policy,
    restore: Option<Box<Restore>>,
    present: Mutex<Present>,
}

/// The binding of this moment, and the callers that wait for the next.
struct Present {
    bound: Arc<Bound>,
    /// Counts the bindings to which the state of the one before has not gone on.
    generation: u64,
    /// Why it has not, the last time.
    why: Arc<str>,
    /// What its quarantine and those of the bindings after it are to be.
    quarantine: u32,
    /// What the bindings before this one have carried.
    past: Counters,
    /// The callers that wait for the next binding, or pause before that.
    waiters: Vec<Waiter>,
    /// How many have waited.
    waited: u64,
    /// A kernel thread is at an attempt to have the next binding.
    importing: bool,
    /// How many such attempts have failed for good.
    failures: u64,
    /// Ends the calls of the hook that runs.
    restoring: Option<Abandon>,
}

/// The generation that a clone of a stub knows.
#[derive(Debug, Default)]
pub(crate) struct Known(AtomicU64);

impl Known {
    fn get(&self) -> u64 {
        // Relaxed, here and in `acknowledge`: threads that share a clone tell each other
        // themselves.
        self.0.load(Ordering::Relaxed)
    }
}

impl Clone for Known {
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
        let bound = Arc::new(import::bind(&directory, name, descriptor, Some(policy.patience))?);
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

    /// Looks at the present state, or changes it. `work` is short, as the caller keeps its
    /// processor meanwhile, and drops nothing that has a destructor of the user's.
    fn with<R>(&self, work: impl FnOnce(&mut Present) -> R) -> R {
        let held = critical();
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut present);
        drop(present);
        drop(held);
        result
    }

    /// That this process was not forked off the one that imported. Another thread of that one may
    /// have held the lock, and nobody gives it back here, so this comes before it.
    pub(crate) fn check_fork(&self) -> Result<(), CallError> {
        if fork::is_forked() { Err(CallError::Forked) } else { Ok(()) }
    }

    /// The binding of this moment.
    pub(crate) fn bound(&self) -> Arc<Bound> {
        self.with(|present| present.bound.clone())
    }

    /// The clone that knows `known` has nothing any more that it was given before this.
    pub(crate) fn acknowledge(&self, known: &Known) {
        known.0.store(self.with(|present| present.generation), Ordering::Relaxed);
    }

    /// As `ClientEnd::call`, over as many bindings as it takes. A call that may have been started
    /// is repeated only if its procedure is `idempotent`.
    #[inline(never)]
    pub(crate) fn call<A: Encode + ?Sized, R: Decode + Results<Value: Decode>>(
        self: &Arc<Self>,
        procedure: u16,
        arguments: &A,
        terms: &CallTerms,
        known: &Known,
        idempotent: bool,
        failed: impl Fn(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        let mut course = match Course::begin(self, terms, known) {
            Ok(course) => course,
            Err(error) => return Err(failed(*error)),
        };
        loop {
            let mut told = None;
            let end = &course.bound.end;
            let result = end.call::<A, R>(procedure, arguments, course.terms(), |error| {
                let error = error.after(course.earlier);
                told = Some(error.clone());
                failed(error)
            });
            let Some(error) = told.filter(|error| may_be_repeated(error, idempotent)) else { return result };
            let next = course.next_after(&error).map(|next| next.map(|waiting| waiting.wait()));
            match next.and_then(|found| course.goes_on(found)) {
                Ok(true) => {}
                Ok(false) => return result,
                Err(error) => return Err(failed(error.after(course.earlier))),
            }
        }
    }

    /// As [`call`](Self::call), for a task.
    pub(crate) async fn call_from_task<A: Encode + ?Sized, R: Decode + Results<Value: Decode>>(
        self: &Arc<Self>,
        procedure: u16,
        arguments: &A,
        terms: &CallTerms,
        known: &Known,
        idempotent: bool,
        failed: impl Fn(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        let mut course = match Course::begin(self, terms, known) {
            Ok(course) => course,
            Err(error) => return Err(failed(*error)),
        };
        loop {
            let mut told = None;
            let end = &course.bound.end;
            let earlier = course.earlier;
            let told_of = |error: CallError| {
                let error = error.after(earlier);
                told = Some(error.clone());
                failed(error)
            };
            let result = end.call_from_task::<A, R>(procedure, arguments, course.terms(), told_of).await;
            let Some(error) = told.filter(|error| may_be_repeated(error, idempotent)) else { return result };
            let found = match course.next_after(&error) {
                Ok(Some(waiting)) => Ok(Some(waiting.wait_as_task().await)),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            match found.and_then(|found| course.goes_on(found)) {
                Ok(true) => {}
                Ok(false) => return result,
                Err(error) => return Err(failed(error.after(course.earlier))),
            }
        }
    }

    /// What all bindings have carried.
    pub(crate) fn counters(&self) -> Counters {
        let (past, bound) = self.with(|present| (present.past, present.bound.clone()));
        past.plus(&bound.end.counters_of_all())
    }

    pub(crate) fn set_quarantine(&self, most: u32) {
        // Under the lock, as in `conclude`: neither overwrites what the other has set later.
        self.with(|present| {
            present.quarantine = most;
            present.bound.end.set_quarantine(most);
        });
    }
}

impl fmt::Debug for Resilient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resilient")
            .field("name", &self.name)
            .field("bound", &self.bound())
            .finish_non_exhaustive()
    }
}

/// Whether a call that failed so can be made again, over another binding.
fn may_be_repeated(error: &CallError, idempotent: bool) -> bool {
    use CallError::{Captured, Closed, PeerDied, Revoked};
    let ended = matches!(error, PeerDied(_) | Closed(_) | Captured(_) | Revoked(_));
    ended && (idempotent || error.outcome() == Outcome::NotStarted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_executed_is_repeated_only_if_that_does_no_harm() {
        for ended in [CallError::PeerDied, CallError::Closed, CallError::Captured, CallError::Revoked] {
            assert!(may_be_repeated(&ended(Outcome::NotStarted), false));
            assert!(!may_be_repeated(&ended(Outcome::Unknown), false));
            assert!(may_be_repeated(&ended(Outcome::Unknown), true));
        }
        for error in [
            CallError::Deadline(Outcome::NotStarted),
            CallError::Overloaded,
            CallError::Panicked(String::new()),
            CallError::Restarted(Outcome::NotStarted, String::new()),
        ] {
            assert!(!may_be_repeated(&error, true), "{error}");
        }
    }
}
