//! Bindings that outlive their server: imported again, and calls repeated, where that is safe.

use crate::answer::Results;
use crate::client::{QUARANTINE, Terms};
use crate::counters::Counters;
use crate::error::{CallError, ImportError, Outcome};
use crate::import::{self, Bound};
use crate::summons::elsewhere;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use underpass_os::{Directory, clock};
use underpass_sync::{Condvar, Mutex, MutexGuard};
use underpass_threads::sleep;
use underpass_wire::{Decode, Descriptor, Encode};

/// How a resilient binding goes on after its server has ended: how often a call is made, and how long to wait for the next server. A call's own deadline ends all of
/// that earlier.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use underpass_rpc::Policy;
/// let impatient = Policy::new().attempts(3).patience(Duration::from_millis(200));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it is for `import_resilient`"]
pub struct Policy {
    attempts: u32,
    patience: Duration,
    pause: Duration,
}

/// The longest pause before another attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Policy {
    /// Eight attempts; five seconds for the next server to appear, each time; no pause before the second attempt, one of 1 ms before the third, and then twice as
    /// long each time, to a second at the most.
    pub fn new() -> Self {
        Self { attempts: 8, patience: Duration::from_secs(5), pause: Duration::from_millis(1) }
    }

    /// How often a call is made, the first time included.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// How long to wait, each time, for somebody to export the name again.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How long to pause before the third attempt; before each later one twice as long.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// How long to pause after so many attempts.
    fn pause_after(&self, attempts: u32) -> Duration {
        match attempts.checked_sub(2) {
            None => Duration::ZERO,
            Some(doublings) => self.pause.saturating_mul(1 << doublings.min(20)).min(LONGEST_PAUSE),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new()
    }
}

/// A binding, and what it takes to have another when it ends.
#[derive(Debug)]
pub(crate) struct Resilient {
    directory: Directory,
    name: String,
    descriptor: &'static Descriptor,
    policy: Policy,
    quarantine: AtomicU32,
    present: Mutex<Present>,
    /// Somebody has imported, or failed to.
    imported: Condvar,
}

#[derive(Debug)]
struct Present {
    bound: Arc<Bound>,
    /// Somebody imports at this moment.
    importing: bool,
    /// What the bindings before this one have carried.
    past: Counters,
}

impl Resilient {
    pub(crate) fn new(
        directory: Directory,
        name: &str,
        descriptor: &'static Descriptor,
        policy: Policy,
    ) -> Result<Self, ImportError> {
        let bound = Arc::new(import::bind(&directory, name, descriptor, Some(policy.patience))?);
        Ok(Self {
            directory,
            name: name.to_owned(),
            descriptor,
            policy,
            quarantine: AtomicU32::new(QUARANTINE),
            present: Mutex::new(Present { bound, importing: false, past: Counters::default() }),
            imported: Condvar::new(),
        })
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The binding of this moment.
    pub(crate) fn bound(&self) -> Arc<Bound> {
        self.present().bound.clone()
    }

    /// As `ClientEnd::call`, over as many bindings as it takes. A call that may have been started is repeated only if its procedure is `idempotent`.
    #[inline(never)]
    pub(crate) fn call<A: Encode + ?Sized, R: Decode + Results<Value: Decode>>(
        &self,
        procedure: u16,
        arguments: &A,
        terms: &Terms,
        idempotent: bool,
        failed: impl Fn(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        let deadline = match terms.deadline() {
            Ok(deadline) => deadline,
            Err(error) => return Err(failed(*error)),
        };
        // Those of a further attempt.
        let mut later = None;
        let mut bound = self.present().bound.clone();
        for attempts in 1.. {
            let mut told = None;
            let now = later.as_ref().unwrap_or(terms);
            let result = bound.end.call::<A, R>(procedure, arguments, now, |error| {
                told = Some(error.clone());
                failed(error)
            });
            let Some(error) = told else { return result };
            let next = may_be_repeated(&error, idempotent)
                .then(|| self.next_after(&bound, attempts, deadline))
                .flatten();
            let Some(next) = next else { return result };
            bound = next;
            let within =
                deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(clock::now_ns())));
            later = Some(Terms { within, ..terms.clone() });
        }
        unreachable!("attempts are counted until they are too many")
    }

