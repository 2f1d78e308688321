//! `idle` and `trickle`: the processor time of domains that have nothing to do, or almost nothing.

use crate::calls::{self, Probe, ProbeClient};
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures};
use std::time::Duration;
use underpass_os::clock::{cpu_ns, now_ns};

/// Bindings that a server has open in `idle`.
const BINDINGS: usize = 100;

/// The most that counts as 0.00 s in ten seconds: rounded to hundredths.
const NOTHING_S: f64 = 0.005;

/// The time from one call to the next in `trickle`.
const GAP: Duration = Duration::from_millis(1);

/// The share of a CPU that a side may use in `trickle`.
const TRICKLE: f64 = 0.03;

/// How often the client reports that it is still there.
const STEP: Duration = Duration::from_millis(500);

/// Processor time that both sides used, and the time that passed meanwhile.
#[derive(Default)]
struct Used {
    near: u64,
    far: u64,
    passed: u64,
}

impl Used {
    /// The processor time that is used while `something` happens.
    fn during(
        probe: &ProbeClient,
        something: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<Self, BenchError> {
        let (far, near, start) = (probe.cpu_ns()?, cpu_ns(), now_ns());
        something()?;
        let (passed, near) = (now_ns() - start, cpu_ns() - near);
        Ok(Self { near, far: probe.cpu_ns()? - far, passed })
    }

    fn add(&mut self, more: Self) {
        self.near += more.near;
        self.far += more.far;
        self.passed += more.passed;
    }

    /// As figures: the ns of processor time in a second, compared with that second.
    fn figures(&self, used: u64) -> Figures {
        let share = used as f64 / self.passed as f64;
        let passed = self.passed as f64 / 1e9;
        let figures = Figures::one(share * 1e9, "second", 1e9);
        figures.with("cpu_seconds", used as f64 / 1e9).with("passed_seconds", passed)
    }
}

/// A server with many bindings that carry no calls.
pub(super) fn idle(client: &ScenarioClient) -> Result<(), BenchError> {
    let probe = calls::import()?;
    let bindings = (1..BINDINGS).map(|_| calls::bind_apart()).collect::<Result<Vec<_>, _>>()?;
    for binding in &bindings {
        binding.null()?;
    }
    let rest = Duration::from_secs(if client.effort().few { 1 } else { 10 });
    // Work that earlier calls have left is done before the measurement.
    std::thread::sleep(STEP);
    let steps = (rest.as_millis() / STEP.as_millis()) as u32;
    let used = Used::during(&probe, || {
        for step in 0..steps {
            std::thread::sleep(STEP);
            client.progress(f64::from(step) / f64::from(steps));
        }
        Ok(())
    })?;
    drop(bindings);
    for (case, ns) in [("idle/server", used.far), ("idle/client", used.near)] {
        if !client.wants(case) {
            continue;
        }
        let met = ns as f64 / 1e9 < NOTHING_S;
        let figures = used.figures(ns).with("bindings", BINDINGS);
        client.report(case, figures.judged("bar_seconds", NOTHING_S, met))?;
    }
    Ok(())
}

/// One call a millisecond, in turns with a kernel thread that sleeps as often and makes no calls.
pub(super) fn trickle(client: &ScenarioClient) -> Result<(), BenchError> {
    /// Turns of each.
    const TURNS: u64 = 10;
    let probe = calls::import()?;
    let calls = if client.effort().few { 300 } else { 5_000 };
    let (mut used, mut asleep) = (Used::default(), Used::default());
    for _ in 0..TURNS {
        let caller = probe.clone();
        used.add(Used::during(&probe, || {
            let trickle = underpass::thread::spawn(move || {
                every_gap(calls / TURNS, underpass::thread::sleep, || caller.null())
            });
            Ok(trickle.join().map_err(|_| "a calling thread panicked")??)
        })?);
        asleep.add(Used::during(&probe, || every_gap(calls / TURNS, std::thread::sleep, || Ok(())))?);
    }
    let rate = calls as f64 * 1e9 / used.passed as f64;
    for (case, ns) in [("trickle/client", used.near), ("trickle/server", used.far)] {
        if !client.wants(case) {
            continue;
        }
        let figures = used.figures(ns).with("calls_per_s", rate.round() as u64);
        let figures = figures.with("cpu_per_call_ns", ns as f64 / calls as f64);
        let figures = figures.with("cpu_per_sleep_ns", asleep.near as f64 / calls as f64);
        let met = figures.ratio <= TRICKLE;
        client.report(case, figures.judged("bar", TRICKLE, met))?;
    }
    Ok(())
}

/// Does `what` that many times, once each [`GAP`], and sleeps between.
fn every_gap<E>(times: u64, sleep: impl Fn(Duration), what: impl Fn() -> Result<(), E>) -> Result<(), E> {
    let start = now_ns();
    (1..=times).try_for_each(|number| {
        // By the clock, so that the time of a call or a late wake-up does not add to the gaps.
        let due = start + number * GAP.as_nanos() as u64;
        sleep(Duration::from_nanos(due.saturating_sub(now_ns())));
        what()
    })
}
