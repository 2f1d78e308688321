//! The list of all benchmarks.

#[cfg(feature = "grpc")]
use crate::grpc;
use crate::processes::client::ScenarioClient;
use crate::processes::role::ChildRole;
use crate::{BenchError, Pinning};
use crate::{devices, limits, lrpc, node, othreads, psyche, raven, sizes, streams, threads, urpc};

/// A benchmark.
#[derive(Debug)]
pub struct Benchmark {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures, in one line.
    pub about: &'static str,
    pub(crate) scenarios: &'static [Scenario],
}

/// A pair of processes that measures some cases of a benchmark.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The names of the cases.
    pub(crate) cases: &'static [&'static str],
    pub(crate) pinning: Pinning,
    pub(crate) client: fn(&ScenarioClient) -> Result<(), BenchError>,
    pub(crate) server: fn(&ChildRole) -> Result<(), BenchError>,
}

/// All benchmarks.
pub static CATALOGUE: &[Benchmark] = &[
    limits::BENCHMARK,
    urpc::BENCHMARK,
    lrpc::BENCHMARK,
    sizes::BENCHMARK,
    streams::BENCHMARK,
    threads::BENCHMARK,
    othreads::SPINLOCKS,
    othreads::BARRIERS,
    othreads::CALLS,
    othreads::TABLE2,
    node::BENCHMARK,
    raven::BENCHMARK,
    devices::BENCHMARK,
    psyche::BENCHMARK,
    #[cfg(feature = "grpc")]
    grpc::BENCHMARK,
];

/// The benchmark called `name`.
pub(crate) fn find(name: &str) -> Result<&'static Benchmark, BenchError> {
    CATALOGUE.iter().find(|benchmark| benchmark.name == name).ok_or_else(|| {
        let names: Vec<_> = CATALOGUE.iter().map(|benchmark| benchmark.name).collect();
        let names = names.join(", ");
        format!("no benchmark is called `{name}`; there are {names}, and all (see `underpass-bench --list`)")
            .into()
    })
}

/// Whether `case` is selected by `wanted`: it is that case, it lies below it (`null` selects
/// `null/pinned`), or nothing is named.
pub(crate) fn selects(wanted: Option<&str>, case: &str) -> bool {
    let Some(wanted) = wanted else { return true };
    case.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Benchmark {
    /// Whether `case` is one of its cases, or a group of them.
    ///
    /// # Examples
    /// ```
    /// let urpc = underpass_bench::CATALOGUE.iter().find(|benchmark| benchmark.name == "urpc").unwrap();
    /// assert!(urpc.has("null/pinned") && urpc.has("null") && !urpc.has("nul"));
    /// ```
    pub fn has(&self, case: &str) -> bool {
        self.scenarios.iter().flat_map(|scenario| scenario.cases).any(|known| selects(Some(case), known))
    }

    pub(crate) fn scenario(&self, name: &str) -> Result<&Scenario, BenchError> {
        let found = self.scenarios.iter().find(|scenario| scenario.name == name);
        found.ok_or_else(|| format!("{} has no scenario `{name}`", self.name).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = find("urp").unwrap_err().to_string();
        assert!(error.contains("`urp`") && error.contains("urpc") && error.contains("--list"), "{error}");
    }

    #[test]
    fn a_case_is_wanted_by_its_name_or_its_group() {
        for wanted in [None, Some("null"), Some("null/donated"), Some("null/donated/pinned")] {
            assert!(selects(wanted, "null/donated/pinned"), "{wanted:?}");
        }
        for other in ["nul", "null/don", "null/donated/pinned/1", "donated"] {
            assert!(!selects(Some(other), "null/donated/pinned"), "{other}");
        }
    }

    #[test]
    fn no_name_is_taken_twice() {
        for (i, benchmark) in CATALOGUE.iter().enumerate() {
            assert!(CATALOGUE[..i].iter().all(|other| other.name != benchmark.name));
            for (i, scenario) in benchmark.scenarios.iter().enumerate() {
                assert!(benchmark.scenarios[..i].iter().all(|other| other.name != scenario.name));
            }
        }
    }

    #[test]
    fn every_benchmark_has_rooms_whose_changes_make_it_stale() {
        for name in CATALOGUE.iter().map(|benchmark| benchmark.name).chain(["peers", "grpc"]) {
            assert!(!underpass_figures::rooms_of(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn the_counted_cases_are_cases() {
        let mut counted = Vec::new();
        for benchmark in CATALOGUE {
            for case in benchmark.scenarios.iter().flat_map(|scenario| scenario.cases) {
                let operation = underpass_figures::counted_operation(benchmark.name, case);
                counted.extend(operation.map(|operation| format!("{} {case}: {operation}", benchmark.name)));
            }
        }
        let expected = [
            "urpc null/pinned: null",
            "urpc null/floating: null",
            "lrpc null/pinned: null",
            "threads call: call",
            "threads fork-join: spawn-join",
            "threads yield: yield",
            "threads lock: lock",
            "raven async/1-sender: port-send",
        ];
        assert_eq!(counted, expected);
    }
}
