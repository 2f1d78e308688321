//! The claims of OThreads.

use super::{Judge, Judged, PaperFigures};
use underpass_bench::ClaimVerdict;
use underpass_bench::claims::{self, CurvePoint};

/// The brackets of a blocking call cost a hundredth of a kernel thread's start and end.
pub(in super::super) const BRACKETS: Judge = |figures| {
    let thread = figures.ours("activation-start", "")? + figures.ours("activation-stop", "")?;
    let share = figures.ours("blocking", "")? / thread;
    Some((share <= 0.015, format!("they cost {:.2} % of one", 100.0 * share)))
};

/// What the shared object costs threads of one domain: 63 to 36 µs in the paper, and a tenth more.
const STILL_FAST: f64 = 1.1 * 63.0 / 36.0;

/// Synchronization within a domain stays fast with the object that domains share.
pub(in super::super) const LOCAL_STAYS_FAST: Judge = |figures| {
    let shared = figures.ours("one-domain", "")?;
    let because = format!("an iteration with the shared object takes {shared:.2} times as long");
    Some((shared <= STILL_FAST, because))
};

/// The curves of Figures 5 to 7.
fn curve(figures: PaperFigures<'_>) -> Vec<CurvePoint> {
    let of = |at: &str, line: &str| figures.ours(at, line);
    let points = figures.points.iter().filter(|point| point.line == "user-level threads");
    let curve = points.filter_map(|point| {
        let (at, threads) = (&*point.at, point.x? as u64);
        Some(CurvePoint {
            threads,
            ours: point.ours?,
            kernel: of(at, "a kernel thread for each")?,
            giving_way: of(at, "a kernel thread for each, giving way"),
            slices: figures.figure(at, None, "slices_between_calls"),
        })
    });
    curve.collect()
}

fn told(verdict: ClaimVerdict) -> Judged {
    (verdict.holds, verdict.because)
}

/// Figure 5.
pub(in super::super) const SPINLOCKS: Judge = |figures| claims::spinlocks(&curve(figures)).map(told);

/// Figure 6.
pub(in super::super) const BARRIERS: Judge = |figures| claims::barriers(&curve(figures)).map(told);

/// Figure 7.
pub(in super::super) const CALLS: Judge = |figures| claims::calls(&curve(figures)).map(told);

#[cfg(test)]
mod tests {
    use super::super::tests::{judged, on_axis, point, row};
    use super::*;

    #[test]
    fn the_shared_object_is_to_stay_fast_within_a_domain() {
        let one = |ours| [point("one-domain", "iteration", ours, Some(1.75))];
        assert_eq!(judged(LOCAL_STAYS_FAST, &one(1.75)), Some(true));
        assert_eq!(judged(LOCAL_STAYS_FAST, &one(4.13)), Some(false));
        assert_eq!(judged(LOCAL_STAYS_FAST, &one(1.92)), Some(true));
        assert_eq!(judged(LOCAL_STAYS_FAST, &one(1.93)), Some(false));
        assert_eq!(judged(LOCAL_STAYS_FAST, &[point("two-domains", "iteration", 24.0, None)]), None);
    }

    #[test]
    fn brackets_are_to_be_cheap() {
        let costs = |blocking| {
            let of = |case: &str, ours| point(case, "operation", ours, None);
            [of("blocking", blocking), of("activation-start", 400.0), of("activation-stop", 600.0)]
        };
        assert_eq!(judged(BRACKETS, &costs(6.5)), Some(true));
        assert_eq!(judged(BRACKETS, &costs(15.0)), Some(true));
        assert_eq!(judged(BRACKETS, &costs(15.1)), Some(false));
        assert_eq!(judged(BRACKETS, &costs(6.5)[..2]), None);
    }

    #[test]
    fn spin_locks_are_judged_where_threads_spin_for_many_slices() {
        let of = |at: &str, threads, line: &str, ours| on_axis(at, line, threads, ours);
        let mut points = Vec::new();
        for (at, threads, spinning) in [("1", 1, 1.0), ("20", 20, 2.0)] {
            points.push(of(at, threads, "user-level threads", 1.0));
            points.push(of(at, threads, "a kernel thread for each", spinning));
            points.push(of(at, threads, "a kernel thread for each, giving way", 1.0));
        }
        let rows = |slices| ["1", "20"].map(|case| row(case, 2.0, &[("slices_between_calls", slices)]));
        let holds =
            |slices| SPINLOCKS(PaperFigures { points: &points, rows: &rows(slices) }).map(|(yes, _)| yes);
        assert_eq!(holds(60.0), Some(true));
        assert_eq!(holds(49.0), None, "hardly a holder lost its processor");
        assert_eq!(judged(SPINLOCKS, &points), None, "older rows don't say how long threads spin");
    }

    #[test]
    fn figures_6_and_7_are_judged_by_both_lines() {
        let both = |kernel: f64| {
            let at = |at: &str, threads, ours, kernel| {
                let line = "a kernel thread for each";
                [on_axis(at, "user-level threads", threads, ours), on_axis(at, line, threads, kernel)]
            };
            [at("1", 1, 1.0, 2.0), at("20", 20, 1.0, kernel)].concat()
        };
        assert_eq!((judged(BARRIERS, &both(10.1)), judged(BARRIERS, &both(10.0))), (Some(true), Some(false)));
        assert_eq!((judged(CALLS, &both(0.8)), judged(CALLS, &both(0.79))), (Some(true), Some(false)));
        assert_eq!(judged(BARRIERS, &both(20.0)[..2]), None);
    }
}
