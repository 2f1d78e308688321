//! Servers die. Their client is told the truth about each call, and keeps nothing of the dead
//! servers.

use crate::NAME;
use crate::account::Account;
use crate::calls::call;
use crate::doomed::{Deaths, MOST_TIMES, When};
use crate::marks::{Mark, Marks};
use crate::witness::WitnessClient;
use std::error::Error;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use underpass::{CallError, ImportError, Outcome, thread};
use underpass_tests::{Numbers, Room, ServerProcess, Watchdog, until};

/// The most calls of one caller. Each caller has that many call numbers, and one for the call after
/// the last.
const MOST: u64 = 300;
/// How long an import waits before it checks whether the server still lives.
const GLANCE: Duration = Duration::from_millis(20);
/// Channels that a domain polls from their beginning. The others are dormant. The client rings for
/// the first call over each of them (decision 0019).
const ACTIVE: usize = 127;
/// Dormant channels of a caller: a server is rung for as often as it may be told to die at a ring.
const DORMANT: usize = MOST_TIMES;
/// The steps that a server passes.
const SIDES: [&str; 4] = ["export", "greet", "server", "file"];

/// The results of one caller.
struct Told {
    /// The number of its first call.
    first: u64,
    /// The number of calls that succeeded.
    well: u64,
    /// The errors of the next call and of the one after it.
    errors: Option<(CallError, CallError)>,
}

/// Callers on user-level threads, and on kernel threads.
const SEVERAL: (u64, u64) = (3, 1);

/// Lets servers die for `rounds`.
pub fn die(seed: u64, rounds: usize) -> Result<(), Box<dyn Error>> {
    let path = Room::directory().join("marks");
    let marks = Marks::create(&path)?;
    let path = path.to_str().ok_or("a path that can't be passed on")?;
    let (mut deaths, mut account, mut unknown) = (Deaths::default(), None, 0);
    for round in 0..rounds {
        if round == rounds / 4 {
            account = Some(Account::now());
        }
        let mut numbers = Numbers::of(seed + round as u64);
        // One caller alone, on a user-level thread or a kernel thread, or several of both kinds.
        // The case that takes the most memory comes first, before memory is counted.
        let (when, callers) = match round {
            0 => (When::at_ring(), SEVERAL),
            _ => (When::choose(&mut numbers, &SIDES), numbers.among(&[(1, 0), (0, 1), SEVERAL])),
        };
        let _watchdog = Watchdog::new("a server's death");
        marks.clear();
        let server = when.start(&["witness", path])?;
        let said = format!("seed {} ({when:?})", seed + round as u64);
        unknown += one(server, when, callers, &marks, &mut numbers, &mut deaths)
            .map_err(|e| format!("{said}: {e}"))?;
    }
    deaths.tell();
    println!("{unknown} calls whose fate nobody can know");
    Ok(account.ok_or("no rounds")?.settled()?)
}

