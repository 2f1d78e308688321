//! Data of a home that other domains write under a hybrid lock: nobody is let in twice, nobody is
//! held beyond a deadline, and the rules of mixing hold.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use underpass::homed::ObjectImportError;
use underpass::homed::invoke::{
    HomeInvoker, InvocationHandlers, InvocationHome, InvokeError, ProcessInvoker,
};
use underpass::homed::lock::{HomedSemaphore, HybridFailure, HybridHome, HybridLockError, HybridObject};
use underpass::{Running, Server, thread};
use underpass_tests::{
    ADD, ObedientProcess, Pair, Room, Watchdog, cont, count_pair_up, permits_of, repaired, stop, until,
};

const PROCESS: &str = env!("CARGO_BIN_EXE_underpass-test-homed");
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3_600);
const SHORT: Duration = Duration::from_millis(1);

fn start(name: &str, role: &str) -> ObedientProcess {
    Room::directory();
    ObedientProcess::start_on(Command::new(PROCESS).args([name, role]), None, role)
}

/// A home in this process. Its handler counts the pair up.
struct Here {
    name: String,
    pair: HybridHome<Pair>,
    permits: HomedSemaphore,
    interrupts: InvocationHome,
    running: Running,
}

fn here(of: &str) -> Here {
    let name = Room::name(of);
    Room::directory();
    let handlers = InvocationHandlers::new();
    let (pairs, pair) = HybridHome::new(Pair::default(), &handlers).unwrap();
    let (semaphores, permits) = HomedSemaphore::new(2).unwrap();
    let handled = pair.clone();
    let (services, interrupts) =
        handlers.on(ADD, move |_| [count_pair_up(handled.lock(LONG)).is_ok().into(); 6]).start();
    let server = Server::new().export(&name, pairs).export(permits_of(&name), semaphores);
    let running = services.export(server, &format!("{name}-add")).start().unwrap();
    Here { name, pair, permits, interrupts, running }
}

fn failure<T>(locked: Result<T, HybridLockError<impl Sized>>) -> Option<HybridFailure> {
    locked.err().and_then(|e| e.failure())
}

#[test]
fn threads_handlers_and_other_domains_exclude_each_other() {
    let _watchdog = Watchdog::new("threads_handlers_and_other_domains_exclude_each_other");
    const TIMES: u64 = 500;
    let here = here("hybrid-all");
    let mut remotes = [start(&here.name, "remote"), start(&here.name, "remote")];
    let invoker = HomeInvoker::connect(&format!("{}-add", here.name)).unwrap();
    remotes.iter_mut().for_each(|remote| remote.begin(&format!("count {TIMES}")));
    let works = || {
        let pair = here.pair.clone();
        move || (0..TIMES).for_each(|_| count_pair_up(pair.lock(LONG)).unwrap())
    };
    let (user, kernel) = (thread::spawn(works()), std::thread::spawn(works()));
    (0..TIMES).for_each(|_| assert_eq!(invoker.invoke(ADD, [0; 6], LONG), Ok([1; 6])));
    user.join().unwrap();
    kernel.join().unwrap();
    remotes.iter_mut().for_each(|remote| assert_eq!(remote.hear(), "counted"));
    // Two threads in each of two remotes, two threads of the home, and one that invokes.
    let all = 7 * TIMES;
    assert_eq!(repaired(here.pair.lock(LONG)).unwrap().get(), Ok(Pair { a: all, b: all }));
}

#[test]
fn the_manual_form_spans_functions_and_need_not_nest() {
    let _watchdog = Watchdog::new("the_manual_form_spans_functions_and_need_not_nest");
    let (first, second) = (here("hybrid-manual-1"), here("hybrid-manual-2"));
    let theirs = [&first, &second].map(|here| HybridObject::<Pair>::import(&here.name).unwrap());
    let [one, two] = &theirs;
    let mut held = one.acquire(LONG).unwrap();
    let also = two.acquire(LONG).unwrap();
    held.set(Pair { a: 3, b: 3 });
    held.release();
    assert_eq!(failure(two.try_lock()), Some(HybridFailure::WouldBlock));
    also.release();
    // At home, a hold masks until it is released.
    let handled = first.interrupts.handled();
    let invoker = HomeInvoker::connect(&format!("{}-add", first.name)).unwrap();
    let hold = first.pair.acquire(LONG).unwrap();
    let waits = std::thread::spawn(move || invoker.invoke(ADD, [0; 6], LONG));
    assert_eq!(first.interrupts.handled(), handled);
    assert_eq!(hold.get(), Ok(Pair { a: 3, b: 3 }));
    hold.release();
    assert_eq!(waits.join().unwrap(), Ok([1; 6]));
}

