//! `urpc`: the cost of a call where both sides have a processor, where they share one, and after a
//! pause (URPC, sections 4.2 to 4.4 and 5.5).
//!
//! C is the number of the client's processors, S of the server's, and T of the calling threads.
//! Where S is 0 the server has only the processors that its callers donate.

mod bindings;
pub(crate) mod components;
mod connection;
pub(crate) mod count;
mod exclusive;
pub(crate) mod fair;
mod idle;
mod load;
mod null;
mod passes;
pub(crate) mod scale;
mod table2;
mod value;
pub(crate) mod verdicts;

use crate::calls::{CallFn, Calls, serve, serve_donated};
use crate::catalogue::{Benchmark, Scenario};
use crate::measure::contest::Contest;
use crate::processes::client::ScenarioClient;
use crate::processes::role::idle;
use crate::{BenchError, Figures, Pinning};

/// A line of Figures 3 and 4, for that many processors of the client and of the server.
macro_rules! figure {
    ($clients:literal, $servers:literal) => {
        Scenario {
            name: concat!("figures/C", $clients, "S", $servers),
            cases: &[concat!("figures/C", $clients, "S", $servers)],
            pinning: Pinning::Split { clients: $clients, servers: $servers },
            client: |client| {
                let processors = Processors { clients: $clients, servers: $servers };
                load::figure(client, concat!("figures/C", $clients, "S", $servers), processors)
            },
            server: if $servers == 0 { serve_donated } else { serve },
        }
    };
}

/// The throughput of one binding with that many processors of the client and of the server.
macro_rules! throughput {
    ($clients:literal, $servers:literal) => {
        served(
            concat!("throughput/C", $clients, "S", $servers),
            &[concat!("throughput/C", $clients, "S", $servers)],
            Pinning::Split { clients: $clients, servers: $servers },
            |client| {
                let processors = Processors { clients: $clients, servers: $servers };
                load::throughput(client, concat!("throughput/C", $clients, "S", $servers), processors)
            },
        )
    };
}

/// That many client processes of one server, with as many processors for the server.
macro_rules! bindings {
    ($count:literal) => {
        served(
            concat!("B/", $count),
            &[concat!("B/", $count)],
            Pinning::Split { clients: $count, servers: $count },
            |client| bindings::client(client, concat!("B/", $count), $count),
        )
    };
}

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "urpc",
    about: "a call that does nothing: at the limit, donated, late, many at once; what idle and slow servers burn",
    scenarios: &[
        served("null/pinned", &["null/pinned"], Pinning::Apart, |client| null::running(client, null::PINNED)),
        served("null/floating", &["null/floating"], Pinning::Floating, |client| {
            null::running(client, null::FLOATING)
        }),
        donated("null/donated/pinned", &["null/donated/pinned"], Pinning::Together, |client| {
            null::donated(client, "null/donated/pinned")
        }),
        donated("null/donated/floating", &["null/donated/floating"], Pinning::Floating, |client| {
            null::donated(client, "null/donated/floating")
        }),
        served("null/one-cpu", &["null/one-cpu"], Pinning::Together, |client| {
            null::running(client, null::ONE_CPU)
        }),
        served("null/idle", &["null/idle"], Pinning::Any, null::idle),
        served("null/kernel-thread/pinned", &["null/kernel-thread/pinned"], Pinning::Apart, |client| {
            null::kernel_thread(client, "null/kernel-thread/pinned", ONE_EACH)
        }),
        donated("null/kernel-thread/donated", &["null/kernel-thread/donated"], Pinning::Together, |client| {
            null::kernel_thread(client, "null/kernel-thread/donated", ONE_TO_SHARE)
        }),
        served("throughput", &["throughput"], Pinning::Apart, |client| {
            load::throughput(client, "throughput", ONE_EACH)
        }),
        throughput!(2, 1),
        throughput!(2, 2),
        throughput!(4, 4),
        throughput!(8, 8),
        bindings!(1),
        bindings!(2),
        bindings!(4),
        bindings!(8),
        figure!(1, 0),
        figure!(2, 0),
        figure!(4, 0),
        figure!(8, 0),
        figure!(1, 1),
        figure!(1, 2),
        figure!(1, 4),
        figure!(1, 8),
        figure!(2, 1),
        figure!(2, 2),
        figure!(2, 4),
        figure!(2, 8),
        figure!(4, 1),
        figure!(4, 2),
        figure!(4, 4),
        figure!(4, 8),
        figure!(8, 1),
        figure!(8, 2),
        figure!(8, 4),
        figure!(8, 8),
        table2::COMPONENTS,
        table2::NULL_CALL,
        Scenario {
            name: "scale",
            cases: &["scale"],
            pinning: Pinning::Apart,
            client: scale::client,
            server: idle,
        },
        served("fair", &["fair"], Pinning::Apart, fair::client),
        Scenario {
            name: "connection/100",
            cases: &["connection/100", "connection/import"],
            pinning: Pinning::Apart,
            client: connection::many,
            server: connection::serve,
        },
        Scenario {
            name: "connection/three",
            cases: &["connection/three"],
            pinning: Pinning::Together,
            client: connection::three,
            server: connection::serve_donated,
        },
        Scenario {
            name: "exclusive/pinned",
            cases: &["exclusive/pinned"],
            pinning: Pinning::Apart,
            client: exclusive::pinned,
            server: exclusive::serve,
        },
        Scenario {
            name: "exclusive/floating",
            cases: &["exclusive/floating"],
            pinning: Pinning::Floating,
            client: exclusive::floating,
            server: exclusive::serve,
        },
        Scenario {
            name: "value",
            cases: &["value"],
            pinning: Pinning::Apart,
            client: value::client,
            server: value::serve,
        },
        served("idle", &["idle/server", "idle/client"], Pinning::Any, idle::idle),
        served("trickle", &["trickle/client", "trickle/server"], Pinning::Any, idle::trickle),
    ],
};

type Cases = &'static [&'static str];
type Part = fn(&ScenarioClient) -> Result<(), BenchError>;

/// The server has processors of its own.
const fn served(name: &'static str, cases: Cases, pinning: Pinning, client: Part) -> Scenario {
    Scenario { name, cases, pinning, client, server: serve }
}

/// The server has no processors of its own.
const fn donated(name: &'static str, cases: Cases, pinning: Pinning, client: Part) -> Scenario {
    Scenario { name, cases, pinning, client, server: serve_donated }
}

/// The processors of client and server, C and S.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Processors {
    clients: usize,
    servers: usize,
}

impl Processors {
    /// All of both sides, C + S.
    fn all(self) -> u64 {
        (self.clients + self.servers) as u64
    }
}

pub(crate) const ONE_EACH: Processors = Processors { clients: 1, servers: 1 };
pub(crate) const ONE_TO_SHARE: Processors = Processors { clients: 1, servers: 0 };

/// The figures of subject `of`, which is `calls` by T threads, compared with subject `beside`.
pub(crate) fn figures<F: CallFn>(
    contest: &Contest,
    (of, beside): (usize, usize),
    (calls, processors): (&Calls<F>, Processors),
) -> Figures {
    let Processors { clients, servers } = processors;
    let figures = Figures::of(contest, of, beside);
    let rate = (1e9 / figures.ns).round();
    let figures = figures.with("T", calls.threads()).with("C", clients).with("S", servers);
    let limit = &contest.measured[beside].singles;
    let figures = if limit.is_empty() { figures } else { figures.with_detail("limit_p99_ns", limit.p99()) };
    calls.tell(figures.with("calls_per_s", rate as u64))
}