/// The life of one server. Returns the number of calls whose outcome was `Unknown`.
fn one(
    mut server: Child,
    when: When,
    (user, kernel): (u64, u64),
    marks: &Marks,
    numbers: &mut Numbers,
    deaths: &mut Deaths,
) -> Result<usize, Box<dyn Error>> {
    let client = loop {
        match WitnessClient::import_within(NAME, GLANCE) {
            Ok(client) => break Some(client),
            // One that is slow, or dies in the middle of it.
            Err(ImportError::NotExported(_) | ImportError::Dead(_) | ImportError::NoAnswer(..)) => {}
            Err(e) => return Err(format!("an import was told: {e}").into()),
        }
        if server.try_wait()?.is_some() {
            break None;
        }
    };
    // A second binding over the same connection comes and goes. The server may die meanwhile.
    drop(client.as_ref().map(|_| WitnessClient::import_within(NAME, GLANCE)));
    let calls = Arc::new(AtomicUsize::new(0));
    let rings = client.is_some() && when.is_at_ring();
    let _active = import(if rings { ACTIVE } else { 0 })?;
    let callers = (0..user + kernel).filter_map(|number| {
        let (client, calls) = (client.clone()?, calls.clone());
        let clients = if rings { import(DORMANT) } else { Ok(vec![client]) };
        let mut numbers = Numbers::of(numbers.draw());
        Some(
            clients
                .map(|clients| move || call_until_death(&clients, number * (MOST + 2), &mut numbers, &calls)),
        )
    });
    let callers = callers.collect::<Result<Vec<_>, _>>()?;
    drop(client);
    let mut callers = callers.into_iter();
    let user: Vec<_> = callers.by_ref().take(user as usize).map(thread::spawn).collect();
    let kernel: Vec<_> = callers.map(std::thread::spawn).collect();
    if let When::Calls(least) = when {
        until("enough calls", || (calls.load(Ordering::Relaxed) >= least).then_some(()));
        (0..numbers.below(100_000)).for_each(|_| std::hint::spin_loop());
        server.kill()?;
    }
    let user = user.into_iter().map(|caller| caller.join().expect("no panic"));
    let told: Vec<_> =
        user.chain(kernel.into_iter().map(|caller| caller.join().expect("no panic"))).collect();
    let survived = server.try_wait()?.is_none() && told.iter().all(|told| told.errors.is_none());
    // A server that has not reached its step by now dies here.
    server.kill()?;
    deaths.count(when, server.wait()?, survived);
    let alone = told.len() == 1;
    told.iter().map(|told| judge(told, when, alone, marks)).sum()
}

/// Makes `bindings` more bindings.
fn import(bindings: usize) -> Result<Vec<WitnessClient>, ImportError> {
    (0..bindings).map(|_| WitnessClient::import_apart(NAME, ServerProcess::soon())).collect()
}

/// Calls over `clients` in turn, until a call fails or enough have succeeded, and then once more.
fn call_until_death(
    clients: &[WitnessClient],
    first: u64,
    numbers: &mut Numbers,
    calls: &AtomicUsize,
) -> Told {
    for (well, client) in (0..MOST).zip(clients.iter().cycle()) {
        match call(client, first + well, numbers) {
            Ok(right) => assert!(right, "the result of another call"),
            Err(e) => {
                // So that a thread that waits for the number of calls does not wait for ever.
                calls.fetch_add(MOST as usize, Ordering::Relaxed);
                let again = call(client, first + well + 1, numbers).expect_err("its server is dead");
                return Told { first, well, errors: Some((e, again)) };
            }
        }
        calls.fetch_add(1, Ordering::Relaxed);
    }
    calls.fetch_add(MOST as usize, Ordering::Relaxed);
    Told { first, well: MOST, errors: None }
}

/// Checks that a caller was told the truth. Returns the number of calls whose outcome was
/// `Unknown`.
fn judge(told: &Told, when: When, alone: bool, marks: &Marks) -> Result<usize, Box<dyn Error>> {
    for id in told.first..told.first + told.well {
        if marks.of(id) != Mark::Ended {
            return Err(format!("call {id} has a result, and its mark says {:?}", marks.of(id)).into());
        }
    }
    let Some((error, again)) = &told.errors else { return Ok(0) };
    let id = told.first + told.well;
    let (mark, after) = (marks.of(id), marks.of(id + 1));
    let wrong =
        |what: &str| Err(format!("{what}: call {id} was told {error:?}, its mark says {mark:?}").into());
    let CallError::PeerDied(outcome) = error else { return wrong("another error than death") };
    match outcome {
        Outcome::NotStarted if mark != Mark::Nothing => return wrong("it was started"),
        Outcome::Executed if mark != Mark::Ended => return wrong("it was not executed"),
        // A reply that the server posted before it died counts.
        Outcome::Unknown if alone && when.is_after_reply() && mark != Mark::Nothing => {
            return wrong("its reply was on its way");
        }
        _ => {}
    }
    if *again != CallError::PeerDied(Outcome::NotStarted) || after != Mark::Nothing {
        return Err(
            format!("after {error:?} the next call was told {again:?}, its mark says {after:?}").into()
        );
    }
    Ok(usize::from(*outcome == Outcome::Unknown))
}
