//! `callers`: calls a second with more and more threads of the client, one processor a side (URPC, section 4.3).
//!
//! While one thread waits for its reply the others call, and neither processor waits for a cache line on every call.

use crate::calls::{self, Calls, Probe};
use crate::catalogue::{Benchmark, Scenario};
use crate::client::Client;
use crate::{Error, Figures, Pinning};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "callers",
    about: "calls a second by 1 to 32 threads of the client, one processor a side, beside one thread",
    scenarios: &[Scenario {
        name: "callers",
        cases: &["1", "2", "4", "8", "16", "32"],
        pinning: Pinning::Apart,
        client,
        server: calls::serve,
    }],
};

const THREADS: [u64; 6] = [1, 2, 4, 8, 16, 32];

fn client(client: &Client) -> Result<(), Error> {
    let probe = calls::import()?;
    client.settle()?;
    let callers = |name, threads| {
        let probe = probe.clone();
        Calls::new(name, threads, move || probe.null())
    };
    for (part, threads) in THREADS.into_iter().enumerate() {
        let case = threads.to_string();
        if !client.wants(&case) {
            continue;
        }
        let (mut one, mut many) = (callers("one-caller", 1), callers("callers", threads));
        let contest = client.contest(&mut [&mut one, &mut many], part, THREADS.len())?;
        let figures = Figures::of(&contest, 1, 0);
        let (speedup, rate) = (1.0 / figures.ratio, (1e9 / figures.ns).round());
        client.report(&case, figures.with("calls_per_s", rate as u64).with("speedup", speedup))?;
    }
    Ok(())
}
