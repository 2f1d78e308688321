//! `async/senders`: a message of one of ten busy senders to an asynchronous port that has a
//! thousand, beside one to a port that has only those ten (Raven, section 3).

use crate::calls;
use crate::measure::in_process::InProcess;
use crate::processes::client::ScenarioClient;
use crate::processes::role::ChildRole;
use crate::{BenchError, Figures};
use std::hint::black_box;
use std::time::Duration;
use underpass::port::{Arrival, PortOptions, PortReceiver, PortSender};
use underpass::{CallError, Limits, Outcome, Server, thread};

/// Senders that send without an end.
const BUSY: u64 = 10;
/// All senders of the larger port.
const ALL: u64 = 1_000;
/// The bar relative to the ten alone, as for calls over bindings.
const BAR: f64 = 1.3;

/// The names of the crowd's interface, and of both ports, which the client owns.
const CROWD: &str = "crowd";
const FEW: &str = "few";
const MANY: &str = "many";

/// How long the other side may take to start.
const APPEAR: Duration = Duration::from_secs(20);

/// The interface that the client calls.
#[underpass::interface]
pub(crate) trait SenderCrowd {
    /// Connects `senders` senders to the port `name`. Ten of them send without an end, and the
    /// others send one message.
    fn connect(&self, name: &str, senders: u64) -> Result<(), CallError>;
}

struct Senders;

impl SenderCrowd for Senders {
    fn connect(&self, name: &str, senders: u64) -> Result<(), CallError> {
        let failed = |e: &dyn std::error::Error| CallError::NoResources(Outcome::Executed, e.to_string());
        let connect = |_| PortSender::<u64>::connect_within(name, APPEAR);
        let mut all = (0..senders).map(connect).collect::<Result<Vec<_>, _>>().map_err(|e| failed(&e))?;
        let quiet = all.split_off(BUSY as usize);
        quiet.iter().try_for_each(|sender| sender.send(&0).map(drop)).map_err(|e| failed(&e))?;
        // They live as long as this process.
        std::mem::forget(quiet);
        for sender in all {
            drop(thread::spawn(move || while sender.send(black_box(&7)).is_ok() {}));
        }
        Ok(())
    }
}

pub(crate) fn server(_: &ChildRole) -> Result<(), BenchError> {
    underpass_os::process::raise_files()?;
    Ok(calls::exporting(calls::NAME).export(CROWD, SenderCrowd::serve(Senders)).run()?)
}

/// Receives a message.
fn receive(receiver: &PortReceiver<u64>) -> u64 {
    match receiver.recv() {
        Ok(Arrival::Message(came)) => came.message,
        other => panic!("the senders send without an end: {other:?}"),
    }
}

pub(crate) fn measure(client: &ScenarioClient, case: &str) -> Result<(), BenchError> {
    underpass_os::process::raise_files()?;
    let (few_port, few) = PortOptions::new().open::<u64>()?;
    let (many_port, many) = PortOptions::new().open::<u64>()?;
    let limits = Limits { bindings: 2 * ALL as usize, memory: u64::MAX, ..Limits::default() };
    let _running = Server::new().limits(limits).export(FEW, few_port).export(MANY, many_port).start()?;
    let crowd = SenderCrowdClient::import_within(CROWD, APPEAR)?;
    crowd.connect(FEW, BUSY)?;
    crowd.connect(MANY, ALL)?;
    // The messages of the quiet ones.
    let mut quiet = ALL - BUSY;
    while quiet > 0 {
        quiet -= u64::from(receive(&many) == 0);
    }
    client.settle()?;
    let received = std::cell::Cell::new([0_u64; 2]);
    let count = |at: usize| {
        let mut counts = received.get();
        counts[at] += 1;
        received.set(counts);
    };
    let before = [few.looks(), many.looks()];
    let mut alone = InProcess::new("ten-senders", 1, |_| {
        black_box(receive(&few));
        count(0);
    });
    let mut among = InProcess::new("of-a-thousand", 1, |_| {
        black_box(receive(&many));
        count(1);
    });
    let contest = client.contest(&mut [&mut alone, &mut among], 0, 1)?;
    let looks = [few.looks() - before[0], many.looks() - before[1]];
    let [few_looks, many_looks] = [0, 1].map(|at| looks[at] as f64 / received.get()[at].max(1) as f64);
    let figures = Figures::of(&contest, 1, 0);
    let met = figures.ratio <= BAR;
    let figures = figures
        .with("senders", ALL)
        .with("looks_per_message", many_looks)
        .with("looks_of_ten", few_looks)
        .judged("bar", BAR, met);
    client.report(case, figures)
}
