//! `null`: the round trip of a call that does nothing.

use super::{ONE_EACH, Processors, figures};
use crate::calls::{self, Calls, Probe, ProbeClient};
use crate::measure::call_counters::{Both, CountedCalls};
use crate::measure::contest::{Contest, Subject};
use crate::processes::client::ScenarioClient;
use crate::raw::ping::ReplyKind;
use crate::{BenchError, Effort, Figures};
use std::time::Duration;
use underpass_os::clock::now_ns;

/// The threads of a client that donates its only processor for many calls at once.
const MANY: u64 = 16;

/// The most that each of 16 concurrent calls may cost, relative to a single one.
const BAR_OF_MANY: f64 = 0.25;

/// A bar as a ratio to the limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar {
    case: &'static str,
    ratio: f64,
    /// That many ns above the limit also meet the bar.
    or_ns: f64,
    /// Whether the tail is judged as well. It cannot be where the kernel time-shares a processor.
    tail: bool,
}

pub(super) const PINNED: Bar = Bar { case: "null/pinned", ratio: 1.25, or_ns: 30.0, tail: true };
pub(super) const FLOATING: Bar = Bar { case: "null/floating", ratio: 1.5, or_ns: 0.0, tail: true };
pub(super) const ONE_CPU: Bar = Bar { case: "null/one-cpu", ratio: DONATED, or_ns: 0.0, tail: false };

/// A donated call, relative to the round trip by the kernel on one CPU.
const DONATED: f64 = 1.15;

/// A call by a kernel thread, relative to one by a user-level thread.
const KERNEL_THREAD: f64 = 1.1;

/// The first call after a pause, relative to the cheapest way to wake a thread.
const LATE: f64 = 1.25;

/// The 99th percentile, relative to the median.
const TAIL: f64 = 2.0;

impl Bar {
    fn judge(self, figures: Figures) -> Figures {
        let bar = self.ratio.max(1.0 + self.or_ns / figures.limit_ns);
        let met = figures.ratio <= bar;
        let figures = figures.judged("bar", bar, met);
        if !self.tail {
            return figures;
        }
        let met = figures.p99_ns <= TAIL * figures.ns;
        figures.judged("p99_bar", TAIL, met)
    }
}

/// One caller, and a server that has a whole processor or shares one.
pub(super) fn running(client: &ScenarioClient, bar: Bar) -> Result<(), BenchError> {
    let probe = import(client)?;
    let mut null = null("null", 1, &probe);
    let mut limit = client.limit();
    let mut rings = client.placement().far.map(|far| client.ping("two-ring", ReplyKind::Rings, far));
    let mut subjects: Vec<&mut dyn Subject> = vec![&mut limit, &mut null];
    // On one CPU for both sides it says nothing.
    let apart = client.pinning() != crate::Pinning::Together;
    subjects.extend(rings.as_mut().filter(|_| apart).map(|rings| rings as &mut dyn Subject));
    let contest = client.contest(&mut subjects, 0, 1)?;
    let processors = match client.pinning() {
        crate::Pinning::Floating => {
            Processors { clients: client.placement().all.len(), servers: client.placement().all.len() }
        }
        _ => ONE_EACH,
    };
    let mut figures = bar.judge(figures(&contest, (1, 0), (&null, processors)));
    if let Some(rings) = contest.measured.get(2) {
        let of_rings = contest.ratios(1, 2).median();
        figures =
            figures.with_detail("two-ring_ns", rings.slices().median()).with_detail("of_two-ring", of_rings);
    }
    client.report(bar.case, figures)
}

/// One caller and many callers of a server without processors of its own.
pub(super) fn donated(client: &ScenarioClient, case: &str) -> Result<(), BenchError> {
    let probe = import(client)?;
    let mut raw = client.ping("futex-same-cpu", ReplyKind::Futex, client.placement().near);
    let (mut one, mut many) = (null("one-caller", 1, &probe), null("callers", MANY, &probe));
    let contest = client.contest(&mut [&mut raw, &mut one, &mut many], 0, 1)?;
    let clients = match client.pinning() {
        crate::Pinning::Floating => client.placement().all.len(),
        _ => 1,
    };
    let processors = Processors { clients, servers: 0 };
    let alone = figures(&contest, (1, 0), (&one, processors));
    let met = alone.ratio <= DONATED;
    client.report(case, alone.judged("bar", DONATED, met))?;
    let together = figures(&contest, (2, 1), (&many, processors));
    let met = together.ratio <= BAR_OF_MANY;
    client.report(case, together.judged("bar", BAR_OF_MANY, met))
}

