//! `underpass-bench papers`: the papers' tables and figures on this machine, as one page.
//!
//! *Read first:* `experiment.rs`, then `list.rs`.

mod experiment;
mod judges;
mod list;
mod measured;
mod origin;
mod overview;
mod page;
mod plot;
mod points;
mod recorded;

use experiment::PaperExperiment;
use list::EXPERIMENTS;
use measured::CaseRows;
use origin::{ReportOrigin, RowGroup, RowSource, SourcedRow};
use points::PaperOutcome;
use recorded::RecordedRows;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use underpass_bench::{BenchError, Effort, Machine, Row, RowOrigin};

/// What `underpass-bench papers` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct PapersArguments {
    /// Only these, by name: `urpc` is `urpc.fig3` and all that begin so
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    only: Vec<String>,
    /// A look: tenths of a second a row
    #[arg(long)]
    quick: bool,
    /// The directory of the report
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// Where the other packages are [default: $UNDERPASS_PEERS, else peers/target/release]
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// Measure nothing: take the rows of the files in this directory, which `underpass-bench NAME
    /// --json` has printed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["quick", "peers"])]
    from: Option<PathBuf>,
    /// List the experiments
    #[arg(long)]
    list: bool,
}

/// Runs the experiments, and writes `index.html` and a file of JSON for each. Recorded results of
/// several machines have a folder for each machine, and `index.html` shows them side by side.
///
/// # Errors
/// If `only` names none, a benchmark fails, recorded rows can't be read, or the report can't be
/// written.
pub fn run(arguments: &PapersArguments, out: &mut impl Write) -> Result<(), BenchError> {
    let wanted = chosen(&arguments.only)?;
    if arguments.list {
        for experiment in wanted {
            writeln!(out, "{:<18}{}: {}", experiment.id, experiment.stands, experiment.title)?;
        }
        return Ok(());
    }
    match &arguments.from {
        Some(directory) => recorded(&RecordedRows::read(directory)?, &wanted, &arguments.out, out)?,
        None => measured(arguments, &wanted, out)?,
    }
    Ok(writeln!(out, "the report is {}", arguments.out.join("index.html").display())?)
}

