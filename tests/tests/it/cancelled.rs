//! Threads that are cancelled in calls, and callers that abandon calls whose handlers wait in calls
//! of their own.

use std::time::Duration;
use underpass::{Abandon, CallError, Outcome, thread};
use underpass_tests::{Watchdog, Worker, WorkerClient, Works, cont, stop, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// Checks that all slots are free: that many concurrent calls are served.
fn all_slots_are_there(client: &WorkerClient) {
    let callers: Vec<_> = (1000..1064)
        .map(|id| {
            let client = client.with_deadline(Duration::from_secs(3600));
            thread::spawn(move || client.note(id))
        })
        .collect();
    assert!(callers.into_iter().all(|caller| caller.join().unwrap().is_ok()));
}

#[test]
fn a_cancelled_thread_leaves_its_call_and_the_handler_sees_it() {
    let _watchdog = Watchdog::new("a_cancelled_thread_leaves_its_call_and_the_handler_sees_it");
    let works = Works::new(SERVER, "cancelled");
    let client = works.client();
    let call = |id| {
        let client = client.clone();
        move || client.stay(id)
    };
    let user = thread::spawn(call(1));
    let (tells, told) = std::sync::mpsc::channel();
    let stays = call(2);
    let kernel = std::thread::spawn(move || {
        tells.send(thread::current()).unwrap();
        stays()
    });
    let persists = client.clone();
    let persists = thread::spawn(move || persists.persist(3));
    (1..=3).for_each(|id| works.until_executed(id));
    assert_eq!(client.ended(), Ok(0), "nobody has been cancelled");
    user.cancel();
    told.recv().unwrap().cancel();
    for told in [user.join().unwrap(), kernel.join().unwrap()] {
        assert_eq!(told, Err(CallError::Cancelled(Outcome::Unknown)));
    }
    assert_eq!(client.ended(), Ok(0), "its caller waits");
    persists.cancel();
    let told = persists.join().unwrap();
    assert!(matches!(told, Ok(()) | Err(CallError::Cancelled(Outcome::Unknown))), "{told:?}");
    until("the handler to see it", || (client.ended() == Ok(1)).then_some(()));
    assert_eq!(client.note(4), Ok(4), "the binding goes on");
}

#[test]
fn a_cancelled_thread_begins_no_call_but_what_it_must_finish() {
    let _watchdog = Watchdog::new("a_cancelled_thread_begins_no_call_but_what_it_must_finish");
    let works = Works::new(SERVER, "cancelled-first");
    let client = works.client();
    let calls = move || {
        thread::current().cancel();
        let kept = (client.note(1), underpass::detached(|| client.note(2)), client.note(3));
        (kept, client.with_deadline(Duration::from_secs(3600)).note(4))
    };
    let not_started = || Err(CallError::Cancelled(Outcome::NotStarted));
    let expected = ((not_started(), Ok(2), not_started()), not_started());
    assert_eq!(thread::spawn(calls.clone()).join().unwrap(), expected);
    assert_eq!(std::thread::spawn(calls).join().unwrap(), expected);
    assert_eq!(works.log.executed().into_keys().collect::<Vec<_>>(), [2]);
}

#[test]
fn threads_are_cancelled_wherever_they_wait_for_a_stopped_server() {
    let _watchdog = Watchdog::new("threads_are_cancelled_wherever_they_wait_for_a_stopped_server");
    let works = Works::new(SERVER, "cancelled-stopped");
    let client = works.client();
    client.note(0).unwrap();
    client.quarantine(64);
    stop(works.server.pid());
    // 64 calls have a slot, and the others wait for one.
    let callers: Vec<_> = (1..=100)
        .map(|id| {
            let client = client.clone();
            thread::spawn(move || client.persist(id))
        })
        .collect();
    until("all slots to be leased", || (client.counters().calls == 65).then_some(()));
    callers.iter().for_each(thread::JoinHandle::cancel);
    let told: Vec<_> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
    let so_many = |outcome| told.iter().filter(|told| **told == Err(CallError::Cancelled(outcome))).count();
    assert_eq!((so_many(Outcome::Unknown), so_many(Outcome::NotStarted)), (64, 36), "{told:?}");
    // Calls that it takes now are refused, or are ended by a handler that notices. No slot is lost.
    cont(works.server.pid());
    all_slots_are_there(&client);
    let executed = works.log.executed();
    assert!(executed.keys().filter(|id| (1..=100).contains(*id)).count() <= 64, "{executed:?}");
}

#[test]
fn cancelling_races_with_replies() {
    let _watchdog = Watchdog::new("cancelling_races_with_replies");
    let works = Works::new(SERVER, "cancelled-races");
    let client = works.client();
    // A server that gets no processor meanwhile does not count as holding its callers.
    client.quarantine(64);
    for id in 0..300 {
        let called = client.clone();
        let caller = thread::spawn(move || called.note(id));
        (0..id % 50).for_each(|_| std::hint::spin_loop());
        caller.cancel();
        let told = caller.join().unwrap();
        assert!(told == Ok(id) || matches!(told, Err(CallError::Cancelled(_))), "{told:?}");
    }
    all_slots_are_there(&client);
}

/// Three servers, and the names of the last two.
struct Chain {
    first: Works,
    middle: Works,
    last: Works,
}

impl Chain {
    fn new(name: &str) -> Self {
        let one = |which| Works::new(SERVER, &format!("{name}-{which}"));
        Self { first: one("first"), middle: one("middle"), last: one("last") }
    }

    fn rest(&self) -> [String; 2] {
        [&self.middle, &self.last].map(|works| works.server.name().to_owned())
    }

    /// The results that the handlers of the first two servers got from their calls, once they got
    /// them.
    fn told(&self) -> [Vec<Option<CallError>>; 2] {
        [&self.first, &self.middle].map(|works| {
            let client = works.client();
            until("a handler to be told", || client.told().ok().filter(|told| !told.is_empty()))
        })
    }

    /// Waits until that many handlers of the last server have seen that nobody waits.
    fn until_ended(&self, calls: u64) {
        let client = self.last.client();
        let _ = until("the last handler to see it", || client.ended().ok().filter(|ended| *ended >= calls));
    }
}

/// The first two servers were told that their calls had ended. But the last handler checks all the
/// time, and may reply before the middle one gives its slot up.
fn ended_early([first, middle]: [Vec<Option<CallError>>; 2]) {
    let early = Some(CallError::Cancelled(Outcome::Unknown));
    assert_eq!(first, std::slice::from_ref(&early));
    assert!(middle == [early] || middle == [None], "{middle:?}");
}

#[test]
fn giving_up_reaches_the_end_of_a_chain() {
    let _watchdog = Watchdog::new("giving_up_reaches_the_end_of_a_chain");
    let chain = Chain::new("chain");
    let (client, abandon) = (chain.first.client(), Abandon::new());
    let (free, rest) = (client.abandonable(&abandon), chain.rest());
    let caller = thread::spawn(move || free.pass(&rest, 1));
    chain.last.until_executed(1);
    assert_eq!((client.told(), chain.last.client().ended()), (Ok(vec![]), Ok(0)));
    abandon.abandon();
    assert_eq!(caller.join().unwrap(), Err(CallError::Abandoned(Outcome::Unknown)));
    ended_early(chain.told());
    chain.until_ended(1);
    // A call whose abandonment was not announced: its thread is cancelled.
    let (called, rest) = (client.clone(), chain.rest());
    let caller = thread::spawn(move || called.pass(&rest, 2));
    chain.last.until_executed(2);
    caller.cancel();
    assert_eq!(caller.join().unwrap(), Err(CallError::Cancelled(Outcome::Unknown)));
    chain.until_ended(2);
    all_slots_are_there(&client);
}

#[test]
fn a_deadline_reaches_the_end_of_a_chain() {
    let _watchdog = Watchdog::new("a_deadline_reaches_the_end_of_a_chain");
    let chain = Chain::new("chain-late");
    let client = chain.first.client();
    // A deadline that is long enough for the last server to be reached. If it was not reached, the
    // next deadline is longer.
    let millis = (0..12).map(|n| 20 << n).find(|millis| {
        let told = client.with_deadline(Duration::from_millis(*millis)).pass(&chain.rest(), 1);
        // `Ok` if the last handler noticed first.
        assert!(matches!(told, Ok(()) | Err(CallError::Deadline(_) | CallError::Panicked(_))), "{told:?}");
        chain.last.log.executed().contains_key(&1)
    });
    assert!(millis.is_some());
    chain.until_ended(1);
    for client in [client, chain.middle.client()] {
        let told = client.told().unwrap();
        assert!(
            told.iter().flatten().all(|told| matches!(told, CallError::Deadline(_) | CallError::Panicked(_))),
            "{told:?}"
        );
    }
}

#[test]
fn calls_on_threads_that_work_for_a_handler_end_with_it() {
    let _watchdog = Watchdog::new("calls_on_threads_that_work_for_a_handler_end_with_it");
    let chain = Chain::new("chain-elsewhere");
    let (client, abandon) = (chain.first.client(), Abandon::new());
    let (free, rest) = (client.abandonable(&abandon), chain.rest());
    let caller = thread::spawn(move || free.pass_elsewhere(&rest, 1));
    chain.last.until_executed(1);
    abandon.abandon();
    assert_eq!(caller.join().unwrap(), Err(CallError::Abandoned(Outcome::Unknown)));
    ended_early(chain.told());
    chain.until_ended(1);
}

#[test]
fn a_call_that_a_handler_must_finish_goes_on() {
    let _watchdog = Watchdog::new("a_call_that_a_handler_must_finish_goes_on");
    let chain = Chain::new("chain-finish");
    let (client, abandon) = (chain.first.client(), Abandon::new());
    let free = client.abandonable(&abandon);
    let name = chain.last.server.name().to_owned();
    let finishes = free.clone();
    let finishes = thread::spawn(move || finishes.finish(&name, 10));
    let rest = chain.rest();
    let passes = thread::spawn(move || free.pass(&rest, 1));
    [1, 10].into_iter().for_each(|id| chain.last.until_executed(id));
    abandon.abandon();
    for caller in [finishes, passes] {
        assert_eq!(caller.join().unwrap(), Err(CallError::Abandoned(Outcome::Unknown)));
    }
    // One call has ended. The other one was told in the same way, and has not ended.
    chain.until_ended(1);
    assert_eq!(client.finished(), Ok(0));
    chain.last.log.note(11);
    until("it to be finished", || (client.finished() == Ok(1)).then_some(()));
    ended_early(chain.told());
}
