//! The claims of LRPC.

use super::{Judge, median, pairs};

/// The other packages take four times the minimum or more.
pub(in super::super) const SEVERAL_TIMES: Judge = |figures| {
    let points = || figures.points.iter();
    let all = || points().filter_map(|point| Some((point.at.rsplit('/').next()?, point.ours?)));
    let own = all().find(|(name, _)| *name == "underpass")?.1;
    let others = median(all().filter(|(name, _)| *name != "underpass").map(|(_, ours)| ours))?;
    Some((others >= 4.0, format!("half of the other packages take {others:.1} or more, Underpass {own:.1}")))
};

/// Two thirds of a call's time are the minimum.
pub(in super::super) const TWO_THIRDS: Judge = |figures| {
    let part = |part: &str| figures.ours(&format!("table5/{part}"), "");
    let share = part("procedure-call")? + part("traps")? + part("switches")?;
    Some((share >= 0.6, format!("it is {:.0} % of a Null", 100.0 * share)))
};

/// This share of the paper's speedup is enough.
const NEARLY: f64 = 0.9;

/// The speedup of several clients to a client alone is the paper's, wherever it has one.
pub(in super::super) const SPEEDUPS: Judge = |figures| {
    let (mut count, mut against) = (0, Vec::new());
    for point in figures.points.iter().filter(|point| point.x > Some(1.0)) {
        let Some((ours, paper)) = point.ours.zip(point.paper) else { continue };
        count += 1;
        if ours < NEARLY * paper {
            against.push(format!("{}: {ours:.2}, and the paper's {paper:.2}", point.at));
        }
    }
    pairs(count, &against)
};

#[cfg(test)]
mod tests {
    use super::super::tests::{judged, on_axis, point};
    use super::*;
    use crate::command::papers::points::PaperPoint;

    #[test]
    fn ours_is_no_other_package() {
        let peers = |tarpc| {
            let null = |name: &str, ours| point(&format!("together/null/{name}"), "Null", ours, None);
            let paper = PaperPoint { ours: None, ..point("Accent", "Null", 0.0, Some(5.2)) };
            [null("underpass", 1.3), null("tarpc", tarpc), paper]
        };
        assert_eq!(judged(SEVERAL_TIMES, &peers(9.0)), Some(true));
        assert_eq!(judged(SEVERAL_TIMES, &peers(3.9)), Some(false));
        assert_eq!(judged(SEVERAL_TIMES, &peers(4.0)), Some(true));
        assert_eq!(judged(SEVERAL_TIMES, &peers(4.0)[1..]), None, "Underpass is missing");
    }

    #[test]
    fn the_minimum_is_to_be_two_thirds() {
        let parts = |switches| {
            let part = |name: &str, ours| point(&format!("table5/{name}"), "part", ours, None);
            [part("procedure-call", 0.05), part("traps", 0.15), part("switches", switches)]
        };
        assert_eq!(judged(TWO_THIRDS, &parts(0.5)), Some(true));
        assert_eq!(judged(TWO_THIRDS, &parts(0.41)), Some(true));
        assert_eq!(judged(TWO_THIRDS, &parts(0.39)), Some(false));
        assert_eq!(judged(TWO_THIRDS, &parts(0.5)[..2]), None);
    }

    #[test]
    fn a_speedup_is_to_be_nearly_the_papers() {
        let four = |ours| [PaperPoint { paper: Some(3.7), ..on_axis("fig2/4", "speedup", 4, ours) }];
        assert_eq!(judged(SPEEDUPS, &four(3.7)), Some(true));
        assert_eq!(judged(SPEEDUPS, &four(3.34)), Some(true));
        assert_eq!(judged(SPEEDUPS, &four(3.32)), Some(false));
        let one = [PaperPoint { paper: Some(1.0), ..on_axis("fig2/1", "speedup", 1, 1.0) }];
        assert_eq!(judged(SPEEDUPS, &one), None, "one client has no speedup");
    }
}
