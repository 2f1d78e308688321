//! `in-1m`: 1 MiB to the server by one copy, beside that copy alone.

use super::{Table, ends};
use crate::calls::Calls;
use crate::client::Client;
use crate::process::Local;
use crate::{Error, Figures};
use std::hint::black_box;
use std::sync::Arc;
use underpass::CallError;

pub(super) const CASES: [&str; 1] = ["in-1m"];

const LARGE: usize = 1 << 20;

/// 0.8 times the rate of `memcpy`.
const COPIED: f64 = 1.0 / 0.8;

pub(super) fn client(client: &Client) -> Result<(), Error> {
    let (table, _probe) = super::import()?;
    client.settle()?;
    if client.wants(CASES[0]) {
        let data = Arc::new(vec![1u8; LARGE]);
        let mut to = vec![0u8; LARGE];
        let from = Arc::clone(&data);
        let mut copy = Local::new("memcpy", 1, |_| black_box(&mut to).copy_from_slice(black_box(&from)));
        let taken = table.clone();
        let mut call = Calls::new("in-1m", 1, move || check(taken.take(&data)?));
        let contest = client.contest(&mut [&mut copy, &mut call], 0, 1)?;
        let figures = Figures::of(&contest, 1, 0);
        let (met, rate) = (figures.ratio <= COPIED, LARGE as f64 / figures.ns);
        client.report(CASES[0], figures.with("gb_per_s", rate).judged("bar", COPIED, met))?;
    }
    Ok(())
}

fn check(sum: u64) -> Result<(), CallError> {
    assert_eq!(sum, ends(&[1, 1]), "a call carried other bytes than it should");
    Ok(())
}
