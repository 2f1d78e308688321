//! A process that sends to a synchronous port, or owns one. It takes orders from its standard
//! input, one a line, and answers each with a line. Messages are numbers with bytes, and the reply
//! to a number is its double.
//!
//! `underpass-test-sync-port NAME sender _` connects to NAME. Orders:
//!
//! * `send N`: sends N, and answers with the reply.
//! * `begin N COUNT`: sends COUNT messages from N on, and waits for no reply.
//! * `wait`: waits for the replies to those, and answers with them in the order of the messages.
//! * `within N MS`: sends N, and waits for MS milliseconds.
//! * `flood THREADS COUNT`: sends COUNT messages from each thread. Answers with the kernel entries
//!   that this domain made meanwhile, the wake-ups among them, and the sleeps. It makes a marker
//!   system call before and after.
//! * `warm COUNT`: sends COUNT messages, and answers without numbers or markers.
//!
//! `underpass-test-sync-port NAME owner MESSAGES` exports a port for that many messages of each
//! sender. Orders:
//!
//! * `park COUNT`: receives messages until that many are parked.
//! * `give`: replies to those, the last one first.
//! * `drop`: drops their replies.
//! * `serve THREADS COUNT`: replies to COUNT messages from each thread. It answers when it begins,
//!   and then as after `flood`.
//! * `close`: drops the receiver.
//!
//! With `$UNDERPASS_TEST_CPU` it uses that CPU only.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Duration;
use underpass::port::sync::{Reply, SyncPortOptions, SyncPortReceiver, SyncPortSender, SyncSendError};
use underpass::{Server, thread};
use underpass_tests::Entries;

/// A number, and bytes.
type Note = (u64, Vec<u8>);

const SOON: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    // It must not outlive its test.
    underpass_os::process::die_with_parent()?;
    if let Ok(cpu) = std::env::var("UNDERPASS_TEST_CPU") {
        underpass_os::cpu::confine(&[cpu.parse()?])?;
    }
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("name, role and number");
    let (name, role, number) = (next()?, next()?, next()?.parse()?);
    // By user-level threads, as programs do.
    let done = match role.as_str() {
        "sender" => thread::spawn(move || send(&name).map_err(|e| e.to_string())).join(),
        "owner" => thread::spawn(move || own(&name, number).map_err(|e| e.to_string())).join(),
        other => return Err(format!("no role {other}").into()),
    };
    Ok(done.expect("it doesn't panic")?)
}

fn answer(line: &str) -> std::io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// The next order: its first word, and the numbers behind it. `None` at the end of the orders.
fn order() -> std::io::Result<Option<(String, [u64; 2])>> {
    let mut line = String::new();
    let read = thread::blocking(|| stdin().lock().read_line(&mut line))?;
    let mut words = line.split_whitespace();
    let word = words.next().unwrap_or_default().to_owned();
    let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Ok((read > 0).then(|| (word, [number(), number()])))
}

fn shown(result: Result<u64, SyncSendError>) -> String {
    result.map_or_else(|e| format!("{e:?}"), |reply| reply.to_string())
}

fn note(number: u64) -> Note {
    (number, vec![number as u8; 8])
}

/// Has `threads` threads run `work`. Returns the kernel entries that this domain made meanwhile,
/// the wake-ups among them, and the sleeps.
fn kernel_entries(threads: u64, work: impl Fn() + Clone + Send + 'static) -> String {
    let before = Entries::marked();
    let threads: Vec<_> = (0..threads).map(|_| thread::spawn(work.clone())).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it doesn't panic"));
    let done = Entries::marked().since(before);
    format!("{} {} {}", done.all, done.wakes, done.sleeps)
}

fn send(name: &str) -> Result<(), Box<dyn Error>> {
    let sender = SyncPortSender::<Note, u64>::connect_within(name, SOON)?;
    answer("connected")?;
    let mut pending = Vec::new();
    while let Some((word, [first, second])) = order()? {
        match word.as_str() {
            "send" => answer(&shown(sender.send(&note(first))))?,
            "begin" => {
                for number in first..first + second {
                    pending.push(sender.begin(note(number))?);
                }
                answer("begun")?;
            }
            "wait" => {
                let replies: Vec<_> = pending.drain(..).map(|pending| shown(pending.wait())).collect();
                answer(&replies.join(" "))?;
            }
            "warm" => {
                (0..first).try_for_each(|number| sender.send(&note(number)).map(drop))?;
                answer("warm")?;
            }
            "within" => answer(&shown(sender.send_timeout(&note(first), Duration::from_millis(second))))?,
            "flood" => {
                let sender = sender.clone();
                let entries = kernel_entries(first, move || {
                    (0..second).for_each(|number| assert_eq!(sender.send(&note(number)), Ok(2 * number)));
                });
                answer(&entries)?;
            }
            other => return Err(format!("no order {other}").into()),
        }
    }
    Ok(())
}

fn own(name: &str, messages: u64) -> Result<(), Box<dyn Error>> {
    let (service, receiver) = SyncPortOptions::new().messages(messages).open::<Note, u64>();
    let mut receiver = Some(receiver);
    let _running = Server::new().export(name, service).start()?;
    let received = |receiver: &Option<SyncPortReceiver<Note, u64>>| {
        let (note, reply) = receiver.as_ref().ok_or("it is closed")?.recv()?.take();
        Ok::<(u64, Reply<u64>), Box<dyn Error>>((note.0.wrapping_mul(2), reply))
    };
    answer("open")?;
    let mut parked = Vec::new();
    while let Some((word, [first, second])) = order()? {
        match word.as_str() {
            "park" => {
                while parked.len() < first as usize {
                    parked.push(received(&receiver)?);
                }
                answer("parked")?;
            }
            "give" => {
                parked.drain(..).rev().for_each(|(number, reply)| reply.give(number));
                answer("given")?;
            }
            "drop" => {
                parked.clear();
                answer("dropped")?;
            }
            "serve" => {
                answer("serves")?;
                let receiver = receiver.clone().ok_or("it is closed")?;
                let entries = kernel_entries(first, move || {
                    for _ in 0..second {
                        let (note, reply) = receiver.recv().expect("there are messages").take();
                        reply.give(note.0.wrapping_mul(2));
                    }
                });
                answer(&entries)?;
            }
            "close" => {
                receiver = None;
                answer("closed")?;
            }
            other => return Err(format!("no order {other}").into()),
        }
    }
    Ok(())
}
