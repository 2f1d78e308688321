//! The cases with one activation: what each measures, and what it is compared with.

use super::package::kernel;
pub(crate) use super::package::ours;
use super::timed::Operation;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use underpass_os::clock::now_ns;

/// A case.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) ours: Operation,
    /// The kernel threads' version of the case, and its name.
    pub(crate) kernel: (&'static str, Operation),
    /// Whether the kernel's version is only a reference, used where no peer is measured.
    pub(crate) yardstick: bool,
    /// The peers' name of the case.
    pub(crate) peers: &'static str,
    /// The most that ours may take, relative to the best peer.
    pub(crate) bar: Option<f64>,
    /// The most ns that ours may take.
    pub(crate) bar_ns: Option<f64>,
    /// µs in the paper (URPC, Table I; OThreads, Table 1): user-level, and kernel threads.
    pub(crate) paper_us: (Option<f64>, Option<f64>),
}

const NOTHING: Case = Case {
    name: "",
    ours: call,
    kernel: ("std", call),
    yardstick: false,
    peers: "",
    bar: None,
    bar_ns: None,
    paper_us: (None, None),
};

/// In the order of URPC's Table I, then OThreads' Table 1.
pub(crate) static CASES: &[Case] = &[
    Case { name: "call", peers: "call", paper_us: (Some(7.0), Some(7.0)), ..NOTHING },
    Case {
        name: "fork",
        ours: ours::fork,
        kernel: ("std", kernel::fork),
        peers: "fork",
        bar: Some(0.5),
        paper_us: (Some(43.0), Some(1192.0)),
        ..NOTHING
    },
    Case {
        name: "fork-join",
        ours: ours::fork_join,
        kernel: ("std", kernel::fork_join),
        peers: "fork-join",
        bar: Some(0.5),
        paper_us: (Some(102.0), Some(1574.0)),
        ..NOTHING
    },
    Case {
        name: "yield",
        ours: yields,
        kernel: ("std", kernel_yields),
        peers: "yield",
        bar: Some(0.5),
        paper_us: (Some(37.0), Some(57.0)),
        ..NOTHING
    },
    Case {
        name: "lock",
        ours: ours::lock,
        kernel: ("std", kernel::lock),
        peers: "lock",
        bar: Some(1.0),
        paper_us: (Some(27.0), Some(27.0)),
        ..NOTHING
    },
    Case {
        name: "ping-pong",
        ours: ours::ping_pong,
        kernel: ("std", kernel::ping_pong),
        peers: "ping-pong",
        bar: Some(0.5),
        paper_us: (Some(53.0), Some(271.0)),
        ..NOTHING
    },
    Case { name: "park", ours: ours::park, kernel: ("std", kernel::park), peers: "park", ..NOTHING },
    Case {
        name: "blocking",
        ours: blocking,
        kernel: ("syscall", system_call),
        yardstick: true,
        peers: "blocking-direct",
        bar: Some(0.5),
        bar_ns: Some(10.0),
        paper_us: (Some(2.4), None),
    },
];

/// A procedure call that is not inlined.
fn call(count: u64) -> u64 {
    #[inline(never)]
    fn increment(number: u64) -> u64 {
        black_box(number) + 1
    }
    let begun = now_ns();
    for number in 0..count {
        black_box(increment(number));
    }
    now_ns() - begun
}

/// Switches between two threads that yield to each other.
pub(crate) fn yields(count: u64) -> u64 {
    use underpass::thread::{spawn, yield_now};
    // Relaxed, all: both run on one activation.
    let (turns, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, seen) = (Arc::clone(&turns), Arc::clone(&stop));
    let other = spawn(move || {
        let mut turns = 0;
        while !seen.load(Ordering::Relaxed) {
            turns += 1;
            counted.store(turns, Ordering::Relaxed);
            yield_now();
        }
    });
    // A thread that has not started is delayed for a while.
    while turns.load(Ordering::Relaxed) == 0 {
        yield_now();
    }
    let cycles = count.div_ceil(2);
    let before = turns.load(Ordering::Relaxed);
    let begun = now_ns();
    for _ in 0..cycles {
        yield_now();
    }
    let taken = now_ns() - begun;
    let turns = turns.load(Ordering::Relaxed) - before;
    stop.store(true, Ordering::Relaxed);
    other.join().expect("it only counts");
    assert!(
        turns.abs_diff(cycles) <= cycles / 50 + 2,
        "{turns} turns of the other thread in {cycles} of this one"
    );
    taken
}

/// The same by the kernel. The kernel need not switch when a thread yields, so only switches count.
fn kernel_yields(count: u64) -> u64 {
    use std::thread::{spawn, yield_now};
    let turn = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&turn);
    let cycles = count.div_ceil(2);
    // Relaxed: only the turn itself is passed.
    let hand_over = |turn: &AtomicBool, from: bool| {
        while turn.load(Ordering::Relaxed) != from {
            yield_now();
        }
        turn.store(!from, Ordering::Relaxed);
    };
    let other = spawn(move || (0..=cycles).for_each(|_| hand_over(&seen, true)));
    hand_over(&turn, false);
    let begun = now_ns();
    (0..cycles).for_each(|_| hand_over(&turn, false));
    let taken = now_ns() - begun;
    other.join().expect("it only yields");
    taken
}

/// The begin and end of a blocking call, with nothing between and no thread waiting.
fn blocking(count: u64) -> u64 {
    let begun = now_ns();
    for _ in 0..count {
        underpass::thread::blocking(|| black_box(()));
    }
    now_ns() - begun
}

/// The cheapest call that could stand between them.
fn system_call(count: u64) -> u64 {
    let begun = now_ns();
    for _ in 0..count {
        black_box(std::os::unix::process::parent_id());
    }
    now_ns() - begun
}
