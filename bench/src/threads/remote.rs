//! `spawn-remote`: a thread is spawned while its activation is busy. It runs on another activation,
//! which polls meanwhile.

use super::timed::Timed;
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures, calls};
use std::sync::atomic::{AtomicU64, Ordering};
use underpass_os::clock::now_ns;

/// Children that have run. Relaxed, here and below: only the number counts.
static RAN: AtomicU64 = AtomicU64::new(0);

pub(super) fn client(client: &ScenarioClient) -> Result<(), BenchError> {
    underpass::processors::set(2);
    // An activation without threads polls while there is something to poll.
    let probe = calls::import()?;
    let mut ours = Timed::ours(spawns, 1);
    let mut kernel = Timed::kernel("std", kernel_spawns);
    let mut lines = client.limit();
    let contest = client.contest(&mut [&mut ours, &mut kernel, &mut lines], 0, 1)?;
    drop(probe);
    let figures = Figures::of(&contest, 0, 1);
    client.report("spawn-remote", figures.with("two-line_ns", contest.measured[2].slices().median()))
}

/// The spawner keeps its activation until the child has run.
fn spawns(count: u64) -> u64 {
    spans(count, || drop(underpass::thread::spawn(|| RAN.fetch_add(1, Ordering::Relaxed))))
}

/// The same with a kernel thread for the child.
fn kernel_spawns(count: u64) -> u64 {
    spans(count, || drop(std::thread::spawn(|| RAN.fetch_add(1, Ordering::Relaxed))))
}

fn spans(count: u64, spawn: impl Fn()) -> u64 {
    let begun = now_ns();
    for _ in 0..count {
        let ran = RAN.load(Ordering::Relaxed);
        spawn();
        while RAN.load(Ordering::Relaxed) == ran {
            std::hint::spin_loop();
        }
    }
    now_ns() - begun
}
