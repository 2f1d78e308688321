//! Bounded calls, as their server sees them.

use super::{Failure, ServerEnd};
use crate::dispatch::deadline::begin;
use crate::dispatch::incoming::{IncomingCall, Refused, Status};
use crate::dispatch::measured;
use crate::dispatch::section_numbers::SectionNumbers;
use underpass_channel::Wanted;
use underpass_os::clock;

impl ServerEnd {
    /// Runs a bounded call, unless nobody wants it any more.
    #[inline(never)]
    pub(super) fn dispatch_bounded(
        &self,
        call: &mut IncomingCall<'_>,
        slot: u16,
        failure: &mut Option<Failure>,
    ) -> bool {
        let cancel_word = self.channel.cancel_word(slot);
        let (is_wanted, deadline_ns) = match cancel_word.read_after_take(self.channel.fence()) {
            Wanted::Forever => (true, None),
            Wanted::Until(theirs_ns) => {
                let deadline_ns = self.family.clock_offset().here(theirs_ns);
                (deadline_ns > clock::now_ns(), Some(deadline_ns))
            }
            Wanted::NoMore => (false, None),
        };
        let Some(end) = self.own.upgrade().filter(|_| is_wanted) else {
            measured::refused(call, Status::Unwanted);
            *failure = Some(Failure::Refused(Refused { status: Status::Unwanted, why: String::new() }));
            return false;
        };
        let numbers = match cancel_word.is_numbered() {
            true => SectionNumbers::of_call(&self.channel, slot),
            false => SectionNumbers::default(),
        };
        let _serving = begin(end, slot, deadline_ns, numbers);
        numbers.within(|| self.dispatch(call, failure))
    }
}
