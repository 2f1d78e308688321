//! `B/N`: the throughput of N client processes of one server, with a processor for each of them and
//! N for the server.
//!
//! Clients use different channels. So what holds up the threads of one binding does not constrain
//! the rate of all of them together (URPC, section 4.3). The limit is what N raw pairs of rings do
//! at once on the same processors.

use crate::calls;
use crate::processes::client::ScenarioClient;
use crate::processes::client_crowd::ClientCrowd;
use crate::processes::helper::{Does, Helper, HelperTask};
use crate::raw::pairs::RawPairs;
use crate::{BenchError, Figures};

/// The server of the client alone.
const ALONE: &str = "urpc-alone";

/// The subjects.
const ONE: usize = 0;
const ALL: usize = 1;
const ONE_PAIR: usize = 2;
const PAIRS: usize = 3;

pub(super) fn client(client: &ScenarioClient, case: &str, count: usize) -> Result<(), BenchError> {
    let ((near, far), window) = (client.sides()?, client.effort().slice);
    let only = (vec![near[0]], vec![far[0]]);
    let _server = Helper::start(&HelperTask { cpus: only.1.clone(), does: Does::Serve(ALONE.into()) })?;
    let mut one = ClientCrowd::start("a client alone", ALONE, &only.0, window)?;
    let mut all = ClientCrowd::start("clients", calls::NAME, &near, window)?;
    let mut one_pair = RawPairs::between(only, window)?;
    let mut pairs = RawPairs::between((near, far), window)?;
    let contest = client.contest(&mut [&mut one, &mut all, &mut one_pair, &mut pairs], 0, 1)?;
    let figures = Figures::of(&contest, ALL, PAIRS);
    let rate = (1e9 / figures.ns).round() as u64;
    let figures = figures.with("T", count).with("C", count).with("S", count).with("calls_per_s", rate);
    let figures = all
        .tell(figures)
        .with("speedup_to_alone", contest.ratios(ONE, ALL).median())
        .with("raw_speedup", contest.ratios(ONE_PAIR, PAIRS).median());
    client.report(case, figures)
}
