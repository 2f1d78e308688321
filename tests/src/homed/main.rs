//! A home of an object, or a reader of one, that tests stop and kill. It takes orders from its
//! standard input, one a line, and answers each with a line.
//!
//! `underpass-test-homed NAME home` makes an object of `Sheet` and exports it. It says `home`.
//! Orders:
//!
//! * `publish N`: publishes N versions, and answers with the number of the last.
//! * `churn`: publishes without end.
//! * `halt`: ends that, and answers with the number of the last version.
//! * `spoil SEED N`: writes N numbers anywhere into the object's memory. It answers when it begins,
//!   and when it has ended.
//!
//! `underpass-test-homed NAME reader` imports it. It says `reader`. Orders:
//!
//! * `access`: answers `version N`, `died N`, or the error.
//! * `whole N`: N times copies a version, and checks that it is whole and no older than the last.
//! * `fork`: answers what a forked child gets.
//! * `mute N`: copies N versions, and may do nothing else but write to its output meanwhile. It
//!   answers with the number of the last version, or `refused` if the system does not restrict it.
//!   Then it ends.
//!
//! `underpass-test-homed NAME urgent` is a home that adds at interrupt level. It says `urgent`.
//! Orders:
//!
//! * `mask`, `unmask`: begins and ends a critical section.
//! * `handled`: how many handlers have run.
//! * `spoil SEED N`: writes N numbers anywhere into the request area of its requester. It answers
//!   when it begins, and when it has ended.
//!
//! `urgent-held` is such a home that takes no interrupts in a critical section.
//!
//! `underpass-test-homed NAME requester` invokes it. It says `requester`. Orders:
//!
//! * `add N`: adds 1 N times.
//! * `lie SEED N`: N times writes anything into its request area, and rings.
//!
//! `underpass-test-homed NAME locked` is a home of a pair of numbers under a hybrid lock, and of
//! two permits. It says `locked`. `underpass-test-homed NAME remote` imports both. It says
//! `remote`. Orders of both:
//!
//! * `hold`: takes the lock, and changes one number of the pair.
//! * `go`: changes the other one, and releases it.
//! * `panic`: panics with the lock, in the middle of a change.
//! * `count N`: counts the pair up N times.
//! * `permits N`: takes N permits, and keeps them.
//! * `spoil SEED N`: writes N numbers anywhere into the pair's memory and the permits'. It answers
//!   when it begins, and when it has ended.
//!
//! `underpass-test-homed NAME board` is the home of a `Tableau`. Its operations run in each way.
//! It says `board`. Orders:
//!
//! * `version`: the number of the newest version.
//! * `revoke`: takes all rights away.
//!
//! `underpass-test-homed NAME client` imports it. It says `client`. Orders:
//!
//! * `work N`: N times changes it at both levels, and reads it.
//! * `sum`: answers the sum of its rows, or the error.
//! * `fork`: answers whether a forked child is refused.

mod locked;
mod operated;
mod raw;
mod urgent;

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use underpass::Server;
use underpass::homed::invoke::MaskedInterrupts;
use underpass::homed::{HomedError, HomedObject, ObjectHome, ObjectVersion};
use underpass::thread;
use underpass_tests::{Numbers, Sheet};

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// How long to wait for a home.
const SOON: Duration = Duration::from_secs(60);

fn main() -> Done {
    // It must not outlive its test.
    underpass_os::process::die_with_parent()?;
    let mut arguments = std::env::args().skip(1);
    let (name, role) = (arguments.next().ok_or("no name")?, arguments.next().ok_or("no role")?);
    match role.as_str() {
        "home" => home(&name),
        "reader" => reader(&name),
        "urgent" => urgent::home(&name, "urgent", MaskedInterrupts::Queued),
        "urgent-held" => urgent::home(&name, "urgent-held", MaskedInterrupts::Held),
        "locked" => locked::home(&name),
        "remote" => locked::remote(&name),
        "requester" => urgent::requester(&name),
        "board" => operated::home(&name),
        "client" => operated::client(&name),
        _ => Err("no such role".into()),
    }
}

fn say(what: impl std::fmt::Display) -> Done {
    let mut out = stdout().lock();
    writeln!(out, "{what}")?;
    Ok(out.flush()?)
}

fn home(name: &str) -> Done {
    let (service, home) = ObjectHome::new(Sheet::of(1))?;
    let running = Server::new().export(name, service).start()?;
    say("home")?;
    let halted = Arc::new(AtomicBool::new(false));
    let mut churning = None;
    for order in stdin().lock().lines() {
        let order = order?;
        let mut words = order.split(' ');
        let (what, mut number) = (words.next(), || words.next().ok_or("no number"));
        match what {
            Some("publish") => {
                let times: u64 = number()?.parse()?;
                (0..times).try_for_each(|_| home.update(Sheet::turn).map(drop))?;
                say(home.newest_version()?.1)?;
            }
            Some("churn") => {
                let (home, halted) = (home.clone(), halted.clone());
                churning = Some(thread::spawn(move || {
                    // Relaxed: the thread is joined.
                    while !halted.load(Ordering::Relaxed) {
                        home.update(Sheet::turn).expect("this is no child");
                    }
                }));
                say("churns")?;
            }
            Some("halt") => {
                halted.store(true, Ordering::Relaxed);
                churning.take().ok_or("nothing churns")?.join().map_err(|_| "a thread panicked")?;
                halted.store(false, Ordering::Relaxed);
                say(home.newest_version()?.1)?;
            }
            Some("spoil") => {
                let (mut numbers, times) = (Numbers::of(number()?.parse()?), number()?.parse()?);
                say("spoils")?;
                raw::spoil(&mut numbers, times)?;
                say("has spoilt")?;
            }
            _ => return Err("no such order".into()),
        }
    }
    drop(running);
    Ok(())
}

fn told(found: Result<ObjectVersion<Sheet>, HomedError<Sheet>>) -> String {
    let whole = |version: &ObjectVersion<Sheet>| {
        assert_eq!(version.value, Sheet::of(version.number()));
        version.number()
    };
    match found {
        Ok(version) => format!("version {}", whole(&version)),
        Err(HomedError::HomeDied(last)) => format!("died {}", whole(&last)),
        Err(e) => format!("{e:?}"),
    }
}

fn reader(name: &str) -> Done {
    let object = HomedObject::<Sheet>::import_within(name, SOON)?;
    say("reader")?;
    for order in stdin().lock().lines() {
        let order = order?;
        let mut words = order.split(' ');
        let (what, mut number) = (words.next(), || words.next().ok_or("no number"));
        match what {
            Some("access") => say(told(object.access()))?,
            Some("whole") => say(whole(&object, number()?.parse()?))?,
            Some("fork") => say(raw::in_child(|| matches!(object.access(), Err(HomedError::Forked)))?)?,
            Some("mute") => raw::mute(|| {
                let mut last = 0;
                for _ in 0..number().ok()?.parse::<u64>().ok()? {
                    last = object.access().ok()?.number();
                }
                Some(last)
            })?,
            _ => return Err("no such order".into()),
        }
    }
    Ok(())
}

/// The number of the last version.
fn whole(object: &HomedObject<Sheet>, times: u64) -> u64 {
    let mut last = 0;
    for _ in 0..times {
        match object.access() {
            Ok(version) => {
                assert_eq!(version.value, Sheet::of(version.number()));
                assert!(version.number() >= last, "{} came after {last}", version.number());
                last = version.number();
            }
            // The system may keep this thread from its processor in the middle of each copy.
            Err(HomedError::Overtaken) => {}
            Err(e) => panic!("{e}"),
        }
    }
    last
}