    /// As [`call`](Self::call), for a task. What has to wait for a server does so on a kernel thread of its own.
    pub(crate) async fn call_from_task<A: Encode + ?Sized, R: Decode + Results<Value: Decode>>(
        self: &Arc<Self>,
        procedure: u16,
        arguments: &A,
        terms: &Terms,
        idempotent: bool,
        failed: impl Fn(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        let deadline = match terms.deadline() {
            Ok(deadline) => deadline,
            Err(error) => return Err(failed(*error)),
        };
        // Those of a further attempt.
        let mut later = None;
        let mut bound = self.present().bound.clone();
        for attempts in 1.. {
            let mut told = None;
            let now = later.as_ref().unwrap_or(terms);
            let told_of = |error: CallError| {
                told = Some(error.clone());
                failed(error)
            };
            let result = bound.end.call_from_task::<A, R>(procedure, arguments, now, told_of).await;
            if told.is_none_or(|error| !may_be_repeated(&error, idempotent)) {
                return result;
            }
            let (own, ended) = (self.clone(), bound.clone());
            let next = elsewhere(move || own.next_after(&ended, attempts, deadline)).await.flatten();
            let Some(next) = next else { return result };
            bound = next;
            let within =
                deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(clock::now_ns())));
            later = Some(Terms { within, ..terms.clone() });
        }
        unreachable!("attempts are counted until they are too many")
    }

    /// The binding for another attempt after so many, of which the last failed over `failed`; nothing if there is to be none.
    fn next_after(&self, failed: &Arc<Bound>, attempts: u32, deadline: Option<u64>) -> Option<Arc<Bound>> {
        let left = |span: Duration| match deadline {
            None => span,
            Some(deadline) => span.min(Duration::from_nanos(deadline.saturating_sub(clock::now_ns()))),
        };
        if attempts >= self.policy.attempts || left(LONGEST_PAUSE).is_zero() {
            return None;
        }
        let pause = left(self.policy.pause_after(attempts));
        if !pause.is_zero() {
            sleep(pause);
        }
        self.other_than(failed, || left(self.policy.patience))
    }

    /// Another binding than `failed`: the one that somebody has imported since, or a new one.
    fn other_than(&self, failed: &Arc<Bound>, left: impl Fn() -> Duration) -> Option<Arc<Bound>> {
        let mut present = self.present();
        while Arc::ptr_eq(&present.bound, failed) && present.importing {
            let span = left();
            if span.is_zero() {
                return None;
            }
            present = self.imported.wait_timeout(present, span).unwrap_or_else(PoisonError::into_inner).0;
        }
        if !Arc::ptr_eq(&present.bound, failed) {
            return Some(present.bound.clone());
        }
        present.importing = true;
        drop(present);
        let made = import::bind(&self.directory, &self.name, self.descriptor, Some(left()));
        let mut present = self.present();
        present.importing = false;
        let next = made.ok().map(|bound| {
            bound.end.set_quarantine(self.quarantine.load(Ordering::Relaxed));
            present.past = present.past.plus(&failed.end.counters_of_all());
            present.bound = Arc::new(bound);
            present.bound.clone()
        });
        drop(present);
        self.imported.notify_all();
        next
    }

    /// What all bindings have carried.
    pub(crate) fn counters(&self) -> Counters {
        let present = self.present();
        present.past.plus(&present.bound.end.counters_of_all())
    }

    pub(crate) fn set_quarantine(&self, most: u32) {
        self.quarantine.store(most, Ordering::Relaxed);
        self.present().bound.end.set_quarantine(most);
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
        ] {
            assert!(!may_be_repeated(&error, true), "{error}");
        }
    }

    #[test]
    fn pauses_double_up_to_a_second() {
        let policy = Policy::new().pause(Duration::from_millis(10));
        let pauses = [1, 2, 3, 4, 30].map(|attempts| policy.pause_after(attempts).as_millis());
        assert_eq!(pauses, [0, 10, 20, 40, 1000]);
    }
}
