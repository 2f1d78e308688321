//! `throughput`: calls a second by more and more threads (URPC, section 4.3).
//!
//! Two sides that both have a processor are a pipeline: the slower one bounds it, by the components of a call that are its own. While one thread waits for its reply the others call, and neither processor waits for a cache line on every call.

use super::null::null;
use super::parts::Sum;
use super::{ONE_EACH, figures};
use crate::Error;
use crate::calls;
use crate::client::Client;

/// The number of threads whose calls are judged.
const JUDGED: u64 = 16;

/// Three quarters of what the slower side's own processing allows.
const BAR: f64 = 1.0 / 0.75;

/// Or so many calls a second, if that is less.
const BAR_CALLS_PER_S: f64 = 15e6;

const THREADS: [u64; 6] = [1, 2, 4, 8, 16, 32];

pub(super) fn throughput(client: &Client) -> Result<(), Error> {
    let probe = calls::import()?;
    client.settle()?;
    for (part, threads) in THREADS.into_iter().enumerate() {
        let (mut slower, mut many) = (Sum::slower(), null("callers", threads, &probe));
        let contest = client.contest(&mut [&mut slower, &mut many], part, THREADS.len())?;
        let figures = figures(&contest, (1, 0), (&many, ONE_EACH));
        let met = figures.ratio <= BAR || 1e9 / figures.ns >= BAR_CALLS_PER_S;
        let judged = if threads == JUDGED { figures.judged("bar", BAR, met) } else { figures };
        client.report("throughput", judged)?;
    }
    Ok(())
}
