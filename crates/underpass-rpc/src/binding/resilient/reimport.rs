//! The attempt to make the next binding. One kernel thread makes it for all waiting callers.
//!
//! It lasts until there is a binding, until none can be made (for example because another interface
//! is exported), or until the last waiting caller has left. So no caller's deadline, abandonment or
//! cancellation ends what others wait for, and a failure applies to all waiters.

use super::{Resilient, Restore};
use crate::binding::import::{Bound, ImportMode, bind_until, may_pass};
use crate::call::abandon::Abandon;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use underpass_os::clock;
use underpass_threads::panic_message;

/// The result of an attempt.
enum Made {
    /// A binding. The state has gone on, or the text says why it has not.
    Bound(Arc<Bound>, Result<(), String>),
    /// None yet.
    NotYet,
    /// No attempt can succeed.
    Never,
}

impl Resilient {
    /// Makes a kernel thread attempt it. The caller has set `importing`.
    pub(super) fn begin_attempt(self: &Arc<Self>) {
        let own = self.clone();
        let thread = std::thread::Builder::new().name("underpass-import".to_owned());
        if thread.spawn(move || own.make_attempt()).is_err() {
            self.conclude(Made::Never);
        }
    }

    fn make_attempt(&self) {
        for tries in 1.. {
            let made = catch_unwind(AssertUnwindSafe(|| self.attempt()));
            if self.conclude(made.unwrap_or(Made::Never)) {
                return;
            }
            // Pause, so that a server that ends each binding at once is not asked all the time.
            let left = self.wanted_until().saturating_sub(clock::now_ns());
            std::thread::sleep(self.policy.pause_after(tries).min(Duration::from_nanos(left)));
        }
    }

    fn wanted_until(&self) -> u64 {
        self.with(|present| present.wanted_until())
    }

    fn attempt(&self) -> Made {
        let until = || self.wanted_until();
        let bound = match bind_until(&self.directory, &self.name, self.descriptor, &until, ImportMode::Joins)
        {
            Ok(bound) => Arc::new(bound),
            Err(e) if may_pass(&e) => return Made::NotYet,
            Err(_) => return Made::Never,
        };
        // The hook's calls need it.
        bound.set_quarantine(self.with(|present| present.quarantine));
        if self.descriptor.stateless || bound.continues(&self.bound()) {
            return Made::Bound(bound, Ok(()));
        }
        match &self.restore {
            None => Made::Bound(bound, Err("no hook of import_resilient_with restores it".to_owned())),
            Some(restore) => self.restored(restore, bound),
        }
    }

    /// Makes the hook restore the client's state over `bound`. Frees the hook when no caller waits
    /// any more.
    fn restored(&self, restore: &Restore, bound: Arc<Bound>) -> Made {
        let abandon = Abandon::new();
        // Waiters leave under the same lock. So either this sees that the last one has left, or the
        // last one sees `restoring`.
        let wanted = self.with(|present| {
            present.restoring = Some(abandon.clone());
            present.wanted_until() > 0
        });
        if !wanted {
            abandon.abandon();
        }
        let ran = catch_unwind(AssertUnwindSafe(|| restore(bound.clone(), abandon.clone())));
        let done = self.with(|present| present.restoring.take());
        drop(done);
        match ran.unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_message(&*panic)))) {
            Ok(()) => Made::Bound(bound, Ok(())),
            // The hook failed because the server has ended or drains: over another binding it may
            // succeed.
            Err(_) if bound.turns_away() || abandon.is_abandoned() => Made::NotYet,
            Err(why) => Made::Bound(bound, Err(format!("the hook that restores it failed: {why}"))),
        }
    }

    /// Wakes all waiters with the result. Returns `false` if they wait on.
    fn conclude(&self, made: Made) -> bool {
        let now = clock::now_ns();
        let past = self.bound().counters();
        let (over, called, gone) = self.with(|present| {
            let gone = match made {
                Made::NotYet if present.wanted_until() > now => return (false, Vec::new(), None),
                Made::NotYet | Made::Never => {
                    present.failures += 1;
                    None
                }
                Made::Bound(bound, state) => {
                    if let Err(why) = state {
                        present.generation += 1;
                        present.why = why.into();
                    }
                    present.past = present.past.plus(&past);
                    // The limit may have been set since the attempt began.
                    bound.set_quarantine(present.quarantine);
                    Some(std::mem::replace(&mut present.bound, bound))
                }
            };
            present.importing = false;
            (true, std::mem::take(&mut present.waiters), gone)
        });
        called.iter().for_each(|waiter| waiter.who.call());
        drop(gone);
        over
    }
}
