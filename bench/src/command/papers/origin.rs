//! Where the figures of a report come from: a machine, and the code that each row has measured.

use serde::Serialize;
use underpass_bench::{Machine, MachineSettings, Row, RowOrigin, SourceVersion};
use underpass_figures::{StaleReason, mark};

/// The machine of a report, and how it was measured.
#[derive(Debug)]
pub(super) struct ReportOrigin {
    pub(super) machine: Machine,
    /// The benchmarks that ran there. None stands for all.
    pub(super) benches: Vec<String>,
    /// What a reader has to know about the run.
    pub(super) pace: &'static str,
    /// Whether the figures are too few to be quoted.
    pub(super) is_a_look: bool,
    /// The settings of this machine, if it was measured.
    pub(super) settings: Option<MachineSettings>,
    /// Whether there are reports on other machines beside this one.
    pub(super) has_others: bool,
}

impl ReportOrigin {
    /// This machine, now.
    pub(super) fn measured(machine: Machine, quick: bool) -> Self {
        let pace = if quick { "This is a look (--quick)." } else { "This is a whole run." };
        Self {
            machine,
            benches: Vec::new(),
            pace,
            is_a_look: quick,
            settings: Some(MachineSettings::this()),
            has_others: false,
        }
    }

    /// `machine`, of rows that were printed before.
    pub(super) fn recorded(machine: Machine, benches: Vec<String>, has_others: bool) -> Self {
        let pace = "These are recorded results (--from): each benchmark's are of a run of its own.";
        Self { machine, benches, pace, is_a_look: false, settings: None, has_others }
    }
}

/// Which code a row has measured, and when.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowSource {
    version: SourceVersion,
    date: Option<String>,
    stale: Option<StaleReason>,
}

impl RowSource {
    /// The source of a row that comes from `origin`, which may be `stale`.
    pub(super) fn of(origin: &RowOrigin, stale: Option<StaleReason>) -> Self {
        Self { version: origin.version.clone(), date: origin.date.clone(), stale }
    }
}

/// A row, with its source. One that was not measured has none.
pub(super) type SourcedRow = (Row, Option<RowSource>);

/// The rows of an experiment that have one source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct RowGroup {
    /// Their commit, and whether they are stale: `of 1a2b3c4d, stale`.
    pub(super) mark: String,
    /// When their run began.
    pub(super) date: Option<String>,
    /// Why they are stale.
    pub(super) stale: Option<String>,
    pub(super) cases: Vec<String>,
}

/// The rows by their sources, in the order of each one's first row.
pub(super) fn grouped(rows: &[SourcedRow]) -> Vec<RowGroup> {
    let mut groups: Vec<(&RowSource, Vec<String>)> = Vec::new();
    for (row, source) in rows.iter().filter_map(|(row, source)| Some((row, source.as_ref()?))) {
        match groups.iter_mut().find(|(known, _)| *known == source) {
            Some((_, cases)) if cases.contains(&row.case) => {}
            Some((_, cases)) => cases.push(row.case.clone()),
            None => groups.push((source, vec![row.case.clone()])),
        }
    }
    let group = |(source, cases): (&RowSource, _)| RowGroup {
        mark: mark(&source.version, source.stale.as_ref()),
        date: source.date.clone(),
        stale: source.stale.as_ref().map(ToString::to_string),
        cases,
    };
    groups.into_iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::papers::points::tests::row;
    use underpass_bench::Figures;

    #[test]
    fn rows_of_one_commit_and_date_stand_together() {
        let source = |commit: &str, stale| RowSource {
            version: SourceVersion::recorded(commit, "clean"),
            date: Some("2026-11-28T23:40:05Z".into()),
            stale,
        };
        let of = |case: &str, source| (row(case, Figures::one(1.0, "x", 1.0)), source);
        let old = || Some(source("0123456789", Some(StaleReason::MissingCommit)));
        let new = Some(source("abcdef0123", None));
        let groups = grouped(&[of("a", old()), of("b", new), of("c", old()), of("c", old()), of("d", None)]);
        let told: Vec<_> = groups.iter().map(|group| (group.mark.as_str(), group.cases.join(" "))).collect();
        assert_eq!(told, [("of 01234567, stale", "a c".to_owned()), ("of abcdef01", "b".to_owned())]);
        assert!(groups[0].stale.as_ref().unwrap().contains("commit") && groups[1].stale.is_none());
    }
}
