//! A control loop that makes urgent calls: `cargo run --example urgent`.
//!
//! The plant is a process without a processor of its own: it serves on processors that its callers
//! donate. The loop shares its only processor with a thread that computes. An ordinary call is
//! served the next time that the runtime does its periodic maintenance, instead of switching
//! between the two threads. An urgent call takes the processor to the plant at once, and back
//! (URPC, section 3.1: forced donation, for single-threaded callers, real-time callers and I/O with
//! high latency).

use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};
use underpass::{CallError, Server, processors, thread};

#[underpass::interface]
trait Plant {
    /// The level in the tank.
    fn sense(&self) -> Result<i64, CallError>;
    /// Turns the valve.
    fn act(&self, by: i64) -> Result<(), CallError>;
}

#[derive(Default)]
struct Tank(AtomicI64);

impl Plant for Tank {
    fn sense(&self) -> Result<i64, CallError> {
        // The tank leaks.
        Ok(self.0.fetch_sub(1, Ordering::Relaxed))
    }
    fn act(&self, by: i64) -> Result<(), CallError> {
        self.0.fetch_add(by, Ordering::Relaxed);
        Ok(())
    }
}

const PERIODS: u32 = 500;
const PERIOD: Duration = Duration::from_millis(1);
const WANTED: i64 = 1_000;

/// Holds the level for 500 periods, and prints what the binding's counters say about them.
fn control(what: &str, plant: &PlantClient) -> Result<(), CallError> {
    let before = plant.counters();
    let mut times = Vec::new();
    for _ in 0..PERIODS {
        thread::sleep(PERIOD);
        let begun = Instant::now();
        plant.act(WANTED - plant.sense()?)?;
        times.push(begun.elapsed().as_micros());
    }
    times.sort_unstable();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    let done = plant.counters().since(&before);
    println!(
        "{what:8} calls: {} of them, {} with the caller's processor, {} wake-ups sent; a period took {median} us, the longest {worst} us",
        done.calls, done.donations_given, done.wakeups_sent
    );
    Ok(())
}

/// Kills the plant when this process ends.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // It fails if the plant has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("plant") {
        processors::set(0);
        return Ok(Server::new().export("plant", Plant::serve(Tank::default())).run()?);
    }
    let _plant = Kept(Command::new(std::env::current_exe()?).arg("plant").spawn()?);
    // One processor, so that the loop and the computing thread share it.
    processors::set(1);
    let plant = PlantClient::import_within("plant", Duration::from_secs(5))?;
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    let computes = thread::spawn(move || {
        while !told.load(Ordering::Relaxed) {
            std::hint::black_box((0..10_000_u64).sum::<u64>());
            thread::yield_now();
        }
    });
    let controls = thread::spawn(move || {
        control("ordinary", &plant)?;
        control("urgent", &plant.urgent())
    });
    let controlled = controls.join().map_err(|_| "the loop panicked")?;
    over.store(true, Ordering::Relaxed);
    computes.join().map_err(|_| "the computing thread panicked")?;
    Ok(controlled?)
}
