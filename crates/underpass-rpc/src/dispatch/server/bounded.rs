//! Bounded calls, as their server sees them.

use super::{Failure, ServerEnd};
use crate::dispatch::deadline::begin;
use crate::dispatch::incoming::{Incoming, Refused, Status};
use underpass_os::clock;

impl ServerEnd {
    /// Runs a bounded call, unless nobody wants it any more.
    #[inline(never)]
    pub(super) fn dispatch_bounded(
        &self,
        call: &mut Incoming<'_>,
        slot: u16,
        failure: &mut Option<Failure>,
    ) -> bool {
        let asked = self.channel.wanted(slot).ask_first(self.channel.fence());
        let here = |until: Option<u64>| until.map(|theirs_ns| self.family.clock_offset().here(theirs_ns));
        let asked = asked.map(here);
        let passed = |deadline_ns| deadline_ns <= clock::now_ns();
        let (Some(deadline_ns), Some(end)) =
            (asked.filter(|until| !until.is_some_and(passed)), self.own.upgrade())
        else {
            *failure = Some(Failure::Refused(Refused { status: Status::Unwanted, why: String::new() }));
            return false;
        };
        let _serving = begin(end, slot, deadline_ns);
        self.dispatch(call, failure)
    }
}
