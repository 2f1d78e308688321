//! `null`: the round trip of a call that does nothing, with one caller (URPC's Table II, LRPC's Table IV).

use crate::calls::{self, Calls, Probe};
use crate::catalogue::{Benchmark, Scenario};
use crate::client::Client;
use crate::{Error, Figures, Pinning};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "null",
    about: "the round trip of a call that does nothing, one caller, beside a ping-pong of cache lines or of wake-ups",
    scenarios: &[
        scenario("pinned", &["pinned"], Pinning::Apart, pinned),
        scenario("floating", &["floating"], Pinning::Floating, floating),
        scenario("one-cpu", &["one-cpu"], Pinning::Together, one_cpu),
    ],
};

const fn scenario(
    name: &'static str,
    cases: &'static [&'static str],
    pinning: Pinning,
    client: fn(&Client) -> Result<(), Error>,
) -> Scenario {
    Scenario { name, cases, pinning, client, server: calls::serve }
}

fn pinned(client: &Client) -> Result<(), Error> {
    measure(client, "pinned")
}

fn floating(client: &Client) -> Result<(), Error> {
    measure(client, "floating")
}

fn one_cpu(client: &Client) -> Result<(), Error> {
    measure(client, "one-cpu")
}

fn measure(client: &Client, case: &str) -> Result<(), Error> {
    let probe = calls::import()?;
    client.settle()?;
    let mut null = Calls::new("null", 1, move || probe.null());
    let contest = client.contest(&mut [&mut client.limit(), &mut null], 0, 1)?;
    client.report(case, Figures::of(&contest, 1, 0))
}
