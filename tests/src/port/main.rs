//! A process that sends to a port, or owns one. It takes orders from its standard input, one a
//! line, and answers each with a line.
//!
//! `underpass-test-port NAME sender N` connects N senders to NAME. Orders:
//!
//! * `send N LEN`: sends N messages of LEN bytes with each sender, and waits for room.
//! * `traced N`: sends N messages with the first one, and makes a marker system call before and
//!   after. Answers with how often it has rung for the owner.
//! * `waited N`: the same, but each message waits for a receiver that waits.
//! * `try`: sends a message with the first one if there is room.
//! * `flood`: sends until that fails. It answers when it begins, and when it has failed.
//! * `reserve`: writes a part of a message, and keeps it so.
//! * `drop`: drops all senders.
//! * `pressure`: the pressure of the first one.
//! * `ended`: waits until the first one's lane has ended, and answers why.
//!
//! `underpass-test-port NAME owner MESSAGES` exports a port for that many messages of each sender.
//! Orders:
//!
//! * `take N`: receives N messages, and answers with their numbers.
//!
//! `underpass-test-port NAME signals CREDITS` exports signals. Kind 1 notes its data, the
//! coalescing kind 0 is summed up, and kind 2 computes beside a thread that would like to run.
//! Orders:
//!
//! * `data N`: waits for N data, and answers with them.
//! * `sum N`: waits for a sum of at least N, and answers with it.
//! * `turns`: starts that thread.
//! * `computed`: waits for a signal of kind 2, and answers whether other threads ran meanwhile.
//!
//! `underpass-test-port NAME signaller _` signals to NAME. Orders:
//!
//! * `signal N`: N signals of kind 1, with numbers as their data. It tries again without a credit.
//! * `count N`: counts N times.
//! * `compute`: a signal of kind 2.
//! * `ways`: how they went.
//! * `ended`: waits until the right has ended, and answers why.
//!
//! With `$UNDERPASS_TEST_CPU` it uses that CPU only.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use underpass::port::signal::{SignalHandlers, SignalSender};
use underpass::port::{Arrival, OtherSide, PortOptions, PortSendError, PortSender};
use underpass::{Server, thread};
use underpass_tests::{Entries, until};

/// A number, and bytes.
type Note = (u64, Vec<u8>);

const SOON: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    // It must not outlive its test.
    underpass_os::process::die_with_parent()?;
    underpass_os::process::raise_files()?;
    if let Ok(cpu) = std::env::var("UNDERPASS_TEST_CPU") {
        underpass_os::cpu::confine(&[cpu.parse()?])?;
    }
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("name, role and number");
    let (name, role, number) = (next()?, next()?, next()?.parse()?);
    match role.as_str() {
        "sender" => {
            // By a user-level thread, as programs do.
            let sends = thread::spawn(move || send(&name, number).map_err(|e| e.to_string()));
            Ok(sends.join().expect("it doesn't panic")?)
        }
        "owner" => own(&name, number),
        "signals" => receive_signals(&name, number),
        "signaller" => {
            let signals = thread::spawn(move || signal(&name).map_err(|e| e.to_string()));
            Ok(signals.join().expect("it doesn't panic")?)
        }
        other => Err(format!("no role {other}").into()),
    }
}

fn answer(line: &str) -> std::io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// The next order, split at its spaces. `None` at the end of the orders.
fn order() -> std::io::Result<Option<Vec<String>>> {
    let mut line = String::new();
    let read = thread::blocking(|| stdin().lock().read_line(&mut line))?;
    Ok((read > 0).then(|| line.split_whitespace().map(str::to_owned).collect()))
}

fn send(name: &str, count: usize) -> Result<(), Box<dyn Error>> {
    let connect = |_| PortSender::<Note>::connect_within(name, SOON);
    let mut senders = (0..count).map(connect).collect::<Result<Vec<_>, _>>()?;
    answer("connected")?;
    let mut number = 0;
    while let Some(words) = order()? {
        let argument = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        match words.first().map_or("", String::as_str) {
            "send" => {
                for _ in 0..argument(1) {
                    let note = (number, vec![number as u8; argument(2) as usize]);
                    for sender in &senders {
                        sender.send(&note)?;
                    }
                    number += 1;
                }
                answer(&format!("sent {number}"))?;
            }
            word @ ("traced" | "waited") => {
                let (rings, _mark) = (senders[0].pressure().rings, Entries::marked());
                for _ in 0..argument(1) {
                    if word == "waited" {
                        let waits = || senders[0].pressure().other_side == OtherSide::Waits;
                        until("a receiver that waits", || waits().then_some(()));
                    }
                    senders[0].send(&(number, Vec::new()))?;
                    number += 1;
                }
                let _mark = Entries::marked();
                answer(&format!("rang {}", senders[0].pressure().rings - rings))?;
            }
            "try" => match senders[0].try_send(&(number, Vec::new())) {
                Ok(_) => {
                    number += 1;
                    answer("sent")?;
                }
                Err(e) => answer(&format!("{e:?}"))?,
            },
            "flood" => {
                answer("flooding")?;
                let failed = loop {
                    match senders[0].send(&(number, Vec::new())) {
                        Ok(_) => number += 1,
                        Err(e) => break e,
                    }
                };
                answer(&format!("{failed:?}"))?;
            }
            "reserve" => {
                let mut room = senders[0].reserve(64)?;
                room.put(&number.to_le_bytes());
                answer("reserved")?;
                order()?;
                drop(room);
                answer("unreserved")?;
            }
            "drop" => {
                senders.clear();
                answer("dropped")?;
            }
            "pressure" => answer(&format!("{:?}", senders[0].pressure()))?,
            "ended" => answer(&format!("{:?}", until("the end of the lane", || senders[0].ended())))?,
            other => return Err(format!("no order {other}").into()),
        }
    }
    Ok(())
}

