//! Homes and remotes that write anything into all that they share. The others do not crash, do not
//! read elsewhere, and are not held beyond a deadline.
//!
//! `homed_objects.rs` has such a home of versions, and `homed_invoke.rs` such a requester.

use std::process::Command;
use std::time::Duration;
use underpass::homed::invoke::{HomeInvoker, InvocationHandlers, InvokeError};
use underpass::homed::lock::{
    HomedSemaphore, HybridFailure, HybridHome, HybridLockError, HybridLockResult, HybridObject,
};
use underpass::{Server, thread};
use underpass_tests::{ADD, ObedientProcess, Pair, Room, Watchdog, long, permits_of};

const PROCESS: &str = env!("CARGO_BIN_EXE_underpass-test-homed");
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3_600);
const SHORT: Duration = Duration::from_millis(1);

fn start(name: &str, role: &str) -> ObedientProcess {
    Room::directory();
    ObedientProcess::start_on(Command::new(PROCESS).args([name, role]), None, role)
}

/// A million with `UNDERPASS_TEST_LONG=1`, otherwise as many as take some seconds.
fn mutations() -> u32 {
    if long() { 1_000_000 } else { 50_000 }
}

fn watchdog(name: &'static str) -> Watchdog {
    Watchdog::within(name, Duration::from_secs(if long() { 3600 } else { 120 }))
}

/// Takes a lock, and uses the data. Whatever they are, it ends.
fn use_lock(locked: HybridLockResult<'_, Pair>) {
    match locked {
        Ok(mut guard) => drop(guard.update(|pair| pair.a = pair.a.wrapping_add(1))),
        Err(HybridLockError::OwnerDied(broken)) => drop(broken.repaired()),
        Err(HybridLockError::Failed(
            HybridFailure::TimedOut | HybridFailure::WouldBlock | HybridFailure::Poisoned,
        )) => {}
        Err(HybridLockError::Failed(HybridFailure::HomeDied)) => {}
        Err(e) => panic!("{e}"),
    }
}

fn use_permits(permits: &HomedSemaphore) {
    let _ = permits.acquire(SHORT);
    let _ = permits.try_acquire();
    assert!(permits.available() <= 2);
}

fn use_remote(pair: &HybridObject<Pair>, permits: &HomedSemaphore) {
    use_lock(pair.lock(SHORT));
    use_lock(pair.try_lock());
    use_permits(permits);
}

#[test]
fn a_remote_that_writes_anything_spoils_nothing_but_what_it_may_write() {
    let _watchdog = watchdog("a_remote_that_writes_anything_spoils_nothing_but_what_it_may_write");
    for round in 0..4 {
        let name = Room::name(&format!("hybrid-hostile-{round}"));
        Room::directory();
        let handlers = InvocationHandlers::new();
        let (pairs, pair) = HybridHome::new(Pair::default(), &handlers).unwrap();
        let (semaphores, permits) = HomedSemaphore::new(2).unwrap();
        let handled = pair.clone();
        let (services, _home) = handlers
            .on(ADD, move |operands| {
                use_lock(handled.lock(Duration::from_micros(100)));
                operands
            })
            .start();
        let server = Server::new().export(&name, pairs).export(permits_of(&name), semaphores);
        let add = format!("{name}-add");
        let _running = services.export(server, &add).start().unwrap();
        let mut hostile = start(&name, "remote");
        let remote = HybridObject::<Pair>::import(&name).unwrap();
        let theirs = HomedSemaphore::import(&permits_of(&name)).unwrap();
        let invoker = HomeInvoker::connect(&add).unwrap();
        assert_eq!(hostile.ask(&format!("spoil {round} {}", mutations())), "spoils");
        let (at_home, elsewhere) = (
            thread::spawn(move || {
                (0..50).for_each(|_| {
                    use_lock(pair.lock(SHORT));
                    use_lock(pair.try_lock());
                    use_permits(&permits);
                });
            }),
            thread::spawn(move || {
                (0..50).for_each(|_| use_remote(&remote, &theirs));
                (remote, theirs)
            }),
        );
        // Handlers go on, whatever becomes of the lock.
        (0..50).for_each(|n| assert_eq!(invoker.invoke(ADD, [n; 6], LONG), Ok([n; 6])));
        at_home.join().unwrap();
        let (remote, theirs) = elsewhere.join().unwrap();
        assert_eq!(hostile.hear(), "has spoilt");
        hostile.kill();
        // After its death as well.
        use_remote(&remote, &theirs);
    }
}

#[test]
fn a_home_that_writes_anything_into_locked_objects_harms_no_remote() {
    let _watchdog = watchdog("a_home_that_writes_anything_into_locked_objects_harms_no_remote");
    for round in 0..4 {
        let name = Room::name(&format!("hybrid-hostile-home-{round}"));
        let mut home = start(&name, "locked");
        let pair = HybridObject::<Pair>::import(&name).unwrap();
        let permits = HomedSemaphore::import(&permits_of(&name)).unwrap();
        assert_eq!(home.ask(&format!("spoil {round} {}", mutations())), "spoils");
        let works = || {
            let (pair, permits) = (pair.clone(), permits.clone());
            move || (0..100).for_each(|_| use_remote(&pair, &permits))
        };
        let (user, kernel) = (thread::spawn(works()), std::thread::spawn(works()));
        user.join().unwrap();
        kernel.join().unwrap();
        assert_eq!(home.hear(), "has spoilt");
        home.kill();
        // After its death as well.
        works()();
    }
}

#[test]
fn a_home_that_writes_anything_into_requests_harms_no_requester() {
    let _watchdog = watchdog("a_home_that_writes_anything_into_requests_harms_no_requester");
    let honest = Room::name("urgent-honest");
    let _honest = start(&honest, "urgent");
    let elsewhere = HomeInvoker::connect(&honest).unwrap();
    for round in 0..4 {
        let name = Room::name(&format!("urgent-hostile-{round}"));
        let mut home = start(&name, "urgent");
        let invoker = HomeInvoker::connect(&name).unwrap();
        assert_eq!(home.ask(&format!("spoil {round} {}", mutations())), "spoils");
        let works = || {
            let (invoker, elsewhere) = (invoker.clone(), elsewhere.clone());
            move || {
                (0..100).for_each(|number| {
                    match invoker.invoke(ADD, [number; 6], SHORT) {
                        Ok(_)
                        | Err(InvokeError::Deadline | InvokeError::NoSuchOperation | InvokeError::Panicked) =>
                            {}
                        Err(InvokeError::HomeDied) => {}
                        Err(e) => panic!("{e}"),
                    }
                    if number % 10 == 0 {
                        assert_eq!(elsewhere.invoke(ADD, [number; 6], LONG).unwrap()[1], number);
                    }
                })
            }
        };
        let (user, kernel) = (thread::spawn(works()), std::thread::spawn(works()));
        user.join().unwrap();
        kernel.join().unwrap();
        assert_eq!(home.hear(), "has spoilt");
        home.kill();
        works()();
    }
}
