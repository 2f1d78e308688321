//! One call that is made over one binding after another.

use super::next_binding::{NextBindingWait, WaitEnds, WaitResult};
use super::{KnownGeneration, Resilient};
use crate::binding::import::Bound;
use crate::call::abandon::{Frees, UnderWay};
use crate::call::client::CallTerms;
use crate::dispatch::deadline::Inherited;
use crate::dispatch::section_numbers::{MadeBy, SectionNumbers};
use crate::error::{CallError, Outcome};
use std::sync::Arc;
use std::time::Duration;
use underpass_os::clock;

/// The progress of a call.
pub(crate) struct RepeatedCall<'a> {
    own: &'a Arc<Resilient>,
    terms: &'a CallTerms,
    /// The terms of a later attempt.
    later: Option<CallTerms>,
    /// The binding that the call uses now.
    pub(crate) bound: Arc<Bound>,
    /// The generation in which its arguments are valid.
    generation: u64,
    attempts: u32,
    deadline: Option<u64>,
    /// Until when it waits for the next server. `None` until it has to wait.
    patience: Option<u64>,
    /// The combined outcome of all attempts so far.
    pub(crate) earlier: Outcome,
}

impl<'a> RepeatedCall<'a> {
    /// Begins a call of a clone that knows `known`.
    pub(crate) fn begin(
        own: &'a Arc<Resilient>,
        terms: &'a CallTerms,
        known: &KnownGeneration,
    ) -> Result<Self, Box<CallError>> {
        let (bound, generation, why) = own.with_unless_forked(|present| {
            let why = (present.generation != known.get()).then(|| present.why.clone());
            (present.bound.clone(), present.generation, why)
        })?;
        let deadline = terms.deadline()?;
        if let Some(why) = why {
            return Err(Box::new(restarted(Outcome::NotStarted, &why)));
        }
        let earlier = Outcome::NotStarted;
        Ok(Self {
            own,
            terms,
            later: None,
            bound,
            generation,
            attempts: 1,
            deadline,
            patience: None,
            earlier,
        })
    }

    /// The terms of the current attempt.
    pub(crate) fn terms(&self) -> &CallTerms {
        self.later.as_ref().unwrap_or(self.terms)
    }

    /// Whether to make another attempt after one that ended with `error`. Waits for the next
    /// binding then. A call that may have been started is repeated only if its procedure is
    /// `idempotent`.
    pub(crate) fn goes_on(&mut self, error: Option<CallError>, idempotent: bool) -> Result<bool, CallError> {
        let Some(error) = error.filter(|error| may_be_repeated(error, idempotent)) else { return Ok(false) };
        let next = self.next_after(&error).map(|next| next.map(|waiting| waiting.wait()));
        self.goes_on_with(next)
    }

    /// The same, for a task.
    pub(crate) async fn goes_on_as_task(
        &mut self,
        error: Option<CallError>,
        idempotent: bool,
    ) -> Result<bool, CallError> {
        let Some(error) = error.filter(|error| may_be_repeated(error, idempotent)) else { return Ok(false) };
        let next = match self.next_after(&error) {
            Ok(Some(waiting)) => Ok(Some(waiting.wait_as_task().await)),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        self.goes_on_with(next)
    }

    /// The attempt over this binding ended with `error`. Returns the wait for the next binding, or
    /// `None` if there is to be no other attempt.
    fn next_after(&mut self, error: &CallError) -> Result<Option<NextBindingWait>, CallError> {
        self.earlier = error.outcome();
        let policy = &self.own.policy;
        if self.attempts >= policy.attempts {
            return Ok(None);
        }
        let patience = *self.patience.get_or_insert_with(|| clock::deadline_ns(policy.patience));
        let place = self.own.clone() as Arc<dyn Frees>;
        let inherited = Inherited::of_caller(MadeBy::Thread);
        let (abandon, freed_by) = (self.terms.abandon.as_ref(), inherited.freed_by());
        let under_way = UnderWay::new(Some(place), abandon, freed_by, SectionNumbers::default());
        let ends = WaitEnds { deadline: self.deadline, patience, under_way: under_way.map_err(|e| *e)? };
        let pause = clock::deadline_ns(policy.pause_after(self.attempts));
        Ok(Some(NextBindingWait::new(self.own.clone(), self.bound.clone(), pause, ends)))
    }

    /// Whether to make another attempt, after the wait has `found` this.
    fn goes_on_with(&mut self, found: Result<Option<WaitResult>, CallError>) -> Result<bool, CallError> {
        let error = match found.map_err(|error| error.after(self.earlier))? {
            None | Some(WaitResult::Nothing) => return Ok(false),
            Some(WaitResult::Ended(error)) => error(Outcome::NotStarted),
            Some(WaitResult::Next { generation, why, .. }) if generation != self.generation => {
                restarted(Outcome::NotStarted, &why)
            }
            Some(WaitResult::Next { bound, .. }) => {
                self.bound = bound;
                self.attempts += 1;
                let left = |deadline: u64| Duration::from_nanos(deadline.saturating_sub(clock::now_ns()));
                self.later = Some(CallTerms { within: self.deadline.map(left), ..self.terms.clone() });
                return Ok(true);
            }
        };
        Err(error.after(self.earlier))
    }
}

fn restarted(outcome: Outcome, why: &str) -> CallError {
    CallError::Restarted(outcome, why.to_owned())
}

/// Whether a call that failed with `error` can be repeated over another binding.
fn may_be_repeated(error: &CallError, idempotent: bool) -> bool {
    use CallError::{Captured, Closed, PeerDied, Revoked};
    let ended = matches!(error, PeerDied(_) | Closed(_) | Captured(_) | Revoked(_));
    ended && (idempotent || error.outcome() == Outcome::NotStarted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_may_have_been_executed_is_repeated_only_if_idempotent() {
        for ended in [CallError::PeerDied, CallError::Closed, CallError::Captured, CallError::Revoked] {
            assert!(may_be_repeated(&ended(Outcome::NotStarted), false));
            assert!(!may_be_repeated(&ended(Outcome::Unknown), false));
            assert!(may_be_repeated(&ended(Outcome::Unknown), true));
        }
        for error in [
            CallError::Deadline(Outcome::NotStarted),
            CallError::Overloaded,
            CallError::Unsupported(Outcome::NotStarted),
            CallError::Panicked(String::new()),
            CallError::Restarted(Outcome::NotStarted, String::new()),
        ] {
            assert!(!may_be_repeated(&error, true), "{error}");
        }
    }
}
