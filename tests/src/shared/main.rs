//! A member of a region that tests stop, kill and lie with.
//!
//! `underpass-test-shared NAME ROLE` imports the region `NAME` of `Commons`, or exports it:
//!
//! * `export`: exports it, says so, and waits for the end of its input.
//! * `count N M`: counts the pair up N times from each of M user-level and M kernel threads.
//! * `hold`: takes the pair's lock, changes half of the pair, says so, waits for the end of its
//!   input, changes the other half and ends.
//! * `panic`: does so, and panics instead of waiting.
//! * `answer N`: N times waits until the turn is odd, and makes it even.
//! * `permits N`: takes N permits, says so, and waits for the end of its input.
//! * `meet N`: meets another thread N times at the barrier.
//! * `read`, `write`: takes the table, says so, and waits for the end of its input.
//! * `wait`: says so, waits for the pair's lock, says so, and waits for the end of its input.
//! * `live SEED`: uses everything without end, and says when it begins.
//! * `spoil SEED N`: writes N numbers anywhere into the region, and says when it begins and ends.
//! * `alone`: exports it on one processor. Lets a thread wait for a lock while another one runs.
//!
//! With `$UNDERPASS_TEST_CPU` it uses that CPU only.

mod raw;

use std::error::Error;
use std::io::{Read, stdin};
use std::time::Duration;
use underpass::shared::{LockError, Region, SyncError};
use underpass::thread;
use underpass_tests::{Commons, Numbers, Pair, repair};

/// How long to wait for the exporter.
const SOON: Duration = Duration::from_secs(60);
/// Shorter than a wait that would fail a test.
const SHORT: Duration = Duration::from_millis(2);

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Done {
    // A member must not outlive its test.
    underpass_os::process::die_with_parent()?;
    if let Ok(cpu) = std::env::var("UNDERPASS_TEST_CPU") {
        underpass_os::cpu::confine(&[cpu.parse()?])?;
    }
    let mut arguments = std::env::args().skip(1);
    let (name, role) = (arguments.next().ok_or("no name")?, arguments.next().ok_or("no role")?);
    let mut number = || arguments.next().ok_or("no number");
    match role.as_str() {
        "export" => {
            let region = Region::<Commons>::export(&name, |commons| commons.permits.add_permits(2))?;
            say("exported");
            until_told()?;
            drop(region);
            return Ok(());
        }
        "alone" => return alone(&name),
        _ => {}
    }
    let commons = Region::<Commons>::import_within(&name, SOON)?;
    match role.as_str() {
        "count" => count(&commons, number()?.parse()?, number()?.parse()?),
        "hold" | "panic" => hold(&commons, role == "panic"),
        "answer" => answer(&commons, number()?.parse()?),
        "permits" => {
            let permits = (0..number()?.parse()?).map(|_| commons.permits.acquire());
            let permits = permits.collect::<Result<Vec<_>, _>>()?;
            say("holds");
            until_told()?;
            drop(permits);
            Ok(())
        }
        "meet" => Ok((0..number()?.parse()?).try_for_each(|_| commons.barrier.wait().map(drop))?),
        "read" => {
            let table = commons.table.read()?;
            say("reads");
            until_told()?;
            drop(table);
            Ok(())
        }
        "write" => {
            let table = commons.table.write().map_err(|e| e.to_string())?;
            say("writes");
            until_told()?;
            drop(table);
            Ok(())
        }
        "wait" => {
            say("waits");
            let pair = repair(commons.pair.lock())?;
            say("holds");
            until_told()?;
            drop(pair);
            Ok(())
        }
        "live" => live(&commons, &mut Numbers::of(number()?.parse()?)),
        "spoil" => {
            let mut numbers = Numbers::of(number()?.parse()?);
            say("spoils");
            raw::spoil(&commons, &mut numbers, number()?.parse()?)?;
            say("has spoilt");
            until_told()
        }
        _ => Err("no such role".into()),
    }
}

fn say(what: &str) {
    println!("{what}");
}

