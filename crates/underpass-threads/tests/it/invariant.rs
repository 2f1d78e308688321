//! The local invariant (OThreads, section 3.2) at random moments of a random workload. As many
//! activations run as there are activations' worth of runnable threads, up to the domain maximum,
//! and the rest of the maximum listens.

use crate::common::watchdog;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use underpass_harness::alone;
use underpass_processor::Pool;
use underpass_threads::{Builder, JoinHandle, blocking, park, sleep, spawn, start};

const MAXIMUM: u32 = 3;

fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 33) as usize
}

/// The number of threads of each kind at one moment.
struct Moment {
    /// They compute. None has a sibling that could compute too.
    computing: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    running: Arc<AtomicUsize>,
    /// They are in blocking calls.
    calling: Vec<(JoinHandle<()>, PipeWriter)>,
    /// They wait to be woken.
    parked: Vec<JoinHandle<()>>,
}

impl Moment {
    fn bring_about(seed: &mut u64) -> Self {
        let (computing, calling, parked) = (random(seed) % 6, random(seed) % 4, random(seed) % 4);
        let (stop, running) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let parked = (0..parked).map(|_| spawn(park)).collect();
        let call = |(mut reader, writer): (PipeReader, PipeWriter)| {
            let thread = Builder::new().dedicated().spawn(move || {
                blocking(move || reader.read_exact(&mut [0]).unwrap());
            });
            (thread.unwrap(), writer)
        };
        let calling = (0..calling).map(|_| call(pipe().unwrap())).collect();
        let compute = |_| {
            let (stop, running) = (stop.clone(), running.clone());
            // Dedicated, so that two of them are two activations' worth.
            let thread = Builder::new().dedicated().spawn(move || {
                running.fetch_add(1, Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            thread.unwrap()
        };
        let computing = (0..computing).map(compute).collect();
        Self { computing, stop, running, calling, parked }
    }

    /// Waits until all threads stay in what they do and the counts are as they should be. Returns
    /// the last counts otherwise.
    fn check(&self) {
        let pool = start();
        let (wanted, patience) = (self.computing.len().min(MAXIMUM as usize), Instant::now());
        // Counts looks as well as time: the whole machine may stand still for a minute.
        let (mut agreed, mut looks) = (0, 0_u64);
        while agreed < 3 {
            let counts = pool.activation_counts();
            // An activation in a blocking call keeps its permit only as long as nobody wants it,
            // and not if a listener lacks one.
            let running = counts.computing + counts.preempting;
            // The states are read one after the other, so an activation that changes may be counted
            // twice. Such counts don't agree, and are taken again.
            let lacking = counts.maximum.saturating_sub(running);
            let listeners = lacking.min(counts.asleep);
            let all_begun = self.running.load(Ordering::Relaxed) == self.computing.len();
            let holds = counts.adds_up() && running == wanted && listeners == lacking;
            agreed = if holds && all_begun { agreed + 1 } else { 0 };
            looks += 1;
            assert!(
                patience.elapsed() < Duration::from_secs(60) || looks < 100_000,
                "{} compute, {} of them have begun, {} call: {counts}\n{}",
                self.computing.len(),
                self.running.load(Ordering::Relaxed),
                self.calling.len(),
                underpass_threads::dump()
            );
            std::thread::yield_now();
        }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.computing.into_iter().for_each(|thread| thread.join().unwrap());
        for (thread, mut writer) in self.calling {
            writer.write_all(&[1]).unwrap();
            thread.join().unwrap();
        }
        for thread in self.parked {
            thread.thread().unpark();
            thread.join().unwrap();
        }
    }
}

#[test]
fn it_holds_at_random_moments() {
    alone!();
    let _dog = watchdog();
    Pool::configure(MAXIMUM);
    let mut seed = 0x2545_f491_4f6c_dd1d;
    for _ in 0..25 {
        let moment = Moment::bring_about(&mut seed);
        moment.check();
        moment.end();
        // A burst between two moments, so that each begins from another state.
        let burst: Vec<_> = (0..random(&mut seed) % 40)
            .map(|n| spawn(move || sleep(Duration::from_micros(n as u64))))
            .collect();
        burst.into_iter().for_each(|thread| thread.join().unwrap());
    }
    let quiet = Moment {
        computing: vec![],
        stop: Arc::default(),
        running: Arc::default(),
        calling: vec![],
        parked: vec![],
    };
    quiet.check();
}
