//! Null calls per second by a number of async tasks, compared with as many user-level threads in
//! alternating turns of one run.
//!
//! `cargo build --release -p underpass-tests && cargo run --release -p underpass-tests --example
//! async_rate [MS]`
#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use underpass::thread;
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess};

const ROUNDS: usize = 7;

/// Counts calls until the round is over.
#[derive(Clone, Default)]
struct Meter {
    calls: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Meter {
    fn goes_on(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed);
        !self.over.load(Ordering::Relaxed)
    }

    /// The calls per second of `work`. It runs until this says that the round is over, after
    /// `round`.
    fn read(&self, round: Duration, work: impl FnOnce(Self)) -> f64 {
        let (own, begun) = (self.clone(), Instant::now());
        let clock = std::thread::spawn(move || {
            std::thread::sleep(round);
            own.over.store(true, Ordering::Relaxed);
        });
        work(self.clone());
        let calls = self.calls.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
        // The clock thread only sleeps and stores.
        clock.join().expect("it doesn't panic");
        calls
    }
}

fn user_level(client: &ProbeClient, callers: usize, meter: &Meter) {
    let threads: Vec<_> = (0..callers)
        .map(|_| {
            let (client, meter) = (client.clone(), meter.clone());
            thread::spawn(move || {
                while meter.goes_on() {
                    client.null().expect("the server lives");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it doesn't panic"));
}

async fn task(client: ProbeClient, meter: Meter) {
    while meter.goes_on() {
        client.null_async().await.expect("the server lives");
    }
}

fn under_tokio(runtime: &tokio::runtime::Runtime, client: &ProbeClient, callers: usize, meter: &Meter) {
    runtime.block_on(async {
        let tasks: Vec<_> = (0..callers).map(|_| tokio::spawn(task(client.clone(), meter.clone()))).collect();
        for task in tasks {
            task.await.expect("it doesn't panic");
        }
    });
}

fn under_smol(client: &ProbeClient, callers: usize, meter: &Meter) {
    let executor = smol::LocalExecutor::new();
    let tasks: Vec<_> = (0..callers).map(|_| executor.spawn(task(client.clone(), meter.clone()))).collect();
    smol::block_on(executor.run(async {
        for task in tasks {
            task.await;
        }
    }));
}

fn main() -> Result<(), Box<dyn Error>> {
    let round = Duration::from_millis(std::env::args().nth(1).map_or(Ok(120), |ms| ms.parse())?);
    let own = std::env::current_exe()?;
    let binary = own.ancestors().nth(2).ok_or("a target directory")?.join("underpass-test-server");
    let directory = std::env::temp_dir().join(format!("underpass-async-rate-{}", std::process::id()));
    if std::env::var_os("UNDERPASS_DIR").is_none() {
        // The names need a directory of their own. The server takes it from its environment.
        let mut again = std::process::Command::new(own);
        again.args(std::env::args().skip(1)).env("UNDERPASS_DIR", &directory);
        let ended = again.status()?;
        std::fs::remove_dir_all(directory)?;
        std::process::exit(ended.code().unwrap_or(1));
    }
    let server = ServerProcess::start(binary.to_str().ok_or("a path")?, &Room::name("rate"), "probe");
    let client = ProbeClient::import(server.name())?;
    let one = tokio::runtime::Builder::new_current_thread().build()?;
    let two = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    for callers in [1, 16] {
        let mut rates: [Vec<f64>; 4] = Default::default();
        let before = client.counters();
        for _ in 0..ROUNDS {
            rates[0].push(Meter::default().read(round, |meter| user_level(&client, callers, &meter)));
            rates[1].push(Meter::default().read(round, |meter| under_tokio(&one, &client, callers, &meter)));
            rates[2].push(Meter::default().read(round, |meter| under_tokio(&two, &client, callers, &meter)));
            rates[3].push(Meter::default().read(round, |meter| under_smol(&client, callers, &meter)));
        }
        let [threads, others @ ..] = rates.map(|mut rates| {
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2]
        });
        println!("{callers:2} user-level threads    {threads:10.0} calls/s");
        for (name, rate) in
            ["tokio, one thread ", "tokio, two threads", "smol, one thread  "].iter().zip(others)
        {
            println!("{callers:2} tasks, {name} {rate:9.0} calls/s  {:.2} of that", rate / threads);
        }
        let since = client.counters().since(&before);
        println!("   {} calls, {} kernel entries", since.calls, since.kernel_entries);
    }
    Ok(())
}
