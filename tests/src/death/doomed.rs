//! A process that is to die.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use underpass_os::failpoint::STEPS;
use underpass_tests::Numbers;

/// The most passes of a step before the process dies at it.
pub const MOST_TIMES: usize = 24;
/// The step that a server passes when a client rings for a call over a dormant channel.
const RING: &str = "server-heard";

/// When the process dies.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// At a step, at its pass of this number.
    Step(&'static str, usize),
    /// A short time after this many calls. The survivor kills it.
    Calls(usize),
}

impl When {
    /// Chooses by `numbers` among the steps of `sides`, if this build has steps.
    pub fn choose(numbers: &mut Numbers, sides: &[&str]) -> Self {
        // Whether a step is passed often or only once.
        let often = |step: &str| !["export", "import", "greet"].iter().any(|side| step.starts_with(side));
        let steps: Vec<_> =
            STEPS.iter().copied().filter(|step| sides.iter().any(|side| step.starts_with(side))).collect();
        match cfg!(underpass_failpoints) {
            true => {
                let step = numbers.among(&steps);
                Self::Step(step, if often(step) { 1 + numbers.below(MOST_TIMES) } else { 1 })
            }
            false => Self::Calls(numbers.below(100)),
        }
    }

    /// At the last ring that can occur, if this build has steps.
    pub fn at_ring() -> Self {
        match cfg!(underpass_failpoints) {
            true => Self::Step(RING, MOST_TIMES),
            false => Self::Calls(0),
        }
    }

    /// Whether this is at a client's ring.
    pub fn is_at_ring(self) -> bool {
        matches!(self, Self::Step(RING, _))
    }

    /// Whether this is after the reply to a call was posted and before another call was taken,
    /// where there is one caller.
    pub fn is_after_reply(self) -> bool {
        matches!(self, Self::Step("server-replied" | "server-rung" | "server-taken" | RING, _))
    }

    /// Starts this program with `arguments`. It dies at that moment.
    pub fn start(self, arguments: &[&str]) -> io::Result<Child> {
        let mut command = Command::new("/proc/self/exe");
        command.args(arguments).stdin(Stdio::null());
        if let Self::Step(step, times) = self {
            command.env("UNDERPASS_FAILPOINT", format!("{step}:{times}"));
        }
        command.spawn()
    }
}

/// How many processes have died at each step.
#[derive(Debug, Default)]
pub struct Deaths(BTreeMap<&'static str, usize>);

impl Deaths {
    /// Counts one more end. `by_survivor` is the alternative to an end by itself.
    pub fn count(&mut self, when: When, ended: ExitStatus, by_survivor: bool) {
        assert!(ended.signal() == Some(9) || ended.success(), "{when:?}: it ended by itself: {ended}");
        let at = match when {
            When::Step(step, _) if !by_survivor && !ended.success() => step,
            _ => "any moment",
        };
        *self.0.entry(at).or_default() += 1;
    }

    /// Prints the counts.
    pub fn tell(&self) {
        let list: Vec<_> = self.0.iter().map(|(step, deaths)| format!("{step} {deaths}")).collect();
        println!("{}", list.join(", "));
    }
}
