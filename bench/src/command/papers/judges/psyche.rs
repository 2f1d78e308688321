//! The claims of the Psyche paper.

use super::{Judge, at_least, pairs};

/// An invocation is cheaper than remote access with locks.
pub(in super::super) const INVOCATION: Judge = |figures| {
    let (mut count, mut against) = (0, Vec::new());
    for access in figures.points.iter().filter(|point| point.line == "remote access, locks") {
        let invoked = figures.ours(&access.at, "invocation, locks");
        let Some((access_ours, invoked)) = access.ours.zip(invoked) else { continue };
        count += 1;
        if invoked > access_ours {
            against.push(format!("{}: {invoked:.1} and {access_ours:.1}", access.at));
        }
    }
    pairs(count, &against)
};

/// Locks take a twentieth or more.
pub(in super::super) const TWENTIETH: Judge = |figures| at_least(figures.points, 5.0);

/// Remote access is half of the latency or more.
pub(in super::super) const HALF: Judge = |figures| at_least(figures.points, 50.0);

/// Ours is below a hundred where the paper's is.
pub(in super::super) const BELOW_HUNDRED: Judge = |figures| {
    let (mut count, mut against) = (0, Vec::new());
    for point in figures.points.iter().filter(|point| point.paper.is_some_and(|paper| paper < 100.0)) {
        let Some(ours) = point.ours else { continue };
        count += 1;
        if ours >= 100.0 {
            against.push(format!("{}, {}: {ours:.0} %", point.at, point.line));
        }
    }
    pairs(count, &against)
};

/// A difference of more than this factor is one.
const DIFFERS: f64 = 1.25;

/// The overhead of an invocation is fixed, and that of remote access grows with the operation: seen
/// at the lists of 5 and 10.
pub(in super::super) const FIXED: Judge = |figures| {
    let of = |case: &str, name| figures.figure(&format!("table1/{case}"), None, name);
    let wake_up = of("find-in-10", "invoke_nothing_ns")? / of("find-in-5", "invoke_nothing_ns")?;
    let memory = |case| Some(of(case, "access_off_ns")? - of(case, "local_off_ns")?);
    let grows = memory("find-in-10")? / memory("find-in-5")?;
    let because = format!("the wake-up takes {wake_up:.2} times as long, and memory {grows:.2} times");
    Some((wake_up.max(1.0 / wake_up) <= DIFFERS && grows > DIFFERS, because))
};

/// An invocation at interrupt level takes less than one at process level, for each state of the
/// home.
pub(in super::super) const INTERRUPT_IS_FASTER: Judge = |figures| {
    let (mut count, mut against) = (0, Vec::new());
    for point in figures.points {
        let Some(ours) = point.ours else { continue };
        count += 1;
        if ours >= 1.0 {
            against.push(format!("{}: {ours:.2} times as long", point.at));
        }
    }
    let because = pairs(count, &against)?;
    Some((because.0, format!("{}; the paper's takes 0.13 times as long", because.1)))
};

/// What a home may lose to remote access and still be left alone: the paper's loses a nineteenth.
const LEFT_ALONE: f64 = 0.1;
/// From what share of an invocation on the home's processor counts as taken. The paper's is 17/22.
const TAKEN: f64 = 0.5;

/// Remote access leaves the home alone, and an invocation at interrupt level takes its processor.
/// Only rows count in which the home has written the data before each access.
pub(in super::super) const LEAVES_ALONE: Judge = |figures| {
    figures.figure("slowdown", None, "touched_lines")?;
    let (access, interrupt) =
        (figures.ours("slowdown", "remote access")?, figures.ours("slowdown", "at interrupt level")?);
    let because = format!(
        "the home loses {:.1} % of the time of a remote access, and {:.1} % of that of an invocation",
        100.0 * access,
        100.0 * interrupt
    );
    Some((access <= LEFT_ALONE && interrupt >= TAKEN, because))
};

/// The automatic choice takes no more than this times what the better way takes.
const OF_BETTER: f64 = 1.15;

/// The choice by cost is as good as the better of both ways.
pub(in super::super) const CHOICE: Judge = |figures| {
    let (mut count, mut against) = (0, Vec::new());
    for point in figures.points {
        let Some(ours) = point.ours else { continue };
        count += 1;
        if ours > OF_BETTER {
            against.push(format!("{}: {ours:.2}", point.at));
        }
    }
    pairs(count, &against)
};

/// How far the measured break-even may lie from the predicted one.
const OF_PREDICTED: f64 = 1.5;

/// Both ways take as long where (R − 1)n = C.
pub(in super::super) const BREAK_EVEN: Judge = |figures| {
    let of = |name| figures.figure("break-even", None, name);
    let (measured, predicted) = (of("measured_lines")?, of("predicted_lines")?);
    let apart = (measured / predicted).max(predicted / measured);
    let holds = apart <= OF_PREDICTED || (measured - predicted).abs() <= 1.0;
    Some((holds, format!("they do at {measured:.1} lines, and R and C predict {predicted:.1}")))
};

#[cfg(test)]
mod tests {
    use super::super::PaperFigures;
    use super::super::tests::{judged, judged_rows, point, row};
    use super::*;

    #[test]
    fn an_invocation_is_to_be_cheaper() {
        let both = |invoked| {
            let of = |line: &str, ours| point("table1/find-in-5", line, ours, None);
            [of("remote access, locks", 5.0), of("invocation, locks", invoked)]
        };
        assert_eq!(judged(INVOCATION, &both(4.0)), Some(true));
        assert_eq!(judged(INVOCATION, &both(5.0)), Some(true));
        assert_eq!(judged(INVOCATION, &both(5.1)), Some(false));
        assert_eq!(judged(INVOCATION, &both(4.0)[..1]), None);
    }

