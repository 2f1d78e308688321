//! Ports, signals, streams and objects with a home between two domains, of which one is killed or
//! stopped again and again, at a step or a moment that a seed chooses.
//!
//! Each process notes what it has done, in a journal that outlives it. The survivor compares that
//! with what it was told: the order of each sender, that nothing comes twice, that what was posted
//! is delivered, and that what comes back was not received. While a process is stopped, other ports
//! and streams go on.

mod homed;
mod journal;
mod messages;
mod others;
mod requests;
mod rows;
mod signals;
mod victim;

use crate::account::Account;
use journal::Journals;
use others::Others;
use std::error::Error;
use std::time::Duration;
use underpass_tests::{Numbers, Room, Watchdog};
use victim::{Ended, Fate, Fates, Shared};

/// The name under which either side exports what the other one imports.
const NAME: &str = "mortal";
/// How many messages a sender has, and how many of them may be under way.
const MESSAGES: u64 = 120;
const CREDITS: usize = 8;
/// How long a survivor waits before it looks whether the other process lives.
const GLANCE: Duration = Duration::from_millis(5);

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The message `number` of a thread, in a round.
fn id(round: u64, thread: u64, number: u64) -> u64 {
    round << 24 | thread << 16 | number
}

/// The round of a message.
fn round_of(id: u64) -> u64 {
    id >> 24
}

/// The thread and the number of a message.
fn parts(id: u64) -> (u64, u64) {
    (id >> 16 & 0xff, id & 0xffff)
}

/// The process that lives on.
trait Survivor {
    /// The steps of the other process begin with one of these.
    fn steps(&self) -> &'static [&'static str];

    /// Talks to the other process, until that is gone or nothing more is wanted of it.
    fn talk(&mut self, round: u64, numbers: &mut Numbers, shared: &Shared) -> Outcome;

    /// Compares what it was told with the journals of the other process, which has `ended`.
    fn judge(&mut self, round: u64, ended: Ended, journals: &Journals) -> Outcome;
}

/// The survivor of `role`, which names the process that dies.
fn survivor(role: &str) -> Outcome<Box<dyn Survivor>> {
    Ok(match role {
        "message-sender" => Box::new(messages::Owner::open()?),
        "message-owner" => Box::new(messages::Sender::default()),
        "request-sender" => Box::new(requests::Owner::open()?),
        "request-owner" => Box::new(requests::Sender::default()),
        "signal-sender" => Box::new(signals::Receiver::open()?),
        "signal-receiver" => Box::new(signals::Sender::default()),
        "row-server" => Box::new(rows::Client::default()),
        "row-client" => Box::new(rows::Serves::open()?),
        "homed-remote" => Box::new(homed::Homes::open()?),
        "homed-home" => Box::new(homed::Remotes::default()),
        other => return Err(format!("no role {other}").into()),
    })
}

/// Lets processes of `role` die for `rounds`.
pub fn die(role: &str, seed: u64, rounds: usize) -> Outcome {
    let path = Room::directory().join("journal");
    let path = path.to_str().ok_or("a path that can't be passed on")?;
    let (journals, others) = (Journals::open(path)?, Others::open()?);
    let (mut survivor, mut fates, mut account) = (survivor(role)?, Fates::default(), None);
    for round in 0..rounds as u64 {
        let _watchdog = Watchdog::new("a death at a port");
        if round == rounds as u64 / 4 {
            account = Some(Account::now());
        }
        let seed = seed + round;
        let mut numbers = Numbers::of(seed);
        journals.clear();
        let fate = Fate::choose(&mut numbers, survivor.steps());
        let victim = fate.start(&["mortal", role, path, &seed.to_string(), &round.to_string()])?;
        let shared = Shared::default();
        let (told, ended) = std::thread::scope(|scope| {
            let watch = scope.spawn(|| victim.watch(&shared, &journals, &others, &mut fates));
            let told = survivor.talk(round, &mut numbers, &shared);
            shared.done();
            (told, watch.join().expect("it doesn't panic"))
        });
        told.and_then(|()| survivor.judge(round, ended?, &journals))
            .map_err(|e| format!("seed {seed} ({fate:?}): {e}"))?;
    }
    fates.tell();
    Ok(account.ok_or("no rounds")?.settled()?)
}

/// The process of `role` that dies.
pub fn live(role: &str, path: &str, seed: u64, round: u64) -> Outcome {
    let (journals, mut numbers) = (Journals::open(path)?, Numbers::of(!seed));
    match role {
        "message-sender" => messages::send(journals, &mut numbers, round),
        "message-owner" => messages::own(journals, &mut numbers),
        "request-sender" => requests::send(&journals, round),
        "request-owner" => requests::own(journals, &mut numbers),
        "signal-sender" => signals::send(&journals, round),
        "signal-receiver" => signals::receive(journals),
        "row-server" => rows::serve(journals),
        "row-client" => rows::call(&journals, &mut numbers, round),
        "homed-remote" => homed::reach(journals, &mut numbers, round),
        "homed-home" => homed::own(journals, &mut numbers),
        other => Err(format!("no role {other}").into()),
    }
}

/// Checks that `ids` are the first messages of each thread, in order, and returns how many there
/// are of each.
fn in_order(ids: impl IntoIterator<Item = u64>) -> Outcome<[u64; 4]> {
    let mut next = [0; 4];
    for id in ids {
        let (thread, number) = parts(id);
        let next = next.get_mut(thread as usize).ok_or("a thread that there is not")?;
        if number != *next {
            return Err(format!("message {number} of thread {thread} in place of {next}").into());
        }
        *next += 1;
    }
    Ok(next)
}

/// An error with this text, unless `holds`.
fn holds(holds: bool, why: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(why().into()) }
}
