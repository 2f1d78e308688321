//! Whether claims of the papers hold today, by the points of their experiments.

use super::points::PaperPoint;

/// Says by the points whether the claim holds, and by which figures. `None`: a point is missing.
pub(super) type Judge = fn(&[PaperPoint]) -> Option<(bool, String)>;

/// Our ratio of the point at `at` on `line`; of any line if it is empty.
fn ours(points: &[PaperPoint], at: &str, line: &str) -> Option<f64> {
    let point = points.iter().find(|point| point.at == at && (line.is_empty() || point.line == line))?;
    point.ours
}

fn median(all: impl Iterator<Item = f64>) -> Option<f64> {
    let all = underpass_bench::Summary::of(all);
    (!all.is_empty()).then(|| all.median())
}

/// Whether each pair agrees, and which ones do not.
fn pairs(pairs: usize, against: &[String]) -> Option<(bool, String)> {
    let because = match against {
        [] => format!("all {pairs} pairs agree"),
        against => format!("{} of {pairs} pairs do not agree: {}", against.len(), against.join("; ")),
    };
    (pairs > 0).then_some((against.is_empty(), because))
}

/// The second line's ratio is greater than the first's, wherever the paper's is.
pub(super) const ORDER: Judge = |points| {
    let (mut count, mut against) = (0, Vec::new());
    let first_line = &points.first()?.line;
    for first in points.iter().filter(|point| point.line == *first_line) {
        let other = points.iter().find(|other| other.at == first.at && other.line != first.line);
        let Some(other) = other.filter(|other| other.paper > first.paper) else { continue };
        let Some((first_ours, other_ours)) = first.ours.zip(other.ours) else { continue };
        count += 1;
        if other_ours <= first_ours {
            against.push(format!("{}: {first_ours:.1} and {other_ours:.1}", first.at));
        }
    }
    pairs(count, &against)
};

/// No ratio is greater than the paper's by more than a tenth.
pub(super) const AT_MOST: Judge = |points| {
    let (mut count, mut against) = (0, Vec::new());
    for point in points {
        let Some((ours, paper)) = point.ours.zip(point.paper) else { continue };
        count += 1;
        if ours > 1.1 * paper {
            against.push(format!("{}: {ours:.2}, and the paper's {paper:.2}", point.at));
        }
    }
    pairs(count, &against)
};

/// Dispatch is the largest part of each side.
pub(super) const DISPATCH: Judge = |points| {
    let mut against = Vec::new();
    for side in ["client", "server"] {
        let part = |part: &str| ours(points, &format!("table2/{side}/{part}"), "");
        let dispatch = part("dispatch")?;
        let most = part("send")?.max(part("poll")?).max(part("receive")?);
        if dispatch < most {
            against.push(format!("{side}: {dispatch:.1} for dispatch, and {most:.1} for another part"));
        }
    }
    pairs(2, &against)
};

/// The other packages take four times the minimum or more.
pub(super) const SEVERAL_TIMES: Judge = |points| {
    let all = || points.iter().filter_map(|point| Some((point.at.rsplit('/').next()?, point.ours?)));
    let own = all().find(|(name, _)| *name == "underpass")?.1;
    let others = median(all().filter(|(name, _)| *name != "underpass").map(|(_, ours)| ours))?;
    Some((others >= 4.0, format!("half of the other packages take {others:.1} or more, Underpass {own:.1}")))
};

/// Two thirds of a call's time are the minimum.
pub(super) const TWO_THIRDS: Judge = |points| {
    let part = |part: &str| ours(points, &format!("table5/{part}"), "");
    let share = part("procedure-call")? + part("traps")? + part("switches")?;
    Some((share >= 0.6, format!("it is {:.0} % of a Null", 100.0 * share)))
};

/// Each further processor adds something.
pub(super) const GROWS: Judge = |points| {
    let measured: Vec<_> = points.iter().filter_map(|point| Some((point.x?, point.ours?))).collect();
    let (last, all) = (measured.last()?, measured.windows(2).all(|pair| pair[1].1 > pair[0].1));
    (measured.len() > 1).then(|| (all, format!("{:.2} times as many with {} processors", last.1, last.0)))
};

/// Two processors on each side make more calls than one on each.
pub(super) const TWO_ON_EACH_SIDE: Judge = |points| {
    let best = |case: &str| {
        let rates = points.iter().filter(|point| point.at.starts_with(case)).filter_map(|point| point.ours);
        rates.max_by(f64::total_cmp)
    };
    let times = best("figures/C2S2,")? / best("figures/C1S1,")?;
    Some((times > 1.1, format!("two on each side make {times:.2} times as many calls as one on each")))
};

/// The brackets of a blocking call cost a hundredth of a kernel thread's start and end.
pub(super) const BRACKETS: Judge = |points| {
    let thread = ours(points, "activation-start", "")? + ours(points, "activation-stop", "")?;
    let share = ours(points, "blocking", "")? / thread;
    Some((share <= 0.015, format!("they cost {:.2} % of one", 100.0 * share)))
};

/// Two domains take ten times as long as one.
pub(super) const TWO_DOMAINS: Judge = |points| {
    let times = ours(points, "two-domains", "")?;
    Some((times > 10.0, format!("it takes {times:.1} times as long")))
};

/// An invocation is cheaper than remote access with locks.
pub(super) const INVOCATION: Judge = |points| {
    let (mut count, mut against) = (0, Vec::new());
    for access in points.iter().filter(|point| point.line == "remote access, locks") {
        let invoked = ours(points, &access.at, "invocation, locks");
        let Some((access_ours, invoked)) = access.ours.zip(invoked) else { continue };
        count += 1;
        if invoked > access_ours {
            against.push(format!("{}: {invoked:.1} and {access_ours:.1}", access.at));
        }
    }
    pairs(count, &against)
};