#[test]
fn the_next_owner_gets_the_data_of_the_dead() {
    let _watchdog = Watchdog::new("the_next_owner_gets_the_data_of_the_dead");
    let here = here("hybrid-dead");
    for round in 1..=5 {
        let mut dying = start(&here.name, "remote");
        assert_eq!(dying.ask("hold"), "holds");
        assert_eq!(failure(here.pair.lock(SHORT)), Some(HybridFailure::TimedOut));
        let theirs = here.pair.clone();
        let waits = thread::spawn(move || match theirs.lock(LONG) {
            Err(HybridLockError::OwnerDied(broken)) => {
                let found = broken.get().unwrap();
                // The next one is told as this one was.
                broken.leave();
                found
            }
            other => panic!("{other:?}"),
        });
        dying.kill();
        assert_eq!(waits.join().unwrap(), Pair { a: round, b: round - 1 });
        let theirs = HybridObject::<Pair>::import(&here.name).unwrap();
        match theirs.acquire(LONG) {
            Err(HybridLockError::OwnerDied(mut hold)) => {
                hold.set(Pair { a: round, b: round });
                hold.release();
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(here.pair.try_lock().is_ok());
}

#[test]
fn a_panic_leaves_the_data_broken_and_a_recovery_that_is_dropped_gives_them_up() {
    let _watchdog = Watchdog::new("a_panic_leaves_the_data_broken");
    let here = here("hybrid-panic");
    let mut remote = start(&here.name, "remote");
    assert_eq!(remote.ask("panic"), "has panicked");
    count_pair_up(here.pair.lock(LONG)).unwrap();
    let theirs = here.pair.clone();
    let panicked = thread::spawn(move || {
        let _guard = theirs.lock(LONG).unwrap();
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(panicked.join().is_err());
    // It has unmasked, too.
    let invoker = HomeInvoker::connect(&format!("{}-add", here.name)).unwrap();
    let broken = match here.pair.lock(LONG) {
        Err(HybridLockError::OwnerDied(broken)) => broken,
        other => panic!("{other:?}"),
    };
    drop(broken);
    assert_eq!(failure(here.pair.lock(LONG)), Some(HybridFailure::Poisoned));
    let there = HybridObject::<Pair>::import(&here.name).unwrap();
    assert_eq!(failure(there.lock(LONG)), Some(HybridFailure::Poisoned));
    assert_eq!(failure(there.try_lock()), Some(HybridFailure::Poisoned));
    assert_eq!(invoker.invoke(ADD, [0; 6], LONG), Ok([0; 6]));
}

#[test]
fn a_stopped_remote_holds_nobody_beyond_the_deadline() {
    let _watchdog = Watchdog::new("a_stopped_remote_holds_nobody_beyond_the_deadline");
    let here = here("hybrid-stopped");
    let mut stopped = start(&here.name, "remote");
    let other = HybridObject::<Pair>::import(&here.name).unwrap();
    assert_eq!(stopped.ask("hold"), "holds");
    stop(stopped.pid());
    for _ in 0..20 {
        assert_eq!(failure(here.pair.lock(SHORT)), Some(HybridFailure::TimedOut));
        assert_eq!(failure(other.lock(SHORT)), Some(HybridFailure::TimedOut));
        assert_eq!(failure(other.try_lock()), Some(HybridFailure::WouldBlock));
    }
    // No section of the home is left.
    drop(HomeInvoker::connect(&format!("{}-add", here.name)).unwrap());
    let waits = {
        let pair = here.pair.clone();
        thread::spawn(move || count_pair_up(pair.lock(LONG)))
    };
    cont(stopped.pid());
    assert_eq!(stopped.ask("go"), "gone");
    assert_eq!(waits.join().unwrap(), Ok(()));
    count_pair_up(other.lock(LONG)).unwrap();
    assert_eq!(repaired(here.pair.lock(LONG)).unwrap().get(), Ok(Pair { a: 3, b: 3 }));
}

#[test]
fn the_homes_death_ends_waits_for_locks_and_permits() {
    let _watchdog = Watchdog::new("the_homes_death_ends_waits_for_locks_and_permits");
    let name = Room::name("hybrid-home-dies");
    let mut home = start(&name, "locked");
    let pair = HybridObject::<Pair>::import(&name).unwrap();
    let permits = HomedSemaphore::import(&permits_of(&name)).unwrap();
    // In this order: with the lock held, it could wait for no permit.
    assert_eq!(home.ask("permits 2"), "has them");
    assert_eq!(home.ask("hold"), "holds");
    assert_eq!(permits.try_acquire().map(drop), Err(HybridFailure::WouldBlock));
    let (theirs, also) = (pair.clone(), permits.clone());
    let waits = thread::spawn(move || failure(theirs.lock(LONG)));
    let also_waits = std::thread::spawn(move || also.acquire(LONG).map(drop));
    home.kill();
    assert_eq!(waits.join().unwrap(), Some(HybridFailure::HomeDied));
    assert_eq!(also_waits.join().unwrap(), Err(HybridFailure::HomeDied));
    assert_eq!(failure(pair.try_lock()), Some(HybridFailure::HomeDied));
    let _home = start(&name, "locked");
    let pair = HybridObject::<Pair>::import(&name).unwrap();
    count_pair_up(pair.lock(LONG)).unwrap();
}

#[test]
fn a_revoked_remote_holds_nothing_any_more() {
    let _watchdog = Watchdog::new("a_revoked_remote_holds_nothing_any_more");
    let here = here("hybrid-revoked");
    let mut remote = start(&here.name, "remote");
    assert_eq!(remote.ask("hold"), "holds");
    assert_eq!(remote.ask("permits 2"), "has them");
    assert!(here.running.bindings().revoke(|_| true) > 0);
    drop(repaired(here.pair.lock(LONG)).unwrap());
    until("the permits", || (here.permits.available() == 2).then_some(()));
    let held = here.pair.lock(LONG).unwrap();
    // Its release takes nobody's lock away. What it writes before is its own fault.
    assert_eq!(remote.ask("go"), "gone");
    let other = HybridObject::<Pair>::import(&here.name).unwrap();
    drop(held);
    drop(other.lock(LONG).unwrap());
}

#[test]
fn permits_are_limited_and_come_back_with_a_death() {
    let _watchdog = Watchdog::new("permits_are_limited_and_come_back_with_a_death");
    let here = here("hybrid-permits");
    let mut remote = start(&here.name, "remote");
    assert_eq!(remote.ask("permits 2"), "has them");
    assert_eq!(here.permits.available(), 0);
    assert_eq!(here.permits.acquire(SHORT).map(drop), Err(HybridFailure::TimedOut));
    let theirs = here.permits.clone();
    let waits = thread::spawn(move || theirs.acquire(LONG).map(drop));
    remote.kill();
    assert_eq!(waits.join().unwrap(), Ok(()));
    until("the permits", || (here.permits.available() == 2).then_some(()));
    assert!(HomedSemaphore::new(65).is_err());
    // Of another type, or in this very process.
    assert!(matches!(HomedSemaphore::import(&here.name), Err(ObjectImportError::OtherType)));
    assert!(matches!(HybridObject::<u8>::import(&here.name), Err(ObjectImportError::OtherType)));
    let own = HomedSemaphore::import(&permits_of(&here.name)).unwrap();
    let permit = own.acquire(LONG).unwrap();
    assert_eq!(here.permits.available(), 1);
    std::mem::forget(permit);
    drop(own);
    assert_eq!(here.permits.available(), 2, "it has left with a permit");
}

#[test]
fn no_lock_of_another_home_is_taken_while_invocations_are_disabled() {
    let _watchdog = Watchdog::new("no_lock_of_another_home_is_taken_while_invocations_are_disabled");
    let (mine, other) = (here("hybrid-rule-mine"), here("hybrid-rule-other"));
    let remote = HybridObject::<Pair>::import(&other.name).unwrap();
    let (one, two) = (mine.interrupts.mask(), mine.pair.lock(LONG).unwrap());
    for _ in 0..2 {
        assert_eq!(failure(remote.lock(LONG)), Some(HybridFailure::Masked));
        assert_eq!(failure(remote.try_lock()), Some(HybridFailure::Masked));
        assert_eq!(other.permits.acquire(LONG).map(drop), Err(HybridFailure::Masked));
        assert!(other.permits.try_acquire().is_ok(), "a look waits for nobody");
    }
    drop(one);
    assert_eq!(failure(remote.lock(LONG)), Some(HybridFailure::Masked), "the lock masks as well");
    // A section of one home does not keep a thread from another home's, which is here, too.
    drop(other.pair.lock(LONG).unwrap());
    drop(two);
    drop(remote.lock(LONG).unwrap());
    drop(other.permits.acquire(LONG).unwrap());
}

#[test]
fn nobody_is_invoked_with_a_lock_or_while_invocations_are_disabled() {
    let _watchdog = Watchdog::new("nobody_is_invoked_with_a_lock_or_while_invocations_are_disabled");
    let here = here("hybrid-rule-invoke");
    let invoker = HomeInvoker::connect(&format!("{}-add", here.name)).unwrap();
    let process = ProcessInvoker::of(invoker.clone());
    let remote = HybridObject::<Pair>::import(&here.name).unwrap();
    let told = |why| {
        assert_eq!(invoker.invoke(ADD, [0; 6], LONG), Err(why));
        assert_eq!(process.client().err(), Some(why));
    };
    let permit = here.permits.acquire(LONG).unwrap();
    let guard = here.pair.lock(LONG).unwrap();
    told(InvokeError::Masked);
    drop(guard);
    let (outer, inner) = (remote.lock(LONG).unwrap(), here.interrupts.mask());
    told(InvokeError::Masked);
    drop(inner);
    told(InvokeError::HoldsLock);
    drop(outer);
    let hold = remote.acquire(LONG).unwrap();
    told(InvokeError::HoldsLock);
    hold.release();
    // A permit hinders nobody.
    assert_eq!(process.client().unwrap().invoke(ADD, [0; 6], LONG), Ok([1; 6]));
    drop(permit);
}

#[test]
fn a_handler_takes_no_lock_of_another_home_and_waits_for_no_permit() {
    let _watchdog = Watchdog::new("a_handler_takes_no_lock_of_another_home_and_waits_for_no_permit");
    let other = here("hybrid-handler-other");
    let name = Room::name("hybrid-handler");
    let (remote, pair) = (HybridObject::<Pair>::import(&other.name).unwrap(), other.pair.clone());
    let permits = other.permits.clone();
    let masked = |failure| u64::from(failure == Some(HybridFailure::Masked));
    let (services, home) = InvocationHandlers::new()
        .on(ADD, move |_| {
            let here = masked(failure(pair.lock(LONG)));
            [here, masked(failure(remote.lock(LONG))), masked(permits.acquire(LONG).err()), 0, 0, 0]
        })
        .start();
    let running = services.export(Server::new(), &name).start().unwrap();
    let invoker = HomeInvoker::connect(&name).unwrap();
    assert_eq!(invoker.invoke(ADD, [0; 6], LONG), Ok([1, 1, 1, 0, 0, 0]));
    drop((running, home));
}

#[test]
fn a_home_that_has_ended_keeps_no_handler() {
    let _watchdog = Watchdog::new("a_home_that_has_ended_keeps_no_handler");
    Room::directory();
    let name = Room::name("hybrid-ended");
    let handlers = InvocationHandlers::new();
    let (pairs, pair) = HybridHome::new(Pair::default(), &handlers).unwrap();
    let (owned, handled) = (Arc::new(()), pair.clone());
    let theirs = owned.clone();
    // The handler has a lock of the home that has the handler.
    let (services, home) = handlers
        .on(ADD, move |_| {
            [(count_pair_up(handled.lock(LONG)).is_ok() && Arc::strong_count(&theirs) > 0).into(); 6]
        })
        .start();
    let running =
        services.export(Server::new().export(format!("{name}-pair"), pairs), &name).start().unwrap();
    let invoker = HomeInvoker::connect(&name).unwrap();
    assert_eq!(invoker.invoke(ADD, [0; 6], LONG), Ok([1; 6]));
    drop(home);
    assert_eq!(Arc::strong_count(&owned), 1);
    assert_eq!(invoker.invoke(ADD, [0; 6], LONG), Err(InvokeError::HomeDied));
    // Its lock is one still.
    count_pair_up(pair.lock(LONG)).unwrap();
    drop(running);
}
