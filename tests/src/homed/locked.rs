//! Data under a hybrid lock, and permits: their home, and a remote.

use crate::raw;
use crate::{Done, SOON, say};
use std::io::{BufRead, stdin};
use std::time::Duration;
use underpass::homed::invoke::InvocationHandlers;
use underpass::homed::lock::{HomedSemaphore, HybridHoldResult, HybridHome, HybridLockResult, HybridObject};
use underpass::{Server, thread};
use underpass_tests::{ADD, Numbers, Pair, count_pair_up, permits_of};

/// Either side of the lock.
#[derive(Clone)]
enum Side {
    Home(HybridHome<Pair>),
    Remote(HybridObject<Pair>),
}

impl Side {
    fn lock(&self, within: Duration) -> HybridLockResult<'_, Pair> {
        match self {
            Self::Home(home) => home.lock(within),
            Self::Remote(remote) => remote.lock(within),
        }
    }

    fn acquire(&self, within: Duration) -> HybridHoldResult<'_, Pair> {
        match self {
            Self::Home(home) => home.acquire(within),
            Self::Remote(remote) => remote.acquire(within),
        }
    }
}

pub fn home(name: &str) -> Done {
    let handlers = InvocationHandlers::new();
    let (pairs, pair) = HybridHome::new(Pair::default(), &handlers)?;
    let (semaphores, permits) = HomedSemaphore::new(2)?;
    let handled = pair.clone();
    let (services, interrupts) = handlers
        .on(ADD, move |operands| {
            let counted = count_pair_up(handled.lock(SOON));
            [counted.is_ok().into(), operands[0], 0, 0, 0, 0]
        })
        .start();
    let server = Server::new().export(name, pairs).export(permits_of(name), semaphores);
    let running = services.export(server, &format!("{name}-add")).start()?;
    say("locked")?;
    obey(&Side::Home(pair), &permits)?;
    drop((running, interrupts));
    Ok(())
}

pub fn remote(name: &str) -> Done {
    let pair = HybridObject::import_within(name, SOON)?;
    let permits = HomedSemaphore::import_within(&permits_of(name), SOON)?;
    say("remote")?;
    obey(&Side::Remote(pair), &permits)
}

fn obey(side: &Side, permits: &HomedSemaphore) -> Done {
    let (mut held, mut kept) = (None, Vec::new());
    for order in stdin().lock().lines() {
        let order = order?;
        let mut words = order.split(' ');
        let (what, mut number) = (words.next(), || words.next().ok_or("no number"));
        match what {
            Some("hold") => {
                let mut hold = side.acquire(SOON).map_err(|e| e.to_string())?;
                hold.update(|pair| pair.a += 1)?;
                held = Some(hold);
                say("holds")?;
            }
            Some("go") => {
                let mut hold = held.take().ok_or("nothing is held")?;
                hold.update(|pair| pair.b = pair.a)?;
                hold.release();
                say("gone")?;
            }
            Some("panic") => {
                let side = side.clone();
                let panicked = thread::spawn(move || {
                    let mut guard = side.lock(SOON).map_err(|e| e.to_string()).expect("it is whole");
                    guard.update(|pair| pair.a += 1).expect("it is a pair");
                    std::panic::resume_unwind(Box::new("on purpose"));
                });
                assert!(panicked.join().is_err());
                say("has panicked")?;
            }
            Some("count") => {
                let times: u64 = number()?.parse()?;
                let work = || {
                    let side = side.clone();
                    move || (0..times).try_for_each(|_| count_pair_up(side.lock(SOON)))
                };
                let (user, kernel) = (thread::spawn(work()), std::thread::spawn(work()));
                user.join().map_err(|_| "a thread panicked")??;
                kernel.join().map_err(|_| "a thread panicked")??;
                say("counted")?;
            }
            Some("permits") => {
                for _ in 0..number()?.parse()? {
                    kept.push(permits.acquire(SOON)?);
                }
                say("has them")?;
            }
            Some("spoil") => {
                let (mut numbers, times) = (Numbers::of(number()?.parse()?), number()?.parse()?);
                say("spoils")?;
                raw::spoil_locked(&mut numbers, times)?;
                say("has spoilt")?;
            }
            _ => return Err("no such order".into()),
        }
    }
    Ok(())
}
