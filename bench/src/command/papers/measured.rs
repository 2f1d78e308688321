//! Rows that are measured for the report.

use super::experiment::{PaperExperiment, PaperSource};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use underpass_bench::{
    BenchError, Effort, PeersOptions, PeersPace, PeersScope, Row, RunObserver, RunOptions, peers,
};

/// The rows of benchmarks, each case of which is measured once.
pub(super) struct CaseRows {
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
    pub(super) fn new(effort: Effort, peers: Option<PathBuf>, all: usize) -> Self {
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
    pub(super) fn of(&mut self, experiment: &PaperExperiment, number: usize) -> Result<Vec<Row>, BenchError> {
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

    /// Takes the progress away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
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
