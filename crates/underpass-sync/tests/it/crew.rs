//! Threads of both kinds, repeatable random numbers, and a watchdog.

use std::sync::mpsc;
use std::time::Duration;

/// Ends the process and names the test, unless it is dropped within two minutes.
pub struct Watchdog(#[allow(dead_code)] mpsc::Sender<()>);

pub fn watchdog(test: &'static str) -> Watchdog {
    let (alive, dropped) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if dropped.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{test} hangs; its threads wait in:");
            for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
                let read = |what: &str| std::fs::read_to_string(task.path().join(what)).unwrap_or_default();
                eprintln!("{} {}", read("comm").trim(), read("wchan").trim());
            }
            std::process::abort();
        }
    });
    Watchdog(alive)
}

/// A repeatable sequence of random numbers (SplitMix64).
#[derive(Clone)]
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Does nothing, yields or spins, so that threads meet in many ways.
    pub fn dawdle(&mut self) {
        match self.below(8) {
            0 => underpass_threads::yield_now(),
            1 => (0..self.below(200)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }

    /// A deadline that has sometimes passed before the wait begins.
    pub fn moment(&mut self) -> Duration {
        Duration::from_nanos(self.below(60_000))
    }
}

/// A thread of either kind that can be joined.
pub enum Member<T> {
    User(underpass_threads::JoinHandle<T>),
    Kernel(std::thread::JoinHandle<T>),
}

impl<T> Member<T> {
    pub fn join(self) -> T {
        let joined = match self {
            Self::User(thread) => thread.join(),
            Self::Kernel(thread) => thread.join(),
        };
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Starts `body` with a number and random numbers of its own. Every third member is a kernel
/// thread.
pub fn member<T: Send + 'static>(
    seed: u64,
    number: u64,
    body: impl FnOnce(u64, Chance) -> T + Send + 'static,
) -> Member<T> {
    let chance = Chance(seed.wrapping_mul(1_000_003).wrapping_add(number));
    match number % 3 {
        2 => Member::Kernel(std::thread::spawn(move || body(number, chance))),
        _ => Member::User(underpass_threads::spawn(move || body(number, chance))),
    }
}

/// Runs `body` on `n` threads of both kinds, and returns their results.
pub fn crew<T: Send + 'static>(
    seed: u64,
    n: u64,
    body: impl Fn(u64, Chance) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let members: Vec<_> = (0..n).map(|number| member(seed, number, body.clone())).collect();
    members.into_iter().map(Member::join).collect()
}
