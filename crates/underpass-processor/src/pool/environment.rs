//! The surroundings of the permit protocol, with kernel threads.

use crate::permits::protocol::Environment;
use crate::permits::{ActivationState, Permits};
use crate::pool::sharing::sharing;
use crate::{Pool, metrics, preempt};
use underpass_os::futex::{self, FutexScope, Watched};

impl Environment for Pool {
    fn permits(&self) -> &Permits {
        &self.permits
    }

    fn states(&self) -> impl Iterator<Item = &ActivationState> {
        self.registry.iter().map(|activation| activation.state())
    }

    fn wake(&self, state: &ActivationState) {
        metrics().woke();
        let _place = self.place(state);
        futex::wake(state.word(), FutexScope::Private, 1);
    }

    fn wait(&self, state: &ActivationState, at: u32) {
        self.share_idle();
        metrics().slept();
        futex::wait(Watched { word: state.word(), expected: at, scope: FutexScope::Private }, None);
    }

    fn unpark(&self, state: &ActivationState) {
        if let Some(activation) = self.registry.get(state.number()) {
            let _place = self.place(state);
            activation.parker().unpark();
        }
    }

    fn takes(&self, state: &ActivationState) -> bool {
        self.registry.get(state.number()).is_some_and(|activation| self.upcall.takes(activation))
    }

    fn serves(&self, state: &ActivationState) -> bool {
        self.registry.get(state.number()).is_some_and(|activation| self.upcall.serves(activation))
    }

    fn start_activation(&self) -> bool {
        self.starts.request_with_permit(self.living())
    }

    fn reclaim_permit(&self) -> bool {
        self.starts.take_permit()
    }

    fn unstarted(&self) -> bool {
        self.upcall.unstarted()
    }

    fn uses_blocking_calls(&self) -> bool {
        self.has_blocking_calls()
    }

    fn wake_monitor(&self) {
        Self::wake_monitor();
    }

    fn blocking_ended(&self) {
        self.upcall.ended_blocking();
    }

    fn wanted_elsewhere(&self) -> bool {
        sharing().is_some_and(|sharing| sharing.is_wanted())
    }

    fn lend(&self) -> bool {
        sharing().is_some_and(|sharing| sharing.lend(self))
    }

    fn start_missing(&self) {
        self.starts.wake_launcher();
    }

    fn runs(&self, state: &ActivationState) -> bool {
        self.registry.get(state.number()).is_some_and(|activation| self.kernel_tasks.runs(activation))
    }

    fn interrupt(&self, state: &ActivationState) -> bool {
        self.registry.get(state.number()).is_some_and(preempt::interrupt)
    }
}
