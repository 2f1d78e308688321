//! A build under the jobserver beside an interactive domain, and the same build by itself.

use super::domain::DomainOrder;
use super::interactive::MOMENT;
use super::parties::{DomainSet, Setting};
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures, Summary};
use std::path::Path;
use std::process::{Command, Stdio};
use underpass_node::server::jobserver_pipe;
use underpass_os::Directory;
use underpass_os::clock::now_ns;

/// The bar for the build's time, relative to that without the server.
const BAR: f64 = 1.05;
/// The bar for the interactive domain's 99th percentile, in the same way.
const P99: f64 = 0.5;
/// Rounds, and jobs of each build.
const FULL: (usize, usize) = (7, 40);
const QUICK: (usize, usize) = (1, 6);

/// A makefile of so many jobs that compute.
fn makefile(directory: &Path, jobs: usize) -> std::io::Result<()> {
    let names: Vec<String> = (0..jobs).map(|job| format!("job{job}")).collect();
    let names = names.join(" ");
    let job = "i=0; while [ $$i -lt 60000 ]; do i=$$((i+1)); done";
    let text = format!(".PHONY: {names}\nall: {names}\n{names}:\n\t@{job}\n");
    std::fs::write(directory.join("Makefile"), text)
}

/// Builds, and returns how long it took, in ns.
fn build(mut make: Command, directory: &Path) -> Result<u64, BenchError> {
    make.current_dir(directory).stdout(Stdio::null()).env_remove("CARGO_MAKEFLAGS").env_remove("MFLAGS");
    let begun = now_ns();
    let made = make.status().map_err(|e| format!("make cannot be started: {e}; install GNU make"))?;
    if !made.success() {
        return Err(format!("make ends with {made}").into());
    }
    Ok(now_ns() - begun)
}

/// `make` with a jobserver of its own, or with the server's.
fn make(set: &DomainSet, processors: usize) -> Command {
    if set.server().is_none() {
        let mut make = Command::new("make");
        make.arg(format!("-j{processors}")).env_remove("MAKEFLAGS");
        return make;
    }
    // As `underpass node env --by pipe` does it: every GNU make since 4.2 knows this form.
    let mut shell = Command::new("sh");
    let pipe = jobserver_pipe(&Directory::at(set.directory()));
    shell.arg("-c").arg("exec 8<>\"$1\" 9<>\"$1\"; exec make").arg("sh").arg(pipe);
    shell.env("MAKEFLAGS", format!("-j{processors} --jobserver-auth=8,9"));
    shell
}

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let (rounds, jobs) = if client.effort().few { QUICK } else { FULL };
    let processors = client.placement().all.len();
    let with = DomainSet::start(client, Setting::With, 1, true)?;
    let without = DomainSet::start(client, Setting::Without, 1, false)?;
    let mut sets = [with, without];
    makefile(client.scratch(), jobs)?;
    let (mut times, mut took) = ([const { Vec::new() }; 2], [const { Vec::new() }; 2]);
    let (pause_us, work_us) = MOMENT;
    for round in 0..rounds {
        for (at, set) in sets.iter_mut().enumerate() {
            let make = make(set, processors);
            DomainSet::order(&mut set.domains, |_| DomainOrder::BeginWaking { pause_us, work_us })?;
            let built = build(make, client.scratch());
            let waits = DomainSet::order(&mut set.domains, |_| DomainOrder::EndWaking)?;
            times[at].push(built? as f64);
            took[at].extend(waits.into_iter().flatten());
            client.progress((2 * round + at + 1) as f64 / (2 * rounds) as f64);
        }
    }
    let ratios = Summary::of(times[0].iter().zip(&times[1]).map(|(with, without)| with / without));
    let ([with, without], [waits, waits_without]) = (times.map(Summary::of), took.map(Summary::of));
    let p99 = waits.p99() / waits_without.p99();
    let figures = Figures {
        min_ns: with.min(),
        max_ns: with.max(),
        ratio: ratios.median(),
        ratio_p10: ratios.quantile(0.1),
        ratio_p90: ratios.quantile(0.9),
        rounds,
        ..Figures::one(with.median(), "make by itself", without.median())
    };
    let is_met = figures.ratio <= BAR;
    let figures = figures
        .with("interactive_p99_ns", waits.p99())
        .with("without_interactive_p99_ns", waits_without.p99())
        .judged("bar", BAR, is_met)
        .judged("p99_bar", P99, p99 <= P99);
    client.report("build", figures)
}