/// A caller that is a kernel thread, compared with a user-level thread.
pub(super) fn kernel_thread(
    client: &ScenarioClient,
    case: &str,
    processors: Processors,
) -> Result<(), BenchError> {
    let probe = import(client)?;
    let mut user = null("user-level", 1, &probe);
    let caller = probe.clone();
    let mut kernel = Calls::by_kernel_thread("kernel-thread", move || caller.null()).counted(&probe);
    let contest = client.contest(&mut [&mut user, &mut kernel], 0, 1)?;
    let figures = figures(&contest, (1, 0), (&kernel, processors));
    let met = figures.ratio <= KERNEL_THREAD;
    client.report(case, figures.judged("bar", KERNEL_THREAD, met))
}

/// The first call after a pause in which the server has fallen asleep.
pub(super) fn idle(client: &ScenarioClient) -> Result<(), BenchError> {
    let probe = import(client)?;
    let quick = client.effort().few;
    let (pause, rounds) = if quick { (Duration::from_millis(50), 3) } else { (Duration::from_secs(1), 15) };
    let (near, far) = (client.placement().near, client.placement().far);
    let mut late = LateCalls { probe, pause, counts: CountedCalls::default() };
    let mut same = client.late_ping("futex-same-cpu", near, pause);
    let mut across = far.map(|far| client.late_ping("futex-cross-cpu", far, pause));
    let mut subjects: Vec<&mut dyn Subject> = vec![&mut late, &mut same];
    subjects.extend(across.as_mut().map(|across| across as &mut dyn Subject));
    let once = vec![1; subjects.len()];
    let effort = Effort { least: rounds, most: rounds, ..client.effort() };
    let contest = Contest::of(&mut subjects, &once, effort, &mut |share| client.progress(share))?;
    let median = |subject: usize| contest.measured[subject].slices().median();
    let cheaper = (1..contest.measured.len()).min_by(|&a, &b| median(a).total_cmp(&median(b))).unwrap_or(1);
    let figures = Figures::of(&contest, 0, cheaper);
    let met = figures.ratio <= LATE;
    let cpus = client.placement().all.len();
    let figures =
        figures.with("T", 1).with("C", cpus).with("S", cpus).with("pause_ns", pause.as_nanos() as f64);
    let figures = (1..contest.measured.len()).fold(figures, |figures, subject| {
        figures.with_detail(&format!("{}_ns", contest.measured[subject].name), median(subject))
    });
    let rate = (1e9 / figures.ns).round() as u64;
    client.report("null/idle", late.counts.tell(figures.with("calls_per_s", rate)).judged("bar", LATE, met))
}

fn import(client: &ScenarioClient) -> Result<ProbeClient, BenchError> {
    let probe = calls::import()?;
    client.settle()?;
    Ok(probe)
}

/// Calls that do nothing, counted.
pub(super) fn null(name: &str, threads: u64, probe: &ProbeClient) -> Calls<impl calls::CallFn + use<>> {
    let caller = probe.clone();
    Calls::new(name, threads, move || caller.null()).counted(probe)
}

/// Calls that each start when both sides have slept for a while.
struct LateCalls {
    probe: ProbeClient,
    pause: Duration,
    counts: CountedCalls,
}

impl Subject for LateCalls {
    fn name(&self) -> &str {
        "late-null"
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        let (probe, pause) = (self.probe.clone(), self.pause);
        let caller = underpass::thread::spawn(move || {
            let before = Both::before(&probe)?;
            let mut ns = 0;
            for _ in 0..operations {
                underpass::thread::sleep(pause);
                let start = now_ns();
                probe.null()?;
                ns += now_ns() - start;
            }
            Ok::<_, underpass::CallError>((ns, before, Both::after(&probe)?))
        });
        let (ns, before, after) = caller.join().map_err(|_| "a calling thread panicked")??;
        self.counts.add(operations, &before, &after);
        Ok(ns)
    }

    /// Each call is timed by itself already.
    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_machine_is_judged_by_ns_and_a_slow_one_by_the_ratio() {
        let judged = |ns, limit| PINNED.judge(Figures::one(ns, "two-line", limit)).more;
        assert_eq!((&judged(59.0, 30.0)["bar"], &judged(59.0, 30.0)["bar_is"]), (&2.0.into(), &"met".into()));
        assert_eq!(judged(61.0, 30.0)["bar_is"], "missed");
        assert_eq!(
            (&judged(370.0, 300.0)["bar"], &judged(370.0, 300.0)["bar_is"]),
            (&1.25.into(), &"met".into())
        );
        assert_eq!(judged(380.0, 300.0)["bar_is"], "missed");
    }

    #[test]
    fn rare_calls_are_judged_where_both_sides_run() {
        let mut figures = Figures::one(100.0, "two-line", 100.0);
        figures.p99_ns = 201.0;
        assert_eq!(PINNED.judge(figures.clone()).more["p99_bar_is"], "missed");
        assert!(!ONE_CPU.judge(figures).more.contains_key("p99_bar"));
    }
}
