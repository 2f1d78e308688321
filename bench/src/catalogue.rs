//! The benchmarks that there are.

use crate::client::Client;
use crate::role::Role;
use crate::{Error, Pinning};
use crate::{callers, kernel, limits, null, othreads, sizes, threads};

/// A benchmark.
#[derive(Debug)]
pub struct Benchmark {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it measures, in a line.
    pub about: &'static str,
    pub(crate) scenarios: &'static [Scenario],
}

/// A pair of processes that measures some cases.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// What they are called.
    pub(crate) cases: &'static [&'static str],
    pub(crate) pinning: Pinning,
    pub(crate) client: fn(&Client) -> Result<(), Error>,
    pub(crate) server: fn(&Role) -> Result<(), Error>,
}

/// All of them.
pub static CATALOGUE: &[Benchmark] = &[
    limits::BENCHMARK,
    null::BENCHMARK,
    sizes::BENCHMARK,
    callers::BENCHMARK,
    kernel::BENCHMARK,
    threads::BENCHMARK,
    othreads::SPINLOCKS,
    othreads::BARRIERS,
];

/// The one called `name`.
pub(crate) fn find(name: &str) -> Result<&'static Benchmark, Error> {
    CATALOGUE.iter().find(|benchmark| benchmark.name == name).ok_or_else(|| {
        let names: Vec<_> = CATALOGUE.iter().map(|benchmark| benchmark.name).collect();
        let names = names.join(", ");
        format!("no benchmark is called `{name}`; there are {names}, and all (see `underpass bench --list`)")
            .into()
    })
}

impl Benchmark {
    pub(crate) fn scenario(&self, name: &str) -> Result<&Scenario, Error> {
        let found = self.scenarios.iter().find(|scenario| scenario.name == name);
        found.ok_or_else(|| format!("{} has no scenario `{name}`", self.name).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = find("nul").unwrap_err().to_string();
        assert!(error.contains("`nul`") && error.contains("null") && error.contains("--list"), "{error}");
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
}
