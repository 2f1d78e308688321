//! `kernel`: how often a call enters the kernel, by the runtime's own counters on both sides.
//!
//! While both sides have a processor it should not at all. On one CPU it must: somebody has to give the processor away.

use crate::calls::{self, Call, Calls, Counted, Probe, ProbeClient};
use crate::catalogue::{Benchmark, Scenario};
use crate::client::Client;
use crate::contest::{Contest, Subject, calibrate};
use crate::{Effort, Error, Figures, Pinning};
use underpass_os::clock::now_ns;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "kernel",
    about: "system calls a call, counted by the runtime on both sides",
    scenarios: &[
        Scenario {
            name: "pinned",
            cases: &["pinned"],
            pinning: Pinning::Apart,
            client: pinned,
            server: calls::serve,
        },
        Scenario {
            name: "one-cpu",
            cases: &["one-cpu"],
            pinning: Pinning::Together,
            client: one_cpu,
            server: calls::serve,
        },
    ],
};

fn pinned(client: &Client) -> Result<(), Error> {
    count(client, "pinned", client.calls())
}

/// Fewer calls, since each of them is so much slower.
fn one_cpu(client: &Client) -> Result<(), Error> {
    count(client, "one-cpu", client.calls() / 50)
}

fn count(client: &Client, case: &str, calls: u64) -> Result<(), Error> {
    let probe = calls::import()?;
    client.settle()?;
    let mut limit = client.limit();
    let mut counting = Counting::new(probe);
    let slice = client.effort().slice;
    let pings = calibrate(&mut limit, slice)?;
    // As many rounds as it takes to make all the calls, however long that is.
    let rounds = (calls / calibrate(&mut counting.null, slice)?).max(1);
    let effort = Effort { least: rounds as usize, most: rounds as usize, ..client.effort() };
    let (slices, mut tell) = ([pings, calls.div_ceil(rounds)], |share| client.progress(share));
    let contest = Contest::of(&mut [&mut limit, &mut counting], &slices, effort, &mut tell)?;
    let Counting { calls, near, far, .. } = counting;
    let entries = near.kernel_entries + far.kernel_entries;
    let figures = Figures::of(&contest, 1, 0)
        .with("calls", calls)
        .with("entries_per_call", entries as f64 / calls as f64)
        .with("client_entries", near.kernel_entries)
        .with("server_entries", far.kernel_entries)
        .with("client_sleeps", near.sleeps)
        .with("server_sleeps", far.sleeps);
    client.report(case, figures)
}

/// Calls that do nothing, with what both sides counted while they were made in batches.
struct Counting<F> {
    probe: ProbeClient,
    null: Calls<F>,
    calls: u64,
    near: Counted,
    far: Counted,
}

impl Counting<()> {
    fn new(probe: ProbeClient) -> Counting<impl Call> {
        let caller = probe.clone();
        let null = Calls::new("null", 1, move || caller.null());
        Counting { probe, null, calls: 0, near: Counted::default(), far: Counted::default() }
    }
}

impl<F: Call> Subject for Counting<F> {
    fn name(&self) -> &str {
        self.null.name()
    }

    fn batch(&mut self, operations: u64) -> Result<u64, Error> {
        let probe = self.probe.clone();
        let counted = self.null.together(move |call| {
            let (far, near) = (probe.counted()?, Counted::here());
            let start = now_ns();
            for _ in 0..operations {
                call()?;
            }
            let ns = now_ns() - start;
            let near = Counted::here().since(near);
            Ok((ns, near, probe.counted()?.since(far)))
        })?;
        let (ns, near, far) = counted.into_iter().next().ok_or("there was no caller")?;
        self.calls += operations;
        self.near = self.near.plus(near);
        self.far = self.far.plus(far);
        Ok(ns)
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), Error> {
        self.null.single(operations, samples)
    }
}