/// Shares that are at least so large.
fn at_least(points: &[PaperPoint], least: f64) -> Option<(bool, String)> {
    let mut against = Vec::new();
    for point in points {
        if let Some(ours) = point.ours.filter(|ours| *ours < least) {
            against.push(format!("{}, {}: {ours:.0} %", point.at, point.line));
        }
    }
    pairs(points.len(), &against)
}

/// Locks take a twentieth or more.
pub(super) const TENTH: Judge = |points| at_least(points, 5.0);

/// Remote access is half of the latency or more.
pub(super) const HALF: Judge = |points| at_least(points, 50.0);

/// Ours is below a hundred where the paper's is.
pub(super) const BELOW_HUNDRED: Judge = |points| {
    let (mut count, mut against) = (0, Vec::new());
    for point in points.iter().filter(|point| point.paper.is_some_and(|paper| paper < 100.0)) {
        let Some(ours) = point.ours else { continue };
        count += 1;
        if ours >= 100.0 {
            against.push(format!("{}, {}: {ours:.0} %", point.at, point.line));
        }
    }
    pairs(count, &against)
};

/// The home loses less to access than to invocations.
pub(super) const LEAVES_ALONE: Judge = |points| {
    let lost = |line: &str| points.iter().find(|point| point.line == line)?.ours;
    let (access, interrupt) = (lost("remote access")?, lost("at interrupt level")?);
    let because = format!("it loses {:.1} % and {:.1} % of their time", 100.0 * access, 100.0 * interrupt);
    Some((access < interrupt, because))
};

/// Ten threads on each side are slower than one on each, with two processors.
pub(super) const TEN_BY_TEN: Judge = |points| {
    let [one, ten] = [1, 10].map(|threads| ours(points, &format!("sync/two-processors, T = {threads}"), ""));
    let (one, ten) = one.zip(ten)?;
    Some((ten > one, format!("a message takes {ten:.1} Nulls by ten and {one:.1} by one")))
};

/// An asynchronous message takes half of the time or less.
pub(super) const MUCH_FASTER: Judge = |points| {
    let one = ours(points, "async/1-sender", "")?;
    Some((one <= 0.5, format!("it takes {:.0} % of the time", 100.0 * one)))
};

/// A task's handler takes about twice as long as the runtime's.
pub(super) const TWICE: Judge = |points| {
    let times = ours(points, "interrupt/running", "")?;
    Some((times <= 2.2, format!("it takes {times:.2} times as long")))
};

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: &str, line: &str, ours: f64, paper: Option<f64>) -> PaperPoint {
        PaperPoint {
            at: at.into(),
            line: line.into(),
            x: None,
            ours: Some(ours),
            paper,
            spread: None,
            rounds: 1,
        }
    }

    fn judged(judge: Judge, points: &[PaperPoint]) -> Option<bool> {
        judge(points).map(|(holds, _)| holds)
    }

    #[test]
    fn a_claim_wants_all_of_its_points() {
        let side = |side: &str, dispatch: f64| {
            let part = |name: &str, ours| point(&format!("table2/{side}/{name}"), "component", ours, None);
            [part("send", 4.0), part("poll", 1.0), part("receive", 5.0), part("dispatch", dispatch)]
        };
        let client = side("client", 20.0);
        assert_eq!(judged(DISPATCH, &client), None, "the server is missing");
        let both = |server| client.iter().cloned().chain(side("server", server)).collect::<Vec<_>>();
        assert_eq!(judged(DISPATCH, &both(9.0)), Some(true));
        assert_eq!(judged(DISPATCH, &both(1.0)), Some(false));
    }

    #[test]
    fn ours_is_no_other_package() {
        let peers = |tarpc| {
            let null = |name: &str, ours| point(&format!("together/null/{name}"), "Null", ours, None);
            let paper = PaperPoint { ours: None, ..point("Accent", "Null", 0.0, Some(5.2)) };
            [null("underpass", 1.3), null("kernel-stream", 5.0), null("tarpc", tarpc), paper]
        };
        assert_eq!(judged(SEVERAL_TIMES, &peers(9.0)), Some(true));
        assert_eq!(judged(SEVERAL_TIMES, &peers(2.0)), Some(false));
    }

    #[test]
    fn what_was_below_a_hundred_is_to_stay_below() {
        let both = |ours| [point("a", "both", ours, Some(80.0)), point("b", "both", 140.0, Some(113.0))];
        assert_eq!(judged(BELOW_HUNDRED, &both(50.0)), Some(true));
        assert_eq!(judged(BELOW_HUNDRED, &both(120.0)), Some(false));
    }

    #[test]
    fn more_processors_are_to_make_more_calls() {
        let rate = |case: &str, ours| point(&format!("figures/{case}, T = 2"), "throughput", ours, None);
        assert_eq!(judged(TWO_ON_EACH_SIDE, &[rate("C1S1", 1.7)]), None);
        assert_eq!(judged(TWO_ON_EACH_SIDE, &[rate("C1S1", 1.7), rate("C2S2", 2.3)]), Some(true));
        assert_eq!(judged(TWO_ON_EACH_SIDE, &[rate("C1S1", 1.7), rate("C2S2", 0.6)]), Some(false));
    }

    #[test]
    fn one_processor_shows_no_growth() {
        let with = |n: f64, ours| PaperPoint { x: Some(n), ..point("fig2", "speedup", ours, None) };
        assert_eq!(judged(GROWS, &[with(1.0, 1.0)]), None);
        assert_eq!(judged(GROWS, &[with(1.0, 1.0), with(2.0, 1.8)]), Some(true));
        assert_eq!(judged(GROWS, &[with(1.0, 1.0), with(2.0, 0.9)]), Some(false));
    }
}