fn own(name: &str, messages: usize) -> Result<(), Box<dyn Error>> {
    let (service, receiver) = PortOptions::new().messages(messages).longest(64).open::<Note>()?;
    let _running = Server::new().export(name, service).start()?;
    answer("open")?;
    while let Some(words) = order()? {
        let count = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let mut numbers = Vec::new();
        while numbers.len() < count {
            if let Arrival::Message(came) = receiver.recv()? {
                numbers.push(came.message.0.to_string());
            }
        }
        answer(&format!("took {}", numbers.join(" ")))?;
    }
    Ok(())
}

/// What the handlers have noted.
#[derive(Default)]
struct Noted {
    data: Mutex<Vec<u64>>,
    sum: AtomicU64,
    /// Turns of another thread, and whether it had one while a handler computed.
    turns: AtomicU64,
    computed: Mutex<Option<bool>>,
}

/// Longer than a time slice.
const COMPUTES: Duration = Duration::from_millis(100);

fn receive_signals(name: &str, credits: usize) -> Result<(), Box<dyn Error>> {
    let noted = Arc::<Noted>::default();
    let [data, sum, computed, turns] = [(); 4].map(|()| noted.clone());
    let (service, _signals) = SignalHandlers::new()
        .credits(credits)
        .on(1, move |signal| data.data.lock().expect("no panic").push(signal.datum))
        .on(2, move |_| {
            let before = computed.turns.load(Ordering::Relaxed);
            // By the clock of this process: on a busy machine it computes for as long as on an idle
            // one.
            let end = underpass_os::clock::cpu_ns() + COMPUTES.as_nanos() as u64;
            while underpass_os::clock::cpu_ns() < end {}
            let others = computed.turns.load(Ordering::Relaxed) != before;
            *computed.computed.lock().expect("no panic") = Some(others);
        })
        .on_count(0, move |_, more| {
            sum.sum.fetch_add(more, Ordering::Relaxed);
        })
        .start();
    let _running = Server::new().export(name, service).start()?;
    answer("receives")?;
    while let Some(words) = order()? {
        let count = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        match words.first().map_or("", String::as_str) {
            "data" => {
                let data = until("the signals", || {
                    let data = noted.data.lock().expect("no panic");
                    (data.len() >= count).then(|| data.clone())
                });
                let data: Vec<_> = data.iter().map(u64::to_string).collect();
                answer(&format!("data {}", data.join(" ")))?;
            }
            "sum" => {
                let sum = || noted.sum.load(Ordering::Relaxed);
                let sum = until("the counts", || Some(sum()).filter(|&sum| sum >= count as u64));
                answer(&format!("sum {sum}"))?;
            }
            "turns" => {
                let turns = turns.clone();
                drop(thread::spawn(move || {
                    loop {
                        turns.turns.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                    }
                }));
                until("a turn", || (noted.turns.load(Ordering::Relaxed) > 0).then_some(()));
                answer("turns")?;
            }
            "computed" => {
                let others = until("the handler", || *noted.computed.lock().expect("no panic"));
                answer(if others { "others ran" } else { "nobody ran" })?;
            }
            other => return Err(format!("no order {other}").into()),
        }
    }
    Ok(())
}

fn signal(name: &str) -> Result<(), Box<dyn Error>> {
    let sender = SignalSender::connect_within(name, SOON)?;
    answer("connected")?;
    let mut number = 0;
    while let Some(words) = order()? {
        let count = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        match words.first().map_or("", String::as_str) {
            "signal" => {
                for _ in 0..count {
                    until("a credit", || match sender.signal(1, number) {
                        Err(PortSendError::Full) => None,
                        sent => Some(sent),
                    })?;
                    number += 1;
                }
                answer(&format!("signalled {number}"))?;
            }
            "count" => {
                (0..count).try_for_each(|_| sender.count(0, 1).map(drop))?;
                answer("counted")?;
            }
            "compute" => {
                sender.signal(2, 0)?;
                answer("signalled")?;
            }
            "ways" => answer(&format!("{:?}", sender.ways()))?,
            "ended" => answer(&format!("{:?}", until("the end", || sender.ended())))?,
            other => return Err(format!("no order {other}").into()),
        }
    }
    Ok(())
}
