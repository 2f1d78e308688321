//! Null, Add, BigIn and BigInOut (LRPC, Table IV), with a processor for each side and with one for
//! both.

use super::{BIG, LrpcCalls, LrpcCallsClient};
use crate::calls::{CallFn, Calls, ProbeClient};
use crate::measure::contest::Subject;
use crate::measure::in_process;
use crate::processes::client::ScenarioClient;
use crate::socket::{self, OverSocket};
use crate::{BenchError, Figures};

pub(super) const PINNED: [&str; 4] = ["null/pinned", "add/pinned", "big-in/pinned", "big-in-out/pinned"];
pub(super) const ONE_CPU: [&str; 4] = ["null/one-cpu", "add/one-cpu", "big-in/one-cpu", "big-in-out/one-cpu"];

/// The most that a call may take relative to Null. Null itself and BigIn have no bar.
const BARS: [Option<f64>; 4] = [None, Some(1.1), None, Some(1.6)];

/// The paper's µs, on a multiprocessor that has the domain loaded, and on one processor.
const PAPER_US: [(f64, f64); 4] = [(125.0, 157.0), (130.0, 164.0), (173.0, 192.0), (219.0, 227.0)];

/// The bytes over the socket that replace each call, to the server and back.
const SOCKET: [(usize, usize); 4] = [(1, 1), (2, 1), (BIG, 1), (BIG, BIG)];

fn subject(number: usize, table: &LrpcCallsClient, probe: &ProbeClient) -> Box<dyn CountedSubject> {
    let (table, data) = (table.clone(), [7u8; BIG]);
    match number {
        0 => Box::new(Calls::new("null", 1, move || table.null()).counted(probe)),
        1 => Box::new(
            Calls::new("add", 1, move || table.add(3, 4).map(|sum| assert_eq!(sum, 7))).counted(probe),
        ),
        2 => Box::new(Calls::new("big-in", 1, move || table.big_in(&data)).counted(probe)),
        _ => {
            let call = move || table.big_in_out(&data).map(|back| assert_eq!(back[BIG - 1], 7));
            Box::new(Calls::new("big-in-out", 1, call).counted(probe))
        }
    }
}

/// Calls of any kind, with their counts.
trait CountedSubject: Subject {
    fn tell(&self, figures: Figures) -> Figures;
}

impl<F: CallFn> CountedSubject for Calls<F> {
    fn tell(&self, figures: Figures) -> Figures {
        Calls::tell(self, figures)
    }
}

pub(super) fn client(client: &ScenarioClient, cases: &[&'static str; 4]) -> Result<(), BenchError> {
    let (table, probe) = super::import()?;
    client.settle()?;
    let place = client.placement();
    let one_cpu = client.pinning() == crate::Pinning::Together;
    let peer = if one_cpu { place.near } else { place.far.unwrap_or(place.near) };
    let stream = socket::connect(client.scratch(), peer)?;
    // Null is measured beside each of the others.
    let wanted: Vec<usize> = (0..cases.len()).filter(|&n| client.wants(cases[n])).collect();
    for (part, &number) in wanted.iter().enumerate() {
        let (mut limit, mut call) = (client.limit(), in_process::call());
        let (mut null, mut this) = (subject(0, &table, &probe), subject(number, &table, &probe));
        let (there, back) = SOCKET[number];
        let mut socket = OverSocket::new("socket", &stream, there, back);
        let subjects: &mut [&mut dyn Subject] =
            &mut [&mut limit, &mut *this, &mut *null, &mut call, &mut socket];
        let contest = client.contest(subjects, part, wanted.len())?;
        let median = |subject: usize| contest.measured[subject].slices().median();
        let (multi, serial) = PAPER_US[number];
        let of_null = contest.ratios(1, 2).median();
        let figures = this
            .tell(Figures::of(&contest, 1, 0))
            .with("minimum_ns", median(0) + median(3))
            .with("socket_ns", median(4))
            .with("socket_ratio", contest.ratios(1, 4).median())
            .with("of_null", of_null)
            .with("paper_of_null", if one_cpu { serial / PAPER_US[0].1 } else { multi / PAPER_US[0].0 })
            .with_detail("paper_ns", if one_cpu { serial } else { multi } * 1e3);
        client.report(
            cases[number],
            match BARS[number] {
                Some(bar) => figures.judged("bar", bar, of_null <= bar),
                None => figures,
            },
        )?;
    }
    Ok(())
}
