//! Implementations of which one thread at a time runs a method, so that they need not be `Sync`.
#![doc = include_str!("exclusive/README.md")]

use crate::binding::peer::calls_within_domain;
use crate::dispatch::deadline::{Inherited, is_cancelled};
use crate::dispatch::section_numbers::{MadeBy, SectionNumbers};
use crate::error::{CallError, Outcome};
use std::fmt;
use underpass_sync::{ServiceToken, TokenError};
use underpass_threads::{AtWaits, SectionToken, in_section};

/// An implementation of an interface that one thread at a time uses. Generated code makes an
/// implementation of the interface of it.
pub struct Exclusive<T> {
    token: Token,
    at_waits: AtWaits,
    implementation: T,
}

// SAFETY: `run` alone gives out references to the implementation, to a closure that can't keep
// them. By lemmas 1 and 2 of `README.md`, one thread at a time runs such a closure, in an order
// that happens-before gives. `T` is `Send`, so it may be used by one thread after another.
unsafe impl<T: Send> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    /// Others run where a method waits.
    pub fn interleaving(implementation: T) -> Self {
        Self { token: Token::default(), at_waits: AtWaits::Leaves, implementation }
    }

    /// Others run when a method has ended.
    pub fn sequential(implementation: T) -> Self {
        Self { token: Token::default(), at_waits: AtWaits::Stays, implementation }
    }

    /// Runs `method`, once it is the calling thread's turn.
    ///
    /// # Errors
    /// Those of `method`. What `failed` makes of a [`CallError`] if the method is not to be
    /// started.
    #[inline]
    pub fn run<R, E>(
        &self,
        method: impl FnOnce(&T) -> Result<R, E>,
        failed: impl FnOnce(CallError) -> E,
    ) -> Result<R, E> {
        let take = || if self.token.0.take_soon() { Ok(()) } else { self.token.take_in_turn() };
        match in_section(&self.token, self.at_waits, take, || method(&self.implementation)) {
            Ok(result) => result,
            Err(error) => Err(failed(*error)),
        }
    }
}

impl<T> fmt::Debug for Exclusive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclusive").field("token", &self.token.0).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Token(ServiceToken);

impl Token {
    /// E2, where the token is held.
    #[cold]
    fn take_in_turn(&self) -> Result<(), Box<CallError>> {
        let not_started = |error: fn(Outcome) -> CallError| Box::new(error(Outcome::NotStarted));
        let Inherited { deadline_ns, numbers, .. } = Inherited::of_caller(MadeBy::Thread);
        // N2, now that the caller's own sections have numbers.
        if self.0.holder_number().is_some_and(|holder| numbers.contains(holder)) {
            return Err(Box::new(CallError::Deadlock));
        }
        self.0.take_late(deadline_ns).map_err(|error| match error {
            TokenError::Late => not_started(CallError::Deadline),
            TokenError::Cancelled => not_started(CallError::Cancelled),
        })?;
        // The caller may have died meanwhile. A handler that calls within its domain goes on, as it
        // does with other calls.
        if !calls_within_domain() && is_cancelled() {
            self.0.give();
            return Err(not_started(CallError::Cancelled));
        }
        Ok(())
    }
}

impl SectionToken for Token {
    fn give(&self) {
        self.0.give();
    }

    fn take_again(&self) {
        self.0.take_again();
    }

    fn number(&self) -> u64 {
        self.0.number(SectionNumbers::fresh)
    }
}
