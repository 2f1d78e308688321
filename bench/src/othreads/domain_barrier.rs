//! The barrier in the other domain.

use crate::BenchError;
use crate::processes::role::ChildRole;
use std::time::Duration;
use underpass::sync::{Condvar, Mutex, PoisonError};
use underpass::{CallError, Server};

/// A barrier for callers.
#[underpass::interface]
pub trait DomainBarrier {
    /// Returns when `all` calls have come.
    fn arrive(&self, all: u64) -> Result<(), CallError>;
    /// Does nothing.
    fn nothing(&self) -> Result<(), CallError>;
}

/// The number of callers that have come, and how often all have.
#[derive(Default)]
struct Place {
    state: Mutex<(u64, u64)>,
    complete: Condvar,
}

impl DomainBarrier for Place {
    fn arrive(&self, all: u64) -> Result<(), CallError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        if state.0 == all {
            *state = (0, state.1 + 1);
            drop(state);
            self.complete.notify_all();
            return Ok(());
        }
        let mine = state.1;
        drop(
            self.complete.wait_while(state, |state| state.1 == mine).unwrap_or_else(PoisonError::into_inner),
        );
        Ok(())
    }

    fn nothing(&self) -> Result<(), CallError> {
        Ok(())
    }
}

const NAME: &str = "meeting";

/// How long a server may take to start.
const APPEAR: Duration = Duration::from_secs(10);

/// Serves the barrier with one activation, until the process is killed.
pub(super) fn serve(_: &ChildRole) -> Result<(), BenchError> {
    underpass::processors::set(1);
    Ok(Server::new().export(NAME, DomainBarrier::serve(Place::default())).run()?)
}

/// Imports the barrier.
pub(super) fn import() -> Result<DomainBarrierClient, BenchError> {
    Ok(DomainBarrierClient::import_within(NAME, APPEAR)?)
}