/// Measures the experiments, and writes the report.
fn measured(
    arguments: &PapersArguments,
    wanted: &[&'static PaperExperiment],
    out: &mut impl Write,
) -> Result<(), BenchError> {
    let effort = if arguments.quick { Effort::QUICK } else { Effort::FULL };
    let from = RowOrigin::of_this_run(underpass_bench::built_version());
    // What is measured now is of the code that is measured, so it is not stale.
    let source = RowSource::of(&from, None);
    let mut rows = CaseRows::new(effort, arguments.peers.clone(), wanted.len());
    let mut report = MachineReport::new(ReportOrigin::measured(from.machine, arguments.quick));
    for (number, experiment) in wanted.iter().enumerate() {
        let rows = rows.of(experiment, number)?;
        let sourced = rows.into_iter().map(|row| {
            let source = row.result.is_ok().then(|| source.clone());
            (row, source)
        });
        report.add(experiment, sourced.collect());
        // What was measured is kept, should a later experiment fail.
        report.write(&arguments.out)?;
    }
    rows.finish();
    report.tell(out)
}

/// Makes the report of recorded rows: one for each machine, and a page of all.
fn recorded(
    rows: &RecordedRows,
    wanted: &[&'static PaperExperiment],
    directory: &Path,
    out: &mut impl Write,
) -> Result<(), BenchError> {
    let mut reports = Vec::new();
    for machine in rows.machines() {
        let mut report = MachineReport::new(rows.origin(&machine));
        let (there, missing): (Vec<_>, Vec<_>) =
            wanted.iter().copied().partition(|experiment| rows.has(experiment, &machine));
        for experiment in there {
            report.add(experiment, rows.of(experiment, &machine));
        }
        report.missing = missing;
        reports.push(report);
    }
    if let [report] = &reports[..] {
        report.write(directory)?;
        return report.tell(out);
    }
    let reports = overview::with_folders(reports);
    for (folder, report) in &reports {
        report.write(&directory.join(folder))?;
        let Machine { cpu, kernel, processors, .. } = &report.origin.machine;
        writeln!(out, "{cpu}, {kernel}, {processors} processors:")?;
        report.tell(out)?;
    }
    write(&directory.join("index.html"), &overview::page(&reports, wanted))
}

/// The experiments on one machine.
struct MachineReport {
    origin: ReportOrigin,
    parts: Vec<ReportPart>,
    /// Those of which nothing was measured there.
    missing: Vec<&'static PaperExperiment>,
}

/// An experiment, and what it has shown.
struct ReportPart {
    experiment: &'static PaperExperiment,
    outcome: PaperOutcome,
    groups: Vec<RowGroup>,
}

impl MachineReport {
    fn new(origin: ReportOrigin) -> Self {
        Self { origin, parts: Vec::new(), missing: Vec::new() }
    }

    /// Adds an experiment, by the rows of this machine.
    fn add(&mut self, experiment: &'static PaperExperiment, sourced: Vec<SourcedRow>) {
        let groups = origin::grouped(&sourced);
        let rows: Vec<Row> = sourced.into_iter().map(|(row, _)| row).collect();
        self.parts.push(ReportPart { experiment, outcome: points::outcome(experiment, &rows), groups });
    }

    /// Writes the page, and a file for each experiment.
    fn write(&self, directory: &Path) -> Result<(), BenchError> {
        std::fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let machine = &self.origin.machine;
        for ReportPart { experiment, outcome, groups } in &self.parts {
            let told = json!({
                "id": experiment.id, "stands": experiment.stands, "title": experiment.title,
                "to": experiment.to, "cpu": machine.cpu, "kernel": machine.kernel,
                "processors": machine.processors, "rows": groups, "outcome": outcome,
            });
            let file = directory.join(format!("{}.json", experiment.id));
            write(&file, &serde_json::to_string_pretty(&told)?)?;
        }
        write(&directory.join("index.html"), &page::page(self))
    }

    /// Prints the verdicts.
    fn tell(&self, out: &mut impl Write) -> Result<(), BenchError> {
        for ReportPart { experiment, outcome, .. } in &self.parts {
            for verdict in &outcome.verdicts {
                let holds = if verdict.holds { "yes" } else { "no" };
                writeln!(out, "{:<18}{holds:<5}{}: {}", experiment.id, verdict.claim, verdict.because)?;
            }
            for claim in &outcome.unjudged {
                writeln!(out, "{:<18}{:<5}{claim}: figures are missing", experiment.id, "-")?;
            }
        }
        Ok(())
    }
}

fn write(file: &Path, text: &str) -> Result<(), BenchError> {
    std::fs::write(file, text).map_err(|e| format!("{} can't be written: {e}", file.display()).into())
}

/// The experiments that `only` names; all if it is empty.
fn chosen(only: &[String]) -> Result<Vec<&'static PaperExperiment>, BenchError> {
    let named = |experiment: &PaperExperiment, name: &str| {
        experiment.id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if let Some(unknown) = only.iter().find(|name| !EXPERIMENTS.iter().any(|one| named(one, name))) {
        let known: Vec<_> = EXPERIMENTS.iter().map(|experiment| experiment.id).collect();
        return Err(format!("no experiment is called `{unknown}`; there are {}", known.join(", ")).into());
    }
    let wanted = |one: &&PaperExperiment| only.is_empty() || only.iter().any(|name| named(one, name));
    Ok(EXPERIMENTS.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_chosen_by_their_names_or_their_papers() {
        let ids = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|&name| name.to_owned()).collect();
            chosen(&only).map(|all| all.iter().map(|experiment| experiment.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&[]).unwrap().len(), EXPERIMENTS.len());
        assert_eq!(ids(&["urpc.fig3"]).unwrap(), ["urpc.fig3"]);
        assert_eq!(ids(&["lrpc"]).unwrap(), ["lrpc.table2", "lrpc.table4", "lrpc.table5", "lrpc.fig2"]);
        let error = ids(&["urp"]).unwrap_err().to_string();
        assert!(error.contains("`urp`") && error.contains("urpc.table1"), "{error}");
    }
}
