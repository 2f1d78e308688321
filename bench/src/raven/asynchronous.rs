//! `raven`, asynchronous ports: messages of 32 bytes that are not answered, beside crossbeam's
//! bounded channel between two kernel threads of one process, on the same two CPUs.

use super::APPEAR;
use crate::calls;
use crate::measure::in_process::InProcess;
use crate::processes::client::ScenarioClient;
use crate::processes::role::ChildRole;
use crate::{BenchError, Figures};
use std::hint::black_box;
use std::time::Duration;
use underpass::port::{Arrival, PortOptions, PortSender};
use underpass::{CallError, Server, thread};
use underpass_os::cpu;

/// Bytes of a message, and messages that a sender, or crossbeam's channel, may have under way.
const BYTES: usize = 32;
const CREDIT: usize = 1_024;

/// The senders, each with a lane of its own, and the least that crossbeam's time may be relative to
/// the port's.
pub(super) const SENDERS: [(u64, f64); 2] = [(1, 1.0), (16, 0.75)];

/// The name of the interface that the client calls, and of the port that it owns.
const SOURCE: &str = "source";
const PORT: &str = "messages";

/// How long the other side may be silent before it counts as hung.
const SILENT: Duration = Duration::from_secs(10);

type Message = [u8; BYTES];

/// What the client asks of the server.
#[underpass::interface]
pub(crate) trait MessageSource {
    /// From now on that many threads send to the client's port without an end.
    fn send(&self, senders: u64) -> Result<(), CallError>;
}

struct Zeros;

impl MessageSource for Zeros {
    fn send(&self, senders: u64) -> Result<(), CallError> {
        for _ in 0..senders {
            drop(thread::spawn(|| {
                let sender = PortSender::<Message>::connect_within(PORT, APPEAR).expect("the client owns it");
                while sender.send(black_box(&[7; BYTES])).is_ok() {}
            }));
        }
        Ok(())
    }
}

pub(super) fn serve(_: &ChildRole) -> Result<(), BenchError> {
    Ok(calls::exporting(calls::NAME).export(SOURCE, MessageSource::serve(Zeros)).run()?)
}

/// Messages of as many senders as [`SENDERS`] has at `which`.
pub(super) fn measure(client: &ScenarioClient, case: &str, which: usize) -> Result<(), BenchError> {
    let (senders, bar) = SENDERS[which];
    calls::import()?;
    let source = MessageSourceClient::import_within(SOURCE, APPEAR)?;
    let (service, receiver) = PortOptions::new().messages(CREDIT).open::<Message>()?;
    let _running = Server::new().export(PORT, service).start()?;
    source.send(senders)?;
    client.settle()?;
    let far = client.placement().far.ok_or_else(|| client.placement().one_only())?;
    let (give, take) = crossbeam_channel::bounded::<Message>(CREDIT);
    std::thread::spawn(move || {
        // Where it can't be confined, the channel's threads share a CPU: then nothing is measured.
        if cpu::confine(&[far]).is_ok() {
            while give.send(black_box([7; BYTES])).is_ok() {}
        }
    });
    take.recv_timeout(SILENT).map_err(|_| "the channel's sender can't move to its CPU")?;
    let mut channel = InProcess::new("crossbeam", 1, |_| {
        black_box(take.recv().expect("its sender sends without an end"));
    });
    let mut messages = InProcess::new("port", 1, |_| match receiver.recv() {
        Ok(Arrival::Message(came)) => _ = black_box(came.message),
        other => panic!("the server sends without an end: {other:?}"),
    });
    let contest = client.contest(&mut [&mut channel, &mut messages], 0, 1)?;
    let as_fast = contest.ratios(0, 1).median();
    let figures = Figures::of(&contest, 1, 0).with("times_as_fast", as_fast);
    client.report(case, figures.judged("bar", bar, as_fast >= bar))
}
