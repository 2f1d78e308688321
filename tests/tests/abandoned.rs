//! Servers that don't come back: their callers are freed, and who holds too many calls loses the
//! binding.

use std::time::Duration;
use underpass::{Abandon, CallError, Outcome, thread};
use underpass_tests::{Watchdog, Worker, WorkerClient, Works, cont, stop, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// A handler that sees that nobody waits may reply before the caller has left.
fn is_freed(told: &Result<(), CallError>) {
    assert!(matches!(told, Ok(()) | Err(CallError::Abandoned(Outcome::Unknown))), "{told:?}");
}

#[test]
fn a_captured_caller_is_freed() {
    let _watchdog = Watchdog::new("a_captured_caller_is_freed");
    let works = Works::new(SERVER, "captured");
    let (client, abandon) = (works.client(), Abandon::new());
    let free = client.abandonable(&abandon);
    let call = |id| {
        let free = free.clone();
        move || free.stay(id)
    };
    let (user, kernel) = (thread::spawn(call(1)), std::thread::spawn(call(2)));
    let asks = free.clone();
    let asks = thread::spawn(move || asks.persist(3));
    (1..=3).for_each(|id| works.until_executed(id));
    assert_eq!(client.ended(), Ok(0), "it holds them");
    abandon.abandon();
    for told in [user.join().unwrap(), kernel.join().unwrap()] {
        assert_eq!(told, Err(CallError::Abandoned(Outcome::Unknown)));
    }
    is_freed(&asks.join().unwrap());
    until("the handler to see it", || (client.ended() == Ok(1)).then_some(()));
    assert_eq!(free.note(4), Err(CallError::Abandoned(Outcome::NotStarted)));
    assert_eq!(client.note(5), Ok(5), "the binding goes on");
}

#[test]
fn the_slot_of_an_abandoned_call_comes_back() {
    let _watchdog = Watchdog::new("the_slot_of_an_abandoned_call_comes_back");
    let works = Works::new(SERVER, "slots");
    let client = works.client();
    // More than there are slots, and never more than some at once.
    for id in 0..100 {
        let abandon = Abandon::new();
        let free = client.abandonable(&abandon);
        let caller = thread::spawn(move || free.persist(id));
        works.until_executed(id);
        abandon.abandon();
        is_freed(&caller.join().unwrap());
        until("the handler to see it", || (client.ended() == Ok(id + 1)).then_some(()));
    }
}

#[test]
fn callers_of_a_stopped_server_are_freed_wherever_they_wait() {
    let _watchdog = Watchdog::new("callers_of_a_stopped_server_are_freed_wherever_they_wait");
    let works = Works::new(SERVER, "stopped");
    let (client, abandon) = (works.client(), Abandon::new());
    client.note(0).unwrap();
    client.quarantine(64);
    stop(works.server.pid());
    // 64 have a slot, the others wait for one.
    let free = client.abandonable(&abandon);
    let callers: Vec<_> = (1..=100)
        .map(|id| {
            let free = free.clone();
            thread::spawn(move || free.note(id))
        })
        .collect();
    until("all slots to be leased", || (client.counters().calls == 65).then_some(()));
    abandon.abandon();
    for caller in callers {
        assert_eq!(caller.join().unwrap(), Err(CallError::Abandoned(Outcome::NotStarted)));
    }
    cont(works.server.pid());
    assert_eq!(client.note(101), Ok(101));
    assert_eq!(works.log.executed().into_keys().collect::<Vec<_>>(), [0, 101]);
}

#[test]
fn a_server_that_holds_too_many_loses_the_binding() {
    let _watchdog = Watchdog::new("a_server_that_holds_too_many_loses_the_binding");
    let works = Works::new(SERVER, "too-many");
    let client = works.client();
    client.quarantine(4);
    let other = {
        let client = client.clone();
        thread::spawn(move || client.stay(1))
    };
    works.until_executed(1);
    let hold = |id, client: &WorkerClient| {
        let abandon = Abandon::new();
        let free = client.abandonable(&abandon);
        let caller = thread::spawn(move || free.stay(id));
        works.until_executed(id);
        abandon.abandon();
        assert_eq!(caller.join().unwrap(), Err(CallError::Abandoned(Outcome::Unknown)));
    };
    (2..=5).for_each(|id| hold(id, &client));
    assert_eq!(client.note(6), Ok(6), "as many as it may");
    hold(7, &client);
    assert_eq!(other.join().unwrap(), Err(CallError::Captured(Outcome::Unknown)));
    assert_eq!(client.note(8), Err(CallError::Captured(Outcome::NotStarted)));
    // Another binding has slots of its own.
    assert_eq!(works.client().note(9), Ok(9));
}

#[test]
fn abandoning_races_with_replies() {
    let _watchdog = Watchdog::new("abandoning_races_with_replies");
    let works = Works::new(SERVER, "races");
    let client = works.client();
    // A server that gets no processor meanwhile has captured nobody.
    client.quarantine(64);
    let (mut done, mut freed) = (0, 0);
    for id in 0..300 {
        let abandon = Abandon::new();
        let free = client.abandonable(&abandon);
        let caller = thread::spawn(move || free.note(id));
        (0..id % 50).for_each(|_| std::hint::spin_loop());
        abandon.abandon();
        match caller.join().unwrap() {
            Ok(told) => done += u64::from(told == id),
            Err(CallError::Abandoned(_)) => freed += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(done + freed, 300);
    // All slots are there: so many calls at once are served.
    let callers: Vec<_> = (1000..1064)
        .map(|id| {
            let client = client.with_deadline(Duration::from_secs(3600));
            thread::spawn(move || client.note(id))
        })
        .collect();
    assert!(callers.into_iter().all(|caller| caller.join().unwrap().is_ok()));
}
