//! Calls during a window of time, by all threads at once.
//!
//! Threads that each make a share of a fixed number of calls end one after the other, so that the
//! last ones call alone, and the slowest one counts for all. Within a window all of them call to
//! the end.

use super::{CallFn, Calls};
use crate::BenchError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use underpass::CallError;
use underpass_os::clock::now_ns;

/// Calls that a thread makes between two readings of the clock.
const CALLS_A_LOOK: u64 = 16;

/// A window of several threads. The first thread that finds it over ends it for all.
#[derive(Clone, Debug)]
pub(crate) struct TimeWindow {
    ns: u64,
    over: Arc<AtomicBool>,
}

/// What a thread has done in a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowShare {
    /// Its calls.
    pub(crate) calls: u64,
    /// How long it made calls.
    pub(crate) ns: u64,
}

impl TimeWindow {
    pub(crate) fn of(window: Duration) -> Self {
        Self { ns: window.as_nanos() as u64, over: Arc::default() }
    }

    /// Ends it. Relaxed: a thread may make another call.
    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Calls until the window is over.
    pub(crate) fn run(
        &self,
        mut call: impl FnMut() -> Result<(), CallError>,
    ) -> Result<WindowShare, CallError> {
        let begun = now_ns();
        let mut calls = 0;
        while !self.over.load(Ordering::Relaxed) {
            // A thread that fails does not let the others call to the end.
            call().inspect_err(|_| self.end())?;
            calls += 1;
            if calls % CALLS_A_LOOK == 0 && now_ns() - begun >= self.ns {
                self.end();
            }
        }
        Ok(WindowShare { calls, ns: now_ns() - begun })
    }
}

/// The ns from one call's end to the next one's, of all threads together.
pub(super) fn ns_of_each(shares: &[WindowShare]) -> Result<f64, BenchError> {
    let rate = shares.iter().map(|share| share.calls as f64 / share.ns.max(1) as f64).sum::<f64>();
    if rate > 0.0 { Ok(1.0 / rate) } else { Err("nobody has called within a window".into()) }
}

impl<F: CallFn> Calls<F> {
    /// Lets all threads call for `window`. Returns the ns of so many calls at their rate.
    pub(super) fn call_within(&mut self, window: Duration, operations: u64) -> Result<u64, BenchError> {
        let window = TimeWindow::of(window);
        let calls = |shares: &[WindowShare]| shares.iter().map(|share| share.calls).sum();
        let shares = self.together(move |call| window.run(call), calls)?;
        Ok((ns_of_each(&shares)? * operations as f64) as u64)
    }

    /// The same, where each call is timed. Adds up to `share` samples of each thread.
    pub(super) fn sample_within(
        &mut self,
        window: Duration,
        share: u64,
        samples: &mut Vec<f64>,
    ) -> Result<(), BenchError> {
        let window = TimeWindow::of(window);
        let work = move |call: &F| {
            let mut taken = Vec::with_capacity(share as usize);
            let mut before = now_ns();
            let done = window.run(|| {
                call()?;
                let now = now_ns();
                if taken.len() < share as usize {
                    taken.push((now - before) as f64);
                }
                before = now;
                Ok(())
            })?;
            Ok((done.calls, taken))
        };
        let taken = self.together(work, |all| all.iter().map(|(calls, _)| calls).sum())?;
        samples.extend(taken.into_iter().flat_map(|(_, taken)| taken));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::contest::Subject;

    const SHORT: Duration = Duration::from_millis(5);

    #[test]
    fn all_threads_call_until_the_window_is_over() {
        let slow = || {
            std::thread::sleep(Duration::from_micros(100));
            Ok(())
        };
        let mut calls = Calls::new("slow", 3, slow).within(SHORT);
        assert!(calls.is_windowed());
        // The threads of a domain without calls take turns on its processors, or run at once.
        let each = calls.batch(1_000).unwrap() / 1_000;
        assert!((20_000..10_000_000).contains(&each), "{each} ns");
        let mut samples = Vec::new();
        calls.single(6, &mut samples).unwrap();
        assert!((1..=6).contains(&samples.len()) && samples.iter().all(|ns| *ns >= 1e5), "{samples:?}");
    }

    #[test]
    fn rates_add_up() {
        let shares = [(10, 1_000), (30, 1_000)].map(|(calls, ns)| WindowShare { calls, ns });
        assert_eq!(ns_of_each(&shares).unwrap(), 25.0);
        assert!(ns_of_each(&[]).is_err());
    }

    #[test]
    fn a_failure_ends_the_window() {
        let window = TimeWindow::of(Duration::from_secs(60));
        let failed = window.run(|| Err(CallError::NoResources(underpass::Outcome::Unknown, "test".into())));
        assert!(failed.is_err());
        assert_eq!(window.run(|| Ok(())).unwrap().calls, 0, "it is over for the others");
    }
}
