//! `in-1m`, `in-1m-protected`, `in-1m-sealed`: 1 MiB to the server by one copy, by two copies, and
//! without a copy. The first two are compared with the copy alone, the last with 4 KiB and 16 MiB.

use super::{LrpcCalls, LrpcCallsClient, ends};
use crate::calls::{CallFn, Calls};
use crate::measure::in_process::InProcess;
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures};
use std::hint::black_box;
use std::sync::Arc;
use underpass::{CallError, Sealed, Shared};

pub(super) const CASES: [&str; 3] = ["in-1m", "in-1m-protected", "in-1m-sealed"];

const LARGE: usize = 1 << 20;
const SMALL: usize = 4 << 10;
const HUGE: usize = 16 << 20;

/// 0.8 times the rate of `memcpy`.
const COPIED: f64 = 1.0 / 0.8;
/// Constant time, whatever the size.
const SEALED: f64 = 1.1;

pub(super) fn client(client: &ScenarioClient) -> Result<(), BenchError> {
    let (table, probe) = super::import()?;
    client.settle()?;
    for (case, protected) in [(CASES[0], false), (CASES[1], true)] {
        if !client.wants(case) {
            continue;
        }
        let data = Arc::new(vec![1u8; LARGE]);
        let mut to = vec![0u8; LARGE];
        let from = Arc::clone(&data);
        let mut copy = InProcess::new("memcpy", 1, |_| black_box(&mut to).copy_from_slice(black_box(&from)));
        let taken = table.clone();
        let mut call = Calls::new(case, 1, move || {
            check(match protected {
                false => taken.take(Shared::from(&*data))?,
                true => taken.take_protected(&data)?,
            })
        })
        .counted(&probe);
        let contest = client.contest(&mut [&mut copy, &mut call], 0, 1)?;
        let figures = Figures::of(&contest, 1, 0);
        let (met, rate) = (figures.ratio <= COPIED, LARGE as f64 / figures.ns);
        let figures = call.tell(figures).with("gb_per_s", rate);
        client.report(case, if protected { figures } else { figures.judged("bar", COPIED, met) })?;
    }
    if client.wants(CASES[2]) {
        let mut small = sealed("sealed-4KiB", &table, SMALL)?;
        let mut large = sealed("sealed-1MiB", &table, LARGE)?.counted(&probe);
        let mut huge = sealed("sealed-16MiB", &table, HUGE)?;
        let contest = client.contest(&mut [&mut small, &mut large, &mut huge], 0, 1)?;
        // The smallest takes one page fault where the others take two. Between the others, only the
        // size differs.
        let figures = Figures::of(&contest, 1, 0).with("ratio_16m", contest.ratios(2, 1).median());
        let met = figures.ratio <= SEALED;
        client.report(CASES[2], large.tell(figures).judged("bar", SEALED, met))?;
    }
    Ok(())
}

/// Calls that repeatedly pass the same sealed bytes.
fn sealed(name: &str, table: &LrpcCallsClient, bytes: usize) -> Result<Calls<impl CallFn>, BenchError> {
    let (table, data) = (table.clone(), Sealed::new(&vec![1u8; bytes])?);
    Ok(Calls::new(name, 1, move || check(table.take_sealed(data.clone())?)))
}

fn check(sum: u64) -> Result<(), CallError> {
    assert_eq!(sum, ends(&[1, 1]), "a call carried other bytes than it should");
    Ok(())
}
