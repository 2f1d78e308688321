//! Ratios of an experiment, ours and the paper's, from the rows of its benchmark.

use super::experiment::{PaperBase, PaperClaim, PaperExperiment, PaperSource};
use super::judges::PaperFigures;
use serde::Serialize;
use underpass_bench::Row;

/// A figure of a row: ours, and the paper's, as ratios to the same base. One of them may be
/// missing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PaperPoint {
    /// The case, with the number of threads where it has one.
    pub(super) at: String,
    /// The line of the table or figure.
    pub(super) line: String,
    /// Where the point lies on the axis of threads or processors.
    pub(super) x: Option<f64>,
    pub(super) ours: Option<f64>,
    pub(super) paper: Option<f64>,
    /// The 10th and the 90th percentile of the row's ratios to its limit, by their median.
    pub(super) spread: Option<(f64, f64)>,
    /// How often it was measured.
    pub(super) rounds: usize,
}

/// Whether a claim of the paper holds, by the figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PaperVerdict {
    pub(super) claim: String,
    pub(super) holds: bool,
    pub(super) because: String,
}

/// What an experiment has shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct PaperOutcome {
    pub(super) points: Vec<PaperPoint>,
    pub(super) verdicts: Vec<PaperVerdict>,
    /// Claims that are not judged, because figures are missing.
    pub(super) unjudged: Vec<String>,
    /// Cases without figures, and why.
    pub(super) skipped: Vec<(String, String)>,
}

/// A figure of a row, by its name in the JSON.
pub(super) fn figure(row: &Row, name: &str) -> Option<f64> {
    let figures = row.result.as_ref().ok()?;
    match name {
        "ns" => Some(figures.ns),
        "ratio" => Some(figures.ratio),
        _ => figures.more.get(name).or_else(|| figures.detail.get(name))?.as_f64(),
    }
}

/// The outcome of `experiment`, by the rows of its cases.
pub(super) fn outcome(experiment: &PaperExperiment, rows: &[Row]) -> PaperOutcome {
    let mut outcome = PaperOutcome::default();
    let shown = |row: &&Row| {
        let is_hidden = |source: &&PaperSource| !source.shown && source.bench == row.bench;
        !experiment.sources.iter().any(|source| is_hidden(&source))
    };
    for row in rows.iter().filter(shown) {
        if let Err(why) = &row.result {
            outcome.skipped.push((row.case.clone(), why.clone()));
            continue;
        }
        let threads = figure(row, "T");
        let number = row.case.rsplit('/').next().and_then(|last| last.parse().ok());
        let lines = figure(row, "lines");
        let at = match (threads, lines) {
            (Some(threads), _) => format!("{}, T = {threads}", row.case),
            (None, Some(lines)) => format!("{}, lines = {lines}", row.case),
            (None, None) => row.case.clone(),
        };
        for line in experiment.lines {
            let (base, paper_base) = base(experiment, rows, row);
            let ours = figure(row, line.ours).zip(base).map(|(ours, base)| ours / base);
            let Some(ours) = ours.filter(|ours| ours.is_finite()) else { continue };
            let paper = line.paper.and_then(|name| figure(row, name)).zip(paper_base);
            outcome.points.push(PaperPoint {
                at: at.clone(),
                line: line.name.into(),
                x: threads.or(lines).or(number),
                ours: Some(ours),
                paper: paper.map(|(paper, base)| paper / base),
                spread: spread(row),
                rounds: row.result.as_ref().map_or(0, |figures| figures.rounds),
            });
        }
    }
    for (name, paper) in experiment.only_paper {
        let (at, line) = ((*name).into(), "the paper's system".into());
        let (ours, paper) = (None, Some(*paper));
        outcome.points.push(PaperPoint { at, line, x: None, ours, paper, spread: None, rounds: 0 });
    }
    judge(experiment, rows, &mut outcome);
    outcome
}

