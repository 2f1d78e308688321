//! The processes of the tests of the activation server.
//!
//! `underpass-test-node serve N` divides N processors, and `serve-replace N` takes over from a
//! server that runs. Both say why they end.
//!
//! `underpass-test-node domain` is a domain. It obeys its standard input, and answers each order
//! with one line:
//!
//! * `compute N`: N threads compute from now on, and never reach a scheduling point.
//! * `rest`: they end.
//! * `work`: a thread runs and ends.
//! * `block`: a thread begins a blocking call, which lasts.
//! * `unblock`: it ends, and the thread goes on.
//! * `counts`: the processors that the domain may run on, and how many it uses.
//! * `want N`: the domain wants so many processors.
//! * `serve NAME`: it serves calls under this name.
//! * `call NAME N`: a thread makes N calls there. Answers how many processors were donated.
#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use underpass::thread::{self, JoinHandle};
use underpass::{Server, processors};
use underpass_node::server::NodeServer;
use underpass_tests::{Probe, ProbeClient, Subject};

/// The threads that compute.
#[derive(Default)]
struct Load {
    over: Arc<AtomicBool>,
    begun: Arc<AtomicU32>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn add(&mut self, threads: u32) {
        for _ in 0..threads {
            let (over, begun) = (self.over.clone(), self.begun.clone());
            self.threads.push(thread::spawn(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }));
        }
    }

    fn end(&mut self) -> u32 {
        self.over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        self.over = Arc::default();
        std::mem::take(&mut self.begun).load(Ordering::Relaxed)
    }
}

/// A thread in a blocking call.
struct Blocked {
    end: Sender<()>,
    thread: JoinHandle<u32>,
}

fn block() -> Blocked {
    let (end, ends) = channel();
    let (begin, begun) = channel();
    let thread = thread::spawn(move || {
        thread::blocking(move || {
            begin.send(()).unwrap();
            ends.recv().unwrap();
        });
        7
    });
    // The input's kernel thread is no activation.
    begun.recv().unwrap();
    Blocked { end, thread }
}

/// Makes calls, and returns how many of them came with the processor.
fn call(name: &str, times: u32) -> Result<u64, Box<dyn Error>> {
    let client = ProbeClient::import(name)?;
    let counted = client.clone();
    let donated = || counted.counters().donations_given;
    let before = donated();
    thread::spawn(move || (0..times).try_for_each(|_| client.null())).join().map_err(|_| "it panicked")??;
    Ok(donated() - before)
}

/// Runs a server.
fn serve(processors: u32, replace: bool) -> Result<(), Box<dyn Error>> {
    let signals = underpass_os::end_signal::catch()?;
    let directory = underpass_os::Directory::from_environment();
    let server = NodeServer::start(&directory, processors, replace, Some(signals))?;
    println!("ready");
    println!("{:?}", server.run());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    // A process must not outlive its test.
    underpass_os::process::die_with_parent()?;
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", processors] => serve(processors.parse()?, false),
        ["serve-replace", processors] => serve(processors.parse()?, true),
        ["domain"] => obey(),
        other => Err(format!("{other:?} is no role").into()),
    }
}

/// Is a domain.
fn obey() -> Result<(), Box<dyn Error>> {
    thread::spawn(|| ()).join().unwrap();
    println!("ready");
    let (mut load, mut blocked) = (Load::default(), None);
    let mut serving = Vec::new();
    for order in std::io::stdin().lines() {
        let order = order?;
        let words: Vec<_> = order.split(' ').collect();
        // Names are no numbers.
        let number = words.get(1).and_then(|word| word.parse::<u32>().ok()).unwrap_or(0);
        match words[0] {
            "compute" => {
                load.add(number);
                println!("computes");
            }
            "rest" => println!("{}", load.end()),
            "work" => println!("{}", thread::spawn(|| 5).join().unwrap()),
            "block" => {
                blocked = Some(block());
                println!("blocks");
            }
            "unblock" => {
                let Blocked { end, thread } = blocked.take().ok_or("no thread blocks")?;
                end.send(())?;
                println!("{}", thread.join().unwrap());
            }
            "counts" => {
                let counts = processors::activation_counts().ok_or("no thread was spawned")?;
                println!("{} {}", processors::granted(), counts.running);
            }
            "want" => {
                processors::want(number);
                println!("wants");
            }
            "serve" => {
                let name = words.get(1).ok_or("no name")?;
                serving.push(Server::new().export(*name, Probe::serve(Subject::default())).start()?);
                println!("serves");
            }
            "call" => {
                let times = words.get(2).ok_or("no number")?.parse()?;
                println!("{}", call(words[1], times)?);
            }
            order => return Err(format!("{order:?} is no order").into()),
        }
    }
    Ok(())
}
