//! Calls of every size and at every pace.

use crate::witness::{Witness, WitnessClient, testimony};
use std::time::Duration;
use underpass::{CallError, thread};
use underpass_tests::Numbers;

/// In the cell, on the A-stack, out of band.
const SIZES: [usize; 9] = [0, 0, 8, 20, 40, 300, 20_000, 20_000, 70_000];

/// Makes call `id`. Returns whether its result is right.
///
/// # Errors
/// The error of the call.
pub fn call(client: &WitnessClient, id: u64, numbers: &mut Numbers) -> Result<bool, CallError> {
    let (size, want) = (numbers.among(&SIZES), numbers.among(&SIZES) as u32);
    let bytes: Vec<u8> = (0..size).map(|i| (i as u64 ^ id) as u8).collect();
    match numbers.below(16) {
        // The other side falls asleep now and then.
        0 => thread::sleep(Duration::from_micros(300)),
        1..4 => thread::yield_now(),
        _ => {}
    }
    Ok(client.testify(id, want, &bytes)? == testimony(id, want, &bytes))
}
