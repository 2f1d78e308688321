//! How long, and how often, a resilient binding tries again.

use std::time::Duration;

/// How a stub of `import_resilient` behaves after its server has ended: how often it makes a call,
/// and how long it waits for the next server.
///
/// A call's own deadline, its abandonment, and its thread's cancellation end that wait earlier.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use underpass::Policy;
/// let impatient = Policy::new().attempts(3).patience(Duration::from_millis(200));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it is for `import_resilient`"]
pub struct Policy {
    pub(super) attempts: u32,
    pub(super) patience: Duration,
    pause: Duration,
}

/// The longest pause before another attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Policy {
    /// Eight attempts, and 5 s for the next server to appear. No pause before the second attempt, 1
    /// ms before the third, and twice as long before each later one, up to 1 s.
    pub fn new() -> Self {
        Self { attempts: 8, patience: Duration::from_secs(5), pause: Duration::from_millis(1) }
    }

    /// How often a call is made, including the first time.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// How long a call waits for a server to export the name again. The time begins when the call
    /// first finds that its binding has ended. Later attempts do not restart it.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How long to pause before the third attempt. The pause doubles before each later one.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// How long to pause after this number of attempts.
    pub(super) fn pause_after(&self, attempts: u32) -> Duration {
        match attempts.checked_sub(2) {
            None => Duration::ZERO,
            Some(doublings) => self.pause.saturating_mul(1 << doublings.min(20)).min(LONGEST_PAUSE),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second() {
        let policy = Policy::new().pause(Duration::from_millis(10));
        let pauses = [1, 2, 3, 4, 30].map(|attempts| policy.pause_after(attempts).as_millis());
        assert_eq!(pauses, [0, 10, 20, 40, 1000]);
    }
}
