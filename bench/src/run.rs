//! Runs one benchmark.

use crate::catalogue::{Benchmark, Scenario};
use crate::processes::pair;
use crate::processes::peers;
use crate::processes::role::{ChildRole, ProcessSide};
use crate::processes::scratch::Scratch;
use crate::{BenchError, Effort, Placement, Row, catalogue};
use std::path::PathBuf;

/// Receives the results of a run as they come.
pub trait RunObserver {
    /// A case is done, or was skipped.
    fn row(&mut self, row: &Row);

    /// `share` (0 to 1) of the scenario `what` is done.
    fn progress(&mut self, what: &str, share: f64);

    /// A note for people that is no result.
    fn note(&mut self, text: &str);
}

/// How to run a benchmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// The selected case or group of cases. `None` selects all.
    pub case: Option<String>,
    /// How long to measure.
    pub effort: Effort,
    /// The directory of the peers, instead of `$UNDERPASS_PEERS` or `peers/target/release`.
    pub peers: Option<PathBuf>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { case: None, effort: Effort::FULL, peers: None }
    }
}

/// Runs the benchmark called `name`, or all of them for `all`.
///
/// The program must pass the argument of its hidden subcommand [`SUBCOMMAND`](crate::SUBCOMMAND) to
/// [`play`](crate::play). The two processes of a scenario are children that run this very program.
///
/// # Errors
/// If there is no such benchmark or case, or if a scenario fails.
pub fn run(name: &str, options: &RunOptions, listener: &mut dyn RunObserver) -> Result<(), BenchError> {
    let benchmarks = match name {
        "all" => catalogue::CATALOGUE.iter().collect(),
        name => vec![catalogue::find(name)?],
    };
    if let Some(case) = &options.case {
        known(&benchmarks, case)?;
    }
    let peers = peers::directory(options.peers.as_deref())?;
    let run = Run { options, placement: Placement::choose()?, scratch: Scratch::new()?, peers };
    for benchmark in benchmarks {
        let wanted = |scenario: &&Scenario| scenario.cases.iter().any(|case| run.wants(case));
        for scenario in benchmark.scenarios.iter().filter(wanted) {
            run.scenario(benchmark, scenario, listener)?;
        }
        if let Some(note) = left_out(benchmark, &run.placement, |case| run.wants(case)) {
            listener.note(&note);
        }
    }
    Ok(())
}

/// Says for which of the cases this machine has too few CPUs, if there are any.
fn left_out(benchmark: &Benchmark, placement: &Placement, wants: impl Fn(&str) -> bool) -> Option<String> {
    let lacking = benchmark.scenarios.iter().filter(|scenario| placement.sides(scenario.pinning).is_err());
    let cases: Vec<&str> =
        lacking.flat_map(|scenario| scenario.cases).copied().filter(|case| wants(case)).collect();
    let there = placement.all.len();
    let cpus = if there == 1 { "1 CPU is" } else { &format!("{there} CPUs are") };
    (!cases.is_empty()).then(|| format!("{}: {cpus} too few for {}", benchmark.name, cases.join(", ")))
}

/// Whether one of `benchmarks` has this `case`.
fn known(benchmarks: &[&Benchmark], case: &str) -> Result<(), BenchError> {
    let scenarios = benchmarks.iter().flat_map(|benchmark| benchmark.scenarios);
    let cases: Vec<&str> = scenarios.flat_map(|scenario| scenario.cases).copied().collect();
    if cases.iter().any(|known| catalogue::selects(Some(case), known)) {
        return Ok(());
    }
    Err(format!("no case is called `{case}`; there are {}", cases.join(", ")).into())
}

/// The settings that all scenarios of a run share.
struct Run<'a> {
    options: &'a RunOptions,
    placement: Placement,
    scratch: Scratch,
    peers: Option<PathBuf>,
}

impl Run<'_> {
    fn wants(&self, case: &str) -> bool {
        catalogue::selects(self.options.case.as_deref(), case)
    }

    fn scenario(
        &self,
        benchmark: &Benchmark,
        scenario: &Scenario,
        listener: &mut dyn RunObserver,
    ) -> Result<(), BenchError> {
        let Err(reason) = self.placement.sides(scenario.pinning) else {
            let role = |side| self.role(benchmark, scenario, side);
            return pair::run([role(ProcessSide::Server), role(ProcessSide::Client)], listener);
        };
        for case in scenario.cases.iter().filter(|case| self.wants(case)) {
            listener.row(&Row {
                bench: benchmark.name.into(),
                case: (*case).into(),
                pinning: self.placement.describe(scenario.pinning),
                result: Err(reason.clone()),
            });
        }
        Ok(())
    }

    fn role(&self, benchmark: &Benchmark, scenario: &Scenario, side: ProcessSide) -> ChildRole {
        ChildRole {
            bench: benchmark.name.into(),
            scenario: scenario.name.into(),
            side,
            parent: std::process::id(),
            placement: self.placement.clone(),
            effort: self.options.effort,
            case: self.options.case.clone(),
            peers: self.peers.clone(),
            scratch: self.scratch.path().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_more_cpus_is_named() {
        let urpc = catalogue::find("urpc").unwrap();
        let with = |cpus: usize| {
            let all: Vec<usize> = (0..cpus).collect();
            let placement = Placement { near: 0, far: Some(1), order: all.clone(), all };
            left_out(urpc, &placement, |case| catalogue::selects(Some("figures"), case))
        };
        let two = with(2).unwrap();
        assert!(two.contains("2 CPUs") && two.contains("figures/C2S2") && !two.contains("C1S1"), "{two}");
        let four = with(4).unwrap();
        assert!(!four.contains("figures/C2S2") && four.contains("figures/C4S4"), "{four}");
        assert_eq!(with(16), None);
    }

    #[test]
    fn an_unknown_case_is_answered_with_the_known_ones() {
        let urpc = catalogue::find("urpc").unwrap();
        assert!(known(&[urpc], "null/one-cpu").is_ok() && known(&[urpc], "null").is_ok());
        let error = known(&[urpc], "two-cpus").unwrap_err().to_string();
        assert!(error.contains("`two-cpus`") && error.contains("null/pinned, null/floating"), "{error}");
    }
}
