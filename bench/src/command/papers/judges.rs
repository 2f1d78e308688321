//! Whether claims of the papers hold today, by the figures of their experiments.
//!
//! A judge is a pure function. It judges the paper's own sentence, and it can say no. Where figures
//! are missing, it judges nothing.

pub(super) mod lrpc;
pub(super) mod othreads;
pub(super) mod psyche;
pub(super) mod raven;
pub(super) mod urpc;

use super::points::{PaperPoint, figure};
use underpass_bench::{ClaimVerdict, Row};

/// What a judge sees: the points of an experiment, and the rows that they come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct PaperFigures<'a> {
    pub(super) points: &'a [PaperPoint],
    pub(super) rows: &'a [Row],
}

/// Whether a claim holds, and by which figures.
pub(super) type Judged = (bool, String);

/// Judges a claim. `None`: a figure is missing.
pub(super) type Judge = fn(PaperFigures<'_>) -> Option<Judged>;

impl<'a> PaperFigures<'a> {
    /// Our ratio of the point at `at` on `line`; of any line if it is empty.
    fn ours(self, at: &str, line: &str) -> Option<f64> {
        let is_it = |point: &&PaperPoint| point.at == at && (line.is_empty() || point.line == line);
        self.points.iter().find(is_it)?.ours
    }

    /// A figure of the row of `case`, with so many threads where it has any.
    fn figure(self, case: &str, threads: Option<u64>, name: &str) -> Option<f64> {
        let is_it = |row: &&Row| {
            let of_threads = threads.is_none_or(|threads| figure(row, "T") == Some(threads as f64));
            row.case == case && row.result.is_ok() && of_threads
        };
        figure(self.rows.iter().find(is_it)?, name)
    }

    /// The points of `line` by their cases, in the order of these: (threads or processors, ratio).
    fn curves(self, line: &str) -> Vec<(&'a str, Vec<(u64, f64)>)> {
        let mut curves: Vec<(&str, Vec<(u64, f64)>)> = Vec::new();
        for point in self.points.iter().filter(|point| point.line == line) {
            let Some((x, ours)) = point.x.zip(point.ours) else { continue };
            let case = point.at.split_once(", T = ").map_or(&*point.at, |(case, _)| case);
            match curves.iter_mut().find(|(name, _)| *name == case) {
                Some((_, curve)) => curve.push((x as u64, ours)),
                None => curves.push((case, vec![(x as u64, ours)])),
            }
        }
        curves
    }
}

fn median(all: impl Iterator<Item = f64>) -> Option<f64> {
    let all = underpass_bench::Summary::of(all);
    (!all.is_empty()).then(|| all.median())
}

/// Whether each pair agrees, and which ones do not.
fn pairs(pairs: usize, against: &[String]) -> Option<Judged> {
    let because = match against {
        [] => format!("all {pairs} pairs agree"),
        against => format!("{} of {pairs} pairs do not agree: {}", against.len(), against.join("; ")),
    };
    (pairs > 0).then_some((against.is_empty(), because))
}

/// Whether all of several curves agree with a claim, which ones do not, and why the first does not.
fn all_curves(verdicts: Vec<(&str, ClaimVerdict)>) -> Option<Judged> {
    let against: Vec<_> = verdicts.iter().filter(|(_, verdict)| !verdict.holds).collect();
    let names = || against.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let because = match against.first() {
        None if verdicts.is_empty() => return None,
        None => format!("all {} curves agree", verdicts.len()),
        Some((name, verdict)) => format!(
            "{} of {} curves do not agree ({}); with {name}, {}",
            against.len(),
            verdicts.len(),
            names(),
            verdict.because
        ),
    };
    Some((against.is_empty(), because))
}

/// No ratio is greater than the paper's by more than a tenth.
pub(super) const AT_MOST: Judge = |figures| {
    let (mut count, mut against) = (0, Vec::new());
    for point in figures.points {
        let Some((ours, paper)) = point.ours.zip(point.paper) else { continue };
        count += 1;
        if ours > 1.1 * paper {
            against.push(format!("{}: {ours:.2}, and the paper's {paper:.2}", point.at));
        }
    }
    pairs(count, &against)
};

/// Each further processor adds something.
pub(super) const GROWS: Judge = |figures| {
    let points = figures.points.iter();
    let measured: Vec<_> = points.filter_map(|point| Some((point.x?, point.ours?))).collect();
    let (last, all) = (measured.last()?, measured.windows(2).all(|pair| pair[1].1 > pair[0].1));
    (measured.len() > 1).then(|| (all, format!("{:.2} times as many with {} processors", last.1, last.0)))
};

/// Shares that are at least so large.
fn at_least(points: &[PaperPoint], least: f64) -> Option<Judged> {
    let (mut count, mut against) = (0, Vec::new());
    for point in points {
        let Some(ours) = point.ours else { continue };
        count += 1;
        if ours < least {
            against.push(format!("{}, {}: {ours:.0} %", point.at, point.line));
        }
    }
    pairs(count, &against)
}

#[cfg(test)]
mod tests {
    use super::*;
    use underpass_bench::Figures;

    pub(super) fn point(at: &str, line: &str, ours: f64, paper: Option<f64>) -> PaperPoint {
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

    /// A point on an axis: of a case with T threads, or of a case that ends in a number.
    pub(super) fn on_axis(at: &str, line: &str, x: u64, ours: f64) -> PaperPoint {
        PaperPoint { x: Some(x as f64), ..point(at, line, ours, None) }
    }

    /// A row with these figures beside its time.
    pub(super) fn row(case: &str, ns: f64, more: &[(&str, f64)]) -> Row {
        let figures = Figures::one(ns, "limit", 1.0);
        let figures = more.iter().fold(figures, |figures, (name, value)| figures.with(name, *value));
        Row { bench: "any".into(), case: case.into(), pinning: String::new(), result: Ok(figures) }
    }

    pub(super) fn judged(judge: Judge, points: &[PaperPoint]) -> Option<bool> {
        judge(PaperFigures { points, rows: &[] }).map(|(holds, _)| holds)
    }

    pub(super) fn judged_rows(judge: Judge, rows: &[Row]) -> Option<bool> {
        judge(PaperFigures { points: &[], rows }).map(|(holds, _)| holds)
    }

    #[test]
    fn one_processor_shows_no_growth() {
        let with = |n: u64, ours| on_axis("fig2", "speedup", n, ours);
        assert_eq!(judged(GROWS, &[with(1, 1.0)]), None);
        assert_eq!(judged(GROWS, &[with(1, 1.0), with(2, 1.8)]), Some(true));
        assert_eq!(judged(GROWS, &[with(1, 1.0), with(2, 0.9)]), Some(false));
        assert_eq!(judged(GROWS, &[with(1, 1.0), with(2, 1.0)]), Some(false), "as many are no growth");
    }

    #[test]
    fn a_tenth_more_than_the_paper_is_at_most_the_papers() {
        let call = |ours| [point("big-in/pinned", "call", ours, Some(1.5))];
        assert_eq!(judged(AT_MOST, &call(1.2)), Some(true));
        assert_eq!(judged(AT_MOST, &call(1.65)), Some(true));
        assert_eq!(judged(AT_MOST, &call(1.66)), Some(false));
        assert_eq!(judged(AT_MOST, &[point("big-in/pinned", "call", 1.0, None)]), None);
    }

    #[test]
    fn curves_are_those_of_a_case_or_of_a_line() {
        let points = [
            on_axis("figures/C1S1, T = 1", "latency", 1, 1.0),
            on_axis("figures/C1S1, T = 2", "latency", 2, 1.2),
            on_axis("figures/C2S2, T = 1", "latency", 1, 1.1),
        ];
        let curves = PaperFigures { points: &points, rows: &[] }.curves("latency");
        let first = ("figures/C1S1", vec![(1, 1.0), (2, 1.2)]);
        assert_eq!(curves, [first, ("figures/C2S2", vec![(1, 1.1)])]);
    }
}
