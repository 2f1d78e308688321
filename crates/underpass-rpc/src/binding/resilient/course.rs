//! One call on its way over one binding after the other.

use super::next::{Ends, Found, Waiting};
use super::{Known, Resilient};
use crate::binding::import::Bound;
use crate::call::abandon::{Frees, UnderWay};
use crate::call::client::CallTerms;
use crate::dispatch::deadline::Inherited;
use crate::error::{CallError, Outcome};
use std::sync::Arc;
use std::time::Duration;
use underpass_os::clock;

/// Where a call is.
pub(super) struct Course<'a> {
    own: &'a Arc<Resilient>,
    terms: &'a CallTerms,
    /// Those of a further attempt.
    later: Option<CallTerms>,
    /// What the call goes over now.
    pub(super) bound: Arc<Bound>,
    /// The generation that its arguments are of.
    generation: u64,
    attempts: u32,
    deadline: Option<u64>,
    /// Until when it waits for the next server, once it has had to.
    patience: Option<u64>,
    /// What is known of all attempts so far together.
    pub(super) earlier: Outcome,
}

impl<'a> Course<'a> {
    /// A call begins, of a clone that knows `known`.
    pub(super) fn begin(
        own: &'a Arc<Resilient>,
        terms: &'a CallTerms,
        known: &Known,
    ) -> Result<Self, Box<CallError>> {
        own.check_fork()?;
        let deadline = terms.deadline()?;
        let (bound, generation, why) = own.with(|present| {
            let why = (present.generation != known.get()).then(|| present.why.clone());
            (present.bound.clone(), present.generation, why)
        });
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

    /// On what terms it is made now.
    pub(super) fn terms(&self) -> &CallTerms {
        self.later.as_ref().unwrap_or(self.terms)
    }

    /// Its attempt over this binding ended as `error`: what it waits for now; nothing if there is
    /// to be no other attempt.
    pub(super) fn next_after(&mut self, error: &CallError) -> Result<Option<Waiting>, CallError> {
        self.earlier = error.outcome();
        let policy = &self.own.policy;
        if self.attempts >= policy.attempts {
            return Ok(None);
        }
        let patience = *self.patience.get_or_insert_with(|| clock::deadline_ns(policy.patience));
        let place = self.own.clone() as Arc<dyn Frees>;
        let inherited = Inherited::of_caller();
        let under_way = UnderWay::new(Some(place), self.terms.abandon.as_ref(), inherited.freed_by());
        let ends = Ends { deadline: self.deadline, patience, under_way: under_way.map_err(|e| *e)? };
        let pause = clock::deadline_ns(policy.pause_after(self.attempts));
        Ok(Some(Waiting::new(self.own.clone(), self.bound.clone(), pause, ends)))
    }

    /// Whether it goes on, with what was found.
    pub(super) fn goes_on(&mut self, found: Option<Found>) -> Result<bool, CallError> {
        match found {
            None | Some(Found::Nothing) => Ok(false),
            Some(Found::Ended(error)) => Err(error(Outcome::NotStarted)),
            Some(Found::Next { generation, why, .. }) if generation != self.generation => {
                Err(restarted(Outcome::NotStarted, &why))
            }
            Some(Found::Next { bound, .. }) => {
                self.bound = bound;
                self.attempts += 1;
                let left = |deadline: u64| Duration::from_nanos(deadline.saturating_sub(clock::now_ns()));
                self.later = Some(CallTerms { within: self.deadline.map(left), ..self.terms.clone() });
                Ok(true)
            }
        }
    }
}

fn restarted(outcome: Outcome, why: &str) -> CallError {
    CallError::Restarted(outcome, why.to_owned())
}
