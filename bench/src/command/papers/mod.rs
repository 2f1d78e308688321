//! `underpass-bench papers`: the papers' tables and figures on this machine, as one page.
//!
//! *Read first:* `experiment.rs`, then `list.rs`.

mod experiment;
mod judges;
mod list;
mod origin;
mod page;
mod plot;
mod points;
mod recorded;

use experiment::{PaperExperiment, PaperSource};
use indicatif::{ProgressBar, ProgressStyle};
use list::EXPERIMENTS;
use origin::ReportOrigin;
use recorded::RecordedRows;
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use underpass_bench::{
    BenchError, Effort, PeersOptions, PeersPace, PeersScope, Row, RunObserver, RunOptions, peers,
};

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

/// Runs the experiments, and writes `index.html` and a file of JSON for each.
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
    let mut rows = ReportRows::of(arguments, wanted.len())?;
    let origin = rows.origin(arguments.quick);
    std::fs::create_dir_all(&arguments.out).map_err(|e| format!("{}: {e}", arguments.out.display()))?;
    let mut parts = Vec::new();
    for (number, experiment) in wanted.into_iter().enumerate() {
        let outcome = points::outcome(experiment, &rows.of_experiment(experiment, number)?);
        let machine = origin.machine_of(experiment.sources.first().map_or("", |source| source.bench));
        let told = json!({
            "id": experiment.id, "stands": experiment.stands, "title": experiment.title, "to": experiment.to,
            "cpu": machine.cpu, "kernel": machine.kernel, "processors": machine.processors, "outcome": outcome,
        });
        write(&arguments.out.join(format!("{}.json", experiment.id)), &serde_json::to_string_pretty(&told)?)?;
        for verdict in &outcome.verdicts {
            let holds = if verdict.holds { "yes" } else { "no" };
            writeln!(out, "{:<18}{holds:<5}{}: {}", experiment.id, verdict.claim, verdict.because)?;
        }
        for claim in &outcome.unjudged {
            writeln!(out, "{:<18}{:<5}{claim}: figures are missing", experiment.id, "-")?;
        }
        parts.push((experiment, outcome));
    }
    rows.finish();
    let file = arguments.out.join("index.html");
    write(&file, &page::page(&origin, &parts))?;
    Ok(writeln!(out, "the report is {}", file.display())?)
}

/// Where rows come from.
enum ReportRows {
    Measured(Box<CaseRows>),
    Recorded(RecordedRows),
}

impl ReportRows {
    fn of(arguments: &PapersArguments, experiments: usize) -> Result<Self, BenchError> {
        if let Some(directory) = &arguments.from {
            return Ok(Self::Recorded(RecordedRows::read(directory)?));
        }
        let effort = if arguments.quick { Effort::QUICK } else { Effort::FULL };
        Ok(Self::Measured(Box::new(CaseRows::new(effort, arguments.peers.clone(), experiments))))
    }

    fn origin(&self, quick: bool) -> ReportOrigin {
        match self {
            Self::Measured(_) => ReportOrigin::measured(quick),
            Self::Recorded(rows) => rows.origin(),
        }
    }

    fn of_experiment(&mut self, experiment: &PaperExperiment, number: usize) -> Result<Vec<Row>, BenchError> {
        match self {
            Self::Measured(rows) => rows.of(experiment, number),
            Self::Recorded(rows) => Ok(rows.of(experiment)),
        }
    }

    fn finish(&self) {
        if let Self::Measured(rows) = self {
            rows.bar.finish_and_clear();
        }
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

/// The rows of benchmarks, each case of which is measured once.
struct CaseRows {
    effort: Effort,
    peers: Option<PathBuf>,
    measured: HashMap<(&'static str, Option<&'static str>), Vec<Row>>,
    bar: ProgressBar,
    /// The experiments, and the number of the one that is measured.
    all: usize,
    number: usize,
    coming: Vec<Row>,
    /// The notes so far.
    told: HashSet<String>,
}

impl CaseRows {
    fn new(effort: Effort, peers: Option<PathBuf>, all: usize) -> Self {
        let style = ProgressStyle::with_template("{msg:<40} {bar:40} {percent:>3} %, {eta} left")
            .expect("a template");
        let bar = ProgressBar::new(1_000).with_style(style);
        Self {
            effort,
            peers,
            measured: HashMap::new(),
            bar,
            all,
            number: 0,
            coming: Vec::new(),
            told: HashSet::new(),
        }
    }

    /// The rows of an experiment, in the order of its cases.
    fn of(&mut self, experiment: &PaperExperiment, number: usize) -> Result<Vec<Row>, BenchError> {
        self.number = number;
        let mut rows = Vec::new();
        for source in experiment.sources {
            let cases: Vec<_> = match source.cases {
                [] => vec![None],
                cases => cases.iter().copied().map(Some).collect(),
            };
            for case in cases {
                let key = (source.bench, case);
                if !self.measured.contains_key(&key) {
                    let came = match source.bench {
                        "peers" => self.peers(source),
                        _ => self.cases(source, case)?,
                    };
                    self.measured.insert(key, came);
                }
                rows.extend(self.measured[&key].iter().cloned());
            }
        }
        Ok(rows)
    }

    fn cases(&mut self, source: &PaperSource, case: Option<&str>) -> Result<Vec<Row>, BenchError> {
        let options =
            RunOptions { case: case.map(str::to_owned), effort: self.effort, peers: self.peers.clone() };
        underpass_bench::run(source.bench, &options, self)?;
        Ok(std::mem::take(&mut self.coming))
    }

    /// Nulls by other packages. Those that were not built do not stop the report.
    fn peers(&mut self, source: &PaperSource) -> Vec<Row> {
        let pace = if self.effort == Effort::QUICK { PeersPace::Quick } else { PeersPace::Usual };
        let options = PeersOptions {
            only: Vec::new(),
            pace,
            scope: PeersScope::NullsTogether,
            peers: self.peers.clone(),
        };
        peers(&options, self).map(|report| report.rows).unwrap_or_else(|error| {
            let case = source.cases.first().copied().unwrap_or_default().to_owned();
            let (bench, result) = (source.bench.to_owned(), Err(error.to_string()));
            vec![Row { bench, case, pinning: String::new(), result }]
        })
    }
}

impl RunObserver for CaseRows {
    fn row(&mut self, row: &Row) {
        self.coming.push(row.clone());
    }

    fn note(&mut self, text: &str) {
        // Each case of a benchmark says it again.
        if !self.told.insert(text.to_owned()) {
            return;
        }
        self.bar.suspend(|| eprintln!("{text}"));
    }

    fn progress(&mut self, what: &str, share: f64) {
        self.bar.set_message(what.to_owned());
        self.bar.set_position(((self.number as f64 + share) * 1_000.0 / self.all as f64) as u64);
    }
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