    #[test]
    fn shares_are_to_be_large_enough() {
        let share = |ours| [point("table1/find-in-5", "local", ours, None)];
        assert_eq!(
            [5.1, 5.0, 4.9].map(|ours| judged(TWENTIETH, &share(ours))),
            [Some(true), Some(true), Some(false)]
        );
        assert_eq!(
            [51.0, 50.0, 49.9].map(|ours| judged(HALF, &share(ours))),
            [Some(true), Some(true), Some(false)]
        );
        assert_eq!(judged(HALF, &[]), None);
    }

    #[test]
    fn what_was_below_a_hundred_is_to_stay_below() {
        let both = |ours| [point("a", "both", ours, Some(80.0)), point("b", "both", 140.0, Some(113.0))];
        assert_eq!(judged(BELOW_HUNDRED, &both(50.0)), Some(true));
        assert_eq!(judged(BELOW_HUNDRED, &both(99.9)), Some(true));
        assert_eq!(judged(BELOW_HUNDRED, &both(100.0)), Some(false));
    }

    #[test]
    fn interrupt_level_is_to_be_faster_in_each_state() {
        let both = |busy| {
            let level = |case: &str, ours| point(case, "interrupt to process level", ours, Some(0.133));
            [level("levels/polling", 0.2), level("levels/busy", busy)]
        };
        assert_eq!(judged(INTERRUPT_IS_FASTER, &both(0.13)), Some(true));
        assert_eq!(judged(INTERRUPT_IS_FASTER, &both(0.99)), Some(true));
        assert_eq!(judged(INTERRUPT_IS_FASTER, &both(1.0)), Some(false));
        assert_eq!(judged(INTERRUPT_IS_FASTER, &both(60.0)), Some(false));
        assert_eq!(judged(INTERRUPT_IS_FASTER, &[]), None);
    }

    #[test]
    fn a_home_is_left_alone_by_access_and_loses_its_processor_to_interrupts() {
        let holds = |access, interrupt| {
            let of = |line: &str, ours| point("slowdown", line, ours, None);
            let points = [of("remote access", access), of("at interrupt level", interrupt)];
            let rows = [row("slowdown", 1.0, &[("touched_lines", 12.0)])];
            let judged = LEAVES_ALONE(PaperFigures { points: &points, rows: &rows }).map(|(holds, _)| holds);
            // Without the home's writes an access is none.
            assert_eq!(LEAVES_ALONE(PaperFigures { points: &points, rows: &[] }), None);
            judged
        };
        assert_eq!(holds(1.0 / 19.0, 17.0 / 22.0), Some(true), "the paper's");
        assert_eq!(holds(0.001, 0.04), Some(false), "the processor is not taken");
        assert_eq!(holds(0.3, 0.8), Some(false), "the home is not left alone");
        assert_eq!(
            (holds(0.1, 0.5), holds(0.11, 0.5), holds(0.1, 0.49)),
            (Some(true), Some(false), Some(false))
        );
    }

    #[test]
    fn an_invocation_costs_as_much_for_a_longer_list_and_memory_costs_more() {
        let lists = |wake_up, memory| {
            let list = |case: &str, wake_up: f64, memory: f64| {
                let local = ("local_off_ns", 10.0);
                row(case, 1.0, &[("invoke_nothing_ns", wake_up), ("access_off_ns", 10.0 + memory), local])
            };
            [list("table1/find-in-5", 100.0, 100.0), list("table1/find-in-10", wake_up, memory)]
        };
        assert_eq!(judged_rows(FIXED, &lists(100.0, 200.0)), Some(true));
        assert_eq!(judged_rows(FIXED, &lists(130.0, 200.0)), Some(false), "the wake-up grows");
        assert_eq!(judged_rows(FIXED, &lists(100.0, 110.0)), Some(false), "memory does not");
        assert_eq!(judged_rows(FIXED, &lists(125.0, 126.0)), Some(true));
        assert_eq!(judged_rows(FIXED, &lists(100.0, 125.0)), Some(false));
        assert_eq!(judged_rows(FIXED, &lists(100.0, 200.0)[..1]), None);
    }

    #[test]
    fn the_choice_is_to_be_as_good_as_the_better_way() {
        let choice = |ours| [point("either/asleep", "either", ours, None)];
        assert_eq!(
            [1.0, 1.15, 1.16].map(|ours| judged(CHOICE, &choice(ours))),
            [Some(true), Some(true), Some(false)]
        );
        assert_eq!(judged(CHOICE, &[]), None);
    }

    #[test]
    fn the_break_even_is_to_be_where_the_costs_predict_it() {
        let at = |measured: f64| {
            [row("break-even", measured, &[("measured_lines", measured), ("predicted_lines", 10.0)])]
        };
        assert_eq!(judged_rows(BREAK_EVEN, &at(11.0)), Some(true));
        assert_eq!(judged_rows(BREAK_EVEN, &at(15.0)), Some(true));
        assert_eq!(judged_rows(BREAK_EVEN, &at(15.1)), Some(false));
        assert_eq!(judged_rows(BREAK_EVEN, &at(6.6)), Some(false));
        assert_eq!(judged_rows(BREAK_EVEN, &[row("break-even", 1.0, &[])]), None);
    }
}
