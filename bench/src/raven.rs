//! `raven`: a message to a synchronous port, its receipt and its reply, beside a call that does
//! nothing (Raven, sections 3.1 and 5). And messages that are not answered, a port with many
//! senders, and task signals.

mod asynchronous;
mod senders;
mod signals;

use crate::calls::{self, Calls, Probe};
use crate::catalogue::{Benchmark, Scenario};
use crate::measure::contest::Subject;
use crate::processes::client::ScenarioClient;
use crate::processes::role::ChildRole;
use crate::urpc::{ONE_EACH, ONE_TO_SHARE, Processors, figures};
use crate::{BenchError, Pinning};
use std::time::Duration;
use underpass::CallError;
use underpass::port::sync::{SyncPortOptions, SyncPortSender, SyncSendError};

/// The bar for a message, relative to a call.
const BAR: f64 = 1.15;

/// The bar for signals a message, of ten threads on each side.
const SIGNALS: f64 = 0.5;

/// Raven's number of buffers.
const BUFFERS: u64 = 20;

/// The threads on each side.
const THREADS: [u64; 2] = [1, 10];

/// What the paper says about a case, in its prose. The bodies of its tables are lost.
struct PaperMessage {
    case: &'static str,
    threads: u64,
    figures: &'static [(&'static str, f64)],
}

/// The quickest and the slowest message of one thread on each side, and the average of several; the
/// worst case; and the kernel entries of a message: none at best, about one on average, two at
/// worst.
const PAPER: [PaperMessage; 3] = [
    PaperMessage {
        case: "sync/two-processors",
        threads: 1,
        figures: &[
            ("paper_quickest_ns", 42_000.0),
            ("paper_slowest_ns", 120_000.0),
            ("paper_kernel_entries", 0.0),
        ],
    },
    PaperMessage {
        case: "sync/two-processors",
        threads: 10,
        figures: &[("paper_ns", 90_000.0), ("paper_kernel_entries", 1.0)],
    },
    PaperMessage {
        case: "sync/one-processor",
        threads: 1,
        figures: &[("paper_ns", 145_000.0), ("paper_kernel_entries", 2.0)],
    },
];

/// How long the server may take to start.
const APPEAR: Duration = Duration::from_secs(10);

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "raven",
    about: "a message to a synchronous port and its reply, beside a call; messages that are not answered, beside crossbeam's channel; a port with a thousand senders",
    scenarios: &[
        Scenario {
            name: "sync/two-processors",
            cases: &["sync/two-processors"],
            pinning: Pinning::Apart,
            client: |client| measure(client, "sync/two-processors", ONE_EACH),
            server: serve,
        },
        Scenario {
            name: "sync/one-processor",
            cases: &["sync/one-processor"],
            pinning: Pinning::Together,
            client: |client| measure(client, "sync/one-processor", ONE_TO_SHARE),
            server: serve,
        },
        Scenario {
            name: "async/1-sender",
            cases: &["async/1-sender"],
            pinning: Pinning::Apart,
            client: |client| asynchronous::measure(client, "async/1-sender", 0),
            server: asynchronous::serve,
        },
        Scenario {
            name: "async/16-senders",
            cases: &["async/16-senders"],
            pinning: Pinning::Apart,
            client: |client| asynchronous::measure(client, "async/16-senders", 1),
            server: asynchronous::serve,
        },
        Scenario {
            name: "async/senders",
            cases: &["async/senders"],
            pinning: Pinning::Apart,
            client: |client| senders::measure(client, "async/senders"),
            server: senders::server,
        },
        Scenario {
            name: "signal/two-processors",
            cases: &["signal/two-processors"],
            pinning: Pinning::Apart,
            client: |client| signals::measure(client, "signal/two-processors", ONE_EACH),
            server: signals::serve,
        },
        Scenario {
            name: "signal/one-processor",
            cases: &["signal/one-processor"],
            pinning: Pinning::Together,
            client: |client| signals::measure(client, "signal/one-processor", ONE_TO_SHARE),
            server: signals::serve,
        },
    ],
};

/// The port with that many receivers.
fn port(receivers: u64) -> String {
    format!("port-{receivers}")
}

/// The port with a handler.
const HANDLER: &str = "port-handler";

/// Serves ports and calls until the process is killed.
fn serve(_: &ChildRole) -> Result<(), BenchError> {
    let options = SyncPortOptions::new().messages(BUFFERS);
    let mut server = calls::exporting(calls::NAME).export(HANDLER, options.with_handler::<u64, u64>(|n| n));
    for receivers in THREADS {
        let (service, receiver) = options.open::<u64, u64>();
        server = server.export(port(receivers), service);
        for _ in 0..receivers {
            let receiver = receiver.clone();
            drop(underpass::thread::spawn(move || {
                for came in receiver.messages() {
                    let (number, reply) = came.take();
                    reply.give(number);
                }
            }));
        }
    }
    Ok(server.run()?)
}

/// The error of a message, as that of a call.
fn as_call(error: SyncSendError) -> CallError {
    match error {
        SyncSendError::Call(error) => error,
        error => CallError::NoResources(error.outcome(), error.to_string()),
    }
}

fn measure(client: &ScenarioClient, case: &str, processors: Processors) -> Result<(), BenchError> {
    let probe = calls::import()?;
    let connect = |name: &str| SyncPortSender::<u64, u64>::connect_within(name, APPEAR);
    let handler = connect(HANDLER)?;
    let senders = [connect(&port(THREADS[0]))?, connect(&port(THREADS[1]))?];
    client.settle()?;
    for (part, (threads, sender)) in THREADS.into_iter().zip(senders).enumerate() {
        let calls = probe.clone();
        let mut null = Calls::new("null", threads, move || calls.null());
        let sends = |name: &str, sender: SyncPortSender<u64, u64>| {
            let send = move || sender.send(&7).map(drop).map_err(as_call);
            Calls::new(name, threads, send).counted(&probe)
        };
        let (mut receivers, mut handled) = (sends("receivers", sender), sends("handler", handler.clone()));
        let subjects: &mut [&mut dyn Subject] = &mut [&mut null, &mut receivers, &mut handled];
        let contest = client.contest(subjects, part, THREADS.len())?;
        let signals = receivers.counts().wakeups_per_call();
        let figures = figures(&contest, (1, 0), (&receivers, processors))
            .with("signals_per_message", signals)
            .with("handler_ns", contest.measured[2].slices().median())
            .with("handler_ratio", contest.ratios(2, 0).median());
        let singles = &contest.measured[1].singles;
        let figures = figures.with("quickest_ns", singles.min()).with("slowest_ns", singles.max());
        let paper = PAPER.iter().find(|paper| paper.case == case && paper.threads == threads);
        let papers = paper.map_or(&[][..], |paper| paper.figures).iter();
        let figures = papers.fold(figures, |figures, (name, value)| figures.with_detail(name, *value));
        let figures = match threads {
            1 => {
                let met = figures.ratio <= BAR;
                figures.judged("bar", BAR, met)
            }
            _ => figures.judged("signals_bar", SIGNALS, signals <= SIGNALS),
        };
        client.report(case, figures)?;
    }
    Ok(())
}
