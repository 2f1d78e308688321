//! `node`: domains that share processors by way of the activation server, beside the same domains
//! without it (OThreads, section 3.3).
//!
//! There are two sets of domains: one in a directory of names with a server, and one in a directory
//! without. They take turns, and each rests during the other's turns. A third set has a kernel
//! thread for each thread. All of them may use all CPUs.

mod alone;
mod build;
mod domain;
mod excess;
mod interactive;
mod parties;
mod throughput;
mod wake_up;

use crate::catalogue::{Benchmark, Scenario};
use crate::processes::client::ScenarioClient;
use crate::processes::role::idle;
use crate::{BenchError, Pinning};

pub(crate) use parties::NodeParty;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "node",
    about: "domains that share processors by way of the activation server, beside the same without it and the kernel",
    scenarios: &[
        scenario("wake-up", &["wake-up"], wake_up::measure),
        scenario("interactive", &["interactive"], interactive::measure),
        scenario("locks", &["locks"], throughput::locks),
        scenario("barriers", &["barriers"], throughput::barriers),
        scenario("excess", &["excess"], excess::measure),
        scenario("build", &["build"], build::measure),
        scenario("idle", &["idle"], alone::idle_server),
        scenario("alone", &["alone/null", "alone/fork"], alone::measure),
    ],
};

const fn scenario(
    name: &'static str,
    cases: &'static [&'static str],
    client: fn(&ScenarioClient) -> Result<(), BenchError>,
) -> Scenario {
    // The domains are processes beside these two.
    Scenario { name, cases, pinning: Pinning::Floating, client, server: idle }
}