fn until_told() -> Done {
    stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn count_up(commons: &Region<Commons>) -> Result<(), SyncError> {
    let mut pair = repair(commons.pair.lock())?;
    let Pair { a, b } = pair.get()?;
    pair.set(Pair { a: a + 1, b });
    pair.set(Pair { a: a + 1, b: b + 1 });
    Ok(())
}

fn count(commons: &Region<Commons>, times: u64, threads: usize) -> Done {
    let work = || {
        let commons = commons.clone();
        move || (0..times).try_for_each(|_| count_up(&commons))
    };
    let user: Vec<_> = (0..threads).map(|_| thread::spawn(work())).collect();
    let kernel: Vec<_> = (0..threads).map(|_| std::thread::spawn(work())).collect();
    for thread in user {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    for thread in kernel {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    Ok(())
}

fn hold(commons: &Region<Commons>, panics: bool) -> Done {
    let mut pair = repair(commons.pair.lock())?;
    let Pair { a, b } = pair.get()?;
    pair.set(Pair { a: a + 1, b });
    say("holds");
    if panics {
        let paniced = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _pair = pair;
            std::panic::resume_unwind(Box::new("on purpose"));
        }));
        assert!(paniced.is_err());
        say("has panicked");
        return until_told();
    }
    until_told()?;
    pair.set(Pair { a: a + 1, b: a + 1 });
    Ok(())
}

fn answer(commons: &Region<Commons>, times: u64) -> Done {
    for _ in 0..times {
        let turn = commons.turn.lock().map_err(|e| e.to_string())?;
        let turn = commons.changed.wait_while(turn, |turn| turn.is_multiple_of(2));
        turn.map_err(|e| e.to_string())?.update(|turn| *turn += 1)?;
        commons.changed.notify_all();
    }
    Ok(())
}

/// One thing that a member does. What can't be had within a deadline is left.
fn step(commons: &Region<Commons>, what: usize) -> Result<(), SyncError> {
    match what {
        0..5 => return count_up(commons),
        5 => commons.changed.notify_all(),
        6 => drop(commons.permits.acquire_for(SHORT)),
        7 => drop(commons.table.read_for(SHORT)),
        8 => match commons.table.write_for(SHORT) {
            Ok(mut table) => table.update(|table| *table = table.map(|number| number.wrapping_add(1)))?,
            Err(LockError::OwnerDied(mut broken)) => {
                broken.set([0; 8]);
                drop(broken.repaired());
            }
            Err(LockError::Failed(_)) => {}
        },
        _ => {
            let turn = match commons.turn.lock_for(SHORT) {
                Ok(turn) => turn,
                Err(LockError::OwnerDied(broken)) => broken.repaired(),
                Err(LockError::Failed(_)) => return Ok(()),
            };
            drop(commons.changed.wait_for(turn, SHORT));
        }
    }
    Ok(())
}

fn live(commons: &Region<Commons>, numbers: &mut Numbers) -> Done {
    count_up(commons)?;
    say("lives");
    let also = [numbers.draw(), numbers.draw()].map(|seed| {
        let commons = commons.clone();
        let mut numbers = Numbers::of(seed);
        thread::spawn(move || -> Result<(), SyncError> {
            loop {
                step(&commons, numbers.below(10))?;
            }
        })
    });
    while also.iter().all(|thread| !thread.is_finished()) {
        step(commons, numbers.below(10))?;
    }
    Err("a thread has ended".into())
}

/// A user-level thread waits for the lock that this kernel thread holds, and another one runs on
/// the only processor meanwhile.
fn alone(name: &str) -> Done {
    let commons = Region::<Commons>::export(name, |_| ())?;
    let held = repair(commons.pair.lock())?;
    let theirs = commons.clone();
    let waits = thread::spawn(move || count_up(&theirs));
    let runs = thread::spawn(|| (0..1_000).for_each(|_| thread::yield_now()));
    runs.join().map_err(|_| "a thread panicked")?;
    drop(held);
    waits.join().map_err(|_| "a thread panicked")??;
    say("both ran");
    Ok(())
}
