//! Whether a domain obeys: its own words against the kernel's accounts.

use super::rules::Rules;

/// What the kernel says of a domain's kernel threads since it was asked last, in ns
/// (`/proc/PID/schedstat`).
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessorTime {
    /// So long they ran, all together.
    pub ran: u64,
    /// So long they were able to run, and the kernel ran others.
    pub waited: u64,
}

/// How a domain did not obey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disobedience {
    /// It did not give way when it was asked to.
    KeptAProcessor,
    /// It ran more than it was granted.
    RanInExcess,
    /// It asked for processors, and did not use those that it had.
    ClaimedWithoutUse,
}

/// Whether a domain obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obedience {
    /// It has its weight.
    Obeys,
    /// It gets the least: 1/64 of a weight of 1, one processor, no minimum and no credit.
    GetsLeast,
}

/// What changed in a domain's obedience.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ObedienceChange {
    Nothing,
    Demoted,
    Restored,
}

/// What the policy remembers of a domain's obedience.
#[derive(Debug)]
pub(super) struct Record {
    strikes: u32,
    /// Until when it must obey to have its weight again.
    least_until: Option<u64>,
    relapses: u32,
    /// The processor time that it was granted since it was last judged.
    granted: u64,
    granted_at: u64,
    /// The most that it may have run besides, on processors that came and went unseen.
    passed: u64,
    judged_at: u64,
    /// The processors that were taken from it since it was last judged, as it had not given them.
    kept: u32,
    /// Whether it has wanted more than it had ever since it was last judged.
    pub(super) always_wanted: bool,
}

/// A domain may run for so long more than it was granted: its clerk and its monitor do.
const TOLERANCE: u64 = 2_000_000;

impl Record {
    pub(super) fn new(now: u64) -> Self {
        Self {
            strikes: 0,
            least_until: None,
            relapses: 0,
            granted: 0,
            granted_at: now,
            passed: 0,
            judged_at: now,
            kept: 0,
            always_wanted: false,
        }
    }

    pub(super) fn gets_least(&self) -> bool {
        self.least_until.is_some()
    }

    /// It has held so many processors up to now.
    pub(super) fn hold(&mut self, processors: u32, now: u64) {
        self.granted += (now - self.granted_at) * u64::from(processors);
        self.granted_at = now;
    }

    /// Processors came and went that it had for `most` ns at the most.
    pub(super) fn pass(&mut self, most: u64) {
        self.passed = self.passed.saturating_add(most);
    }

    /// A processor was taken from it, as it had not given it in time.
    pub(super) fn keep(&mut self) {
        self.kept += 1;
    }

    /// The processors that it has kept although it could have given them, since it was last judged.
    /// One that the kernel kept waiting for most of this time could not.
    pub(super) fn take_kept(&mut self, time: ProcessorTime) -> u32 {
        let kept = std::mem::take(&mut self.kept);
        if time.ran >= time.waited { kept } else { 0 }
    }

    /// Compares the kernel's account with what was granted. Returns a fault, and the time that it
    /// ran beyond what was seen to be granted.
    pub(super) fn judge(
        &mut self,
        time: ProcessorTime,
        wants: bool,
        now: u64,
    ) -> (Option<Disobedience>, u64) {
        let (granted, window) = (self.granted, now - self.judged_at);
        let tolerated = granted + granted / 8 + window / 20 + TOLERANCE;
        let excess = time.ran.saturating_sub(tolerated);
        let tried = time.ran.saturating_add(time.waited);
        let idled = self.always_wanted && granted >= window / 4 && granted > TOLERANCE && tried < granted / 8;
        let is_fault = excess > std::mem::take(&mut self.passed);
        (self.granted, self.judged_at, self.always_wanted) = (0, now, wants);
        let fault = match (is_fault, idled) {
            (true, _) => Some(Disobedience::RanInExcess),
            (false, true) => Some(Disobedience::ClaimedWithoutUse),
            (false, false) => None,
        };
        (fault, excess)
    }

    /// Begins to compare anew.
    pub(super) fn excuse(&mut self, now: u64) {
        (self.granted, self.judged_at, self.always_wanted) = (0, now, false);
        (self.kept, self.passed) = (0, 0);
    }

    /// Counts a fault.
    pub(super) fn strike(&mut self, rules: &Rules, now: u64) -> ObedienceChange {
        self.strikes += 1;
        if self.strikes < rules.strikes && !self.gets_least() {
            return ObedienceChange::Nothing;
        }
        let change = if self.gets_least() { ObedienceChange::Nothing } else { ObedienceChange::Demoted };
        if change == ObedienceChange::Demoted {
            self.relapses += 1;
        }
        self.least_until = Some(now + (rules.term << (self.relapses - 1).min(6)));
        change
    }

    /// It has obeyed up to now.
    pub(super) fn obeyed(&mut self, now: u64) -> ObedienceChange {
        match self.least_until {
            None => self.strikes = 0,
            Some(until) if now >= until => {
                (self.strikes, self.least_until) = (0, None);
                return ObedienceChange::Restored;
            }
            Some(_) => {}
        }
        ObedienceChange::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_relapse_doubles_the_term() {
        let (rules, mut record) = (Rules { strikes: 1, ..Rules::default() }, Record::new(0));
        assert_eq!(record.strike(&rules, 0), ObedienceChange::Demoted);
        assert_eq!(record.obeyed(rules.term - 1), ObedienceChange::Nothing);
        assert_eq!(record.obeyed(rules.term), ObedienceChange::Restored);
        assert_eq!(record.strike(&rules, rules.term), ObedienceChange::Demoted);
        assert_eq!(record.obeyed(3 * rules.term - 1), ObedienceChange::Nothing);
        assert_eq!(record.obeyed(3 * rules.term), ObedienceChange::Restored);
    }

    #[test]
    fn a_processor_that_came_and_went_unseen_is_no_excess_and_is_paid_for() {
        let (mut record, ran) = (Record::new(0), 20_000_000);
        let time = ProcessorTime { ran, waited: 0 };
        let tolerated = 100_000_000 / 20 + TOLERANCE;
        record.pass(ran);
        assert_eq!(record.judge(time, false, 100_000_000), (None, ran - tolerated));
        let fault = Some(Disobedience::RanInExcess);
        assert_eq!(record.judge(time, false, 200_000_000), (fault, ran - tolerated), "it is forgotten");
    }

    #[test]
    fn a_domain_that_the_kernel_keeps_waiting_is_not_blamed() {
        let mut record = Record::new(0);
        record.always_wanted = true;
        record.hold(1, 100_000_000);
        let time = ProcessorTime { ran: 0, waited: 90_000_000 };
        assert_eq!(record.judge(time, true, 100_000_000), (None, 0));
        record.keep();
        assert_eq!(record.take_kept(time), 0);
        assert_eq!(record.take_kept(ProcessorTime { ran: 90_000_000, waited: 0 }), 0, "it is forgotten");
        record.keep();
        assert_eq!(record.take_kept(ProcessorTime { ran: 90_000_000, waited: 80_000_000 }), 1);
    }
}