/// Judges each claim. What a row says about itself does not count, since it may be older than the
/// judge.
fn judge(experiment: &PaperExperiment, rows: &[Row], outcome: &mut PaperOutcome) {
    for PaperClaim { says, judge } in experiment.claims {
        let claim = (*says).to_owned();
        match judge(PaperFigures { points: &outcome.points, rows }) {
            Some((holds, because)) => outcome.verdicts.push(PaperVerdict { claim, holds, because }),
            None => outcome.unjudged.push(claim),
        }
    }
}

/// How far the row's ratios lie apart, as parts of their median.
fn spread(row: &Row) -> Option<(f64, f64)> {
    let figures = row.result.as_ref().ok().filter(|figures| figures.rounds > 1 && figures.ratio > 0.0)?;
    Some((figures.ratio_p10 / figures.ratio, figures.ratio_p90 / figures.ratio))
}

/// By what our figures and the paper's are divided.
fn base(experiment: &PaperExperiment, rows: &[Row], row: &Row) -> (Option<f64>, Option<f64>) {
    match experiment.base {
        PaperBase::Ratios => (Some(1.0), Some(1.0)),
        PaperBase::InRow(ours, paper) => (figure(row, ours), figure(row, paper)),
        PaperBase::Row { case, threads, ours, paper } => {
            let is_base = |row: &&Row| {
                row.case == case && threads.is_none_or(|threads| figure(row, "T") == Some(threads as f64))
            };
            let row = rows.iter().find(is_base);
            (row.and_then(|row| figure(row, ours)), row.and_then(|row| figure(row, paper)))
        }
        PaperBase::Sum(cases) => {
            let of = |name: &str| {
                cases.iter().map(|case| figure(rows.iter().find(|row| row.case == *case)?, name)).sum()
            };
            (of("ns"), of("paper_ns"))
        }
        PaperBase::First => {
            let first = experiment.lines.first().zip(rows.iter().find(|row| row.result.is_ok()));
            (first.and_then(|(line, row)| figure(row, line.ours)), None)
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::command::papers::list::EXPERIMENTS;
    use underpass_bench::Figures;

    pub(crate) fn row(case: &str, figures: Figures) -> Row {
        Row { bench: "threads".into(), case: case.into(), pinning: String::new(), result: Ok(figures) }
    }

    pub(crate) fn experiment(id: &str) -> &'static PaperExperiment {
        EXPERIMENTS.iter().find(|experiment| experiment.id == id).unwrap()
    }

    fn threads(case: &str, ours: f64, kernel: f64, paper: f64, paper_kernel: f64) -> Row {
        let figures = Figures::one(ours, "std", kernel).with("std_ns", kernel);
        row(case, figures.with("paper_ns", paper).with("paper_kernel_ns", paper_kernel))
    }

    #[test]
    fn ours_and_the_papers_are_ratios_to_the_same_base() {
        let rows = [threads("call", 2.0, 2.0, 7e3, 7e3), threads("fork", 50.0, 30e3, 42e3, 1.19e6)];
        let outcome = outcome(experiment("urpc.table1"), &rows);
        let fork: Vec<_> = outcome.points.iter().filter(|point| point.at == "fork").collect();
        assert_eq!((fork[0].ours, fork[0].paper), (Some(25.0), Some(6.0)));
        assert_eq!((fork[1].ours, fork[1].paper), (Some(15e3), Some(170.0)));
        assert_eq!((outcome.verdicts.len(), outcome.verdicts[0].holds), (1, true), "{:?}", outcome.verdicts);
    }

    #[test]
    fn a_claim_that_does_not_hold_is_no() {
        let rows = [threads("call", 2.0, 2.0, 7e3, 7e3), threads("fork", 50.0, 40.0, 42e3, 1.19e6)];
        let verdict = &outcome(experiment("urpc.table1"), &rows).verdicts[0];
        assert!(!verdict.holds && verdict.because.contains("fork: 25.0 and 20.0"), "{verdict:?}");
    }

    #[test]
    fn what_a_row_says_about_itself_does_not_count() {
        let figures = |threads: u64, rate: u64| {
            let figures = Figures::one(1.0, "two-line", 2.0).with("T", threads).with("calls_per_s", rate);
            figures.with("paper_claims", "it grows").with("holds_today", "yes").with("because", "it was so")
        };
        let of = |threads, rate| row("figures/C1S1", figures(threads, rate));
        let skipped = Row { result: Err("needs 8 CPUs".into()), ..row("figures/C4S4", figures(1, 1)) };
        let outcome = outcome(experiment("urpc.fig4"), &[of(1, 10), of(2, 18), of(32, 5), skipped]);
        let verdicts: Vec<_> = outcome.verdicts.iter().map(|verdict| verdict.holds).collect();
        assert_eq!(verdicts, [false], "{:?}", outcome.verdicts);
        assert_eq!(outcome.unjudged.len(), 2, "S = 0 and C = S = 2 are missing: {:?}", outcome.unjudged);
        assert_eq!(outcome.skipped, [("figures/C4S4".into(), "needs 8 CPUs".into())]);
    }

    #[test]
    fn a_handler_of_a_task_stands_beside_the_papers_as_far_as_that_has_figures() {
        let of = |case: &str, figures| Row { bench: "devices".into(), ..row(case, figures) };
        let rows = [
            of("interrupt/runtime", Figures::one(5e3, "read", 5e3).with_detail("paper_ns", 7_210.0)),
            of("interrupt/running", Figures::one(8e3, "read", 5e3).with_detail("paper_ns", 14_000.0)),
            of("interrupt/asleep", Figures::one(60e3, "read", 5e3)),
        ];
        let points = outcome(experiment("raven.interrupts"), &rows).points;
        let paper: Vec<_> = points.iter().map(|point| point.paper).collect();
        assert_eq!(paper, [Some(1.0), Some(14_000.0 / 7_210.0), None]);
        assert_eq!(points[1].ours, Some(1.6));
    }

    #[test]
    fn packages_stand_beside_the_papers_systems() {
        let null = |name: &str, ns| Row {
            bench: "peers".into(),
            ..row(&format!("together/null/{name}"), Figures::one(ns, "underpass", 3_000.0))
        };
        let part = |case: &str, ns| Row { bench: "lrpc".into(), ..row(case, Figures::one(ns, "null", 1.0)) };
        let rows = [
            null("underpass", 3_000.0),
            null("tarpc", 40_000.0),
            part("table5/procedure-call", 2.0),
            part("table5/traps", 398.0),
            part("table5/switches", 1_600.0),
        ];
        let outcome = outcome(experiment("lrpc.table2"), &rows);
        let ours: Vec<_> = outcome.points.iter().filter_map(|point| point.ours).collect();
        assert_eq!(ours, [1.5, 20.0], "parts of a Null are no points");
        assert_eq!(outcome.points.iter().filter(|point| point.paper.is_some()).count(), 6);
        assert!(outcome.verdicts[0].holds && outcome.verdicts[0].because.contains("Underpass 1.5"));
    }

    #[test]
    fn every_experiment_is_made_of_cases_that_there_are() {
        for (at, experiment) in EXPERIMENTS.iter().enumerate() {
            for source in experiment.sources.iter().filter(|source| source.bench != "peers") {
                let bench = underpass_bench::CATALOGUE.iter().find(|bench| bench.name == source.bench);
                let bench = bench.unwrap_or_else(|| panic!("{} wants no benchmark", experiment.id));
                for case in source.cases {
                    assert!(bench.has(case), "{}: {} has no {case}", experiment.id, bench.name);
                }
            }
            assert!(EXPERIMENTS[..at].iter().all(|other| other.id != experiment.id));
        }
    }
}
