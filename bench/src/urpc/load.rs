//! `throughput`: calls a second by more and more threads (URPC, section 4.3).
//!
//! While one thread waits for its reply the others call, and neither processor waits for a cache line on every call.

use super::null::null;
use super::{ONE_EACH, figures};
use crate::Error;
use crate::calls;
use crate::client::Client;

const THREADS: [u64; 6] = [1, 2, 4, 8, 16, 32];

pub(super) fn throughput(client: &Client) -> Result<(), Error> {
    let probe = calls::import()?;
    client.settle()?;
    for (part, threads) in THREADS.into_iter().enumerate() {
        let (mut one, mut many) = (null("one-caller", 1, &probe), null("callers", threads, &probe));
        let contest = client.contest(&mut [&mut one, &mut many], part, THREADS.len())?;
        client.report("throughput", figures(&contest, (1, 0), (&many, ONE_EACH)))?;
    }
    Ok(())
}
